from collections.abc import Iterator

import pytest

from spark_kafka_native._spark.errors import OptionError
from spark_kafka_native._spark.offsets import SpecificOffsets
from spark_kafka_native._spark.options.companions import check_companions, check_rates, remark
from spark_kafka_native._spark.subscription import Subscribe


@pytest.fixture(autouse=True)
def _nothing_said_yet() -> Iterator[None]:
    remark.cache_clear()
    yield
    remark.cache_clear()


@pytest.mark.feature("source.minOffsetsPerTrigger")
def test_min_offsets_above_max_offsets() -> None:
    check_rates({"minOffsetsPerTrigger": 15, "maxOffsetsPerTrigger": 15})
    check_rates({"minOffsetsPerTrigger": 20})
    with pytest.raises(OptionError, match="20 is greater than maxOffsetsPerTrigger, 15") as caught:
        check_rates({"minOffsetsPerTrigger": 20, "maxOffsetsPerTrigger": 15})
    assert caught.value.option == "minOffsetsPerTrigger"


@pytest.mark.feature("more.maxPartitions")
def test_min_partitions_above_max_partitions() -> None:
    check_companions({"minPartitions": 8, "maxPartitions": 8})
    check_companions({"maxPartitions": 1})
    with pytest.raises(OptionError, match="'minPartitions': 9 is greater than maxPartitions, 8"):
        check_companions({"minPartitions": 9, "maxPartitions": 8})


@pytest.mark.feature("source.maxTriggerDelay")
def test_max_trigger_delay_without_min_offsets_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    check_rates({"maxTriggerDelay": 5})
    assert "'maxTriggerDelay' has no effect without 'minOffsetsPerTrigger'" in caplog.text


def test_unused_group_id_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        check_companions({"kafka.group.id": "g"})
    assert caplog.text.count("'kafka.group.id' has no effect without 'commitOffsetsToGroup'") == 1


@pytest.mark.parametrize("purpose", [{"commitOffsetsToGroup": True}, {"startingOffsets": "committed"}])
@pytest.mark.feature("source.groupId")
def test_group_id_is_required_by_its_options(purpose: dict[str, object], caplog: pytest.LogCaptureFixture) -> None:
    check_companions({"kafka.group.id": "g"} | purpose)
    assert caplog.text == ""
    with pytest.raises(OptionError, match=r"kafka\.group\.id"):
        check_companions(purpose)


@pytest.mark.feature("source.groupIdPrefix")
def test_group_id_prefix_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    check_companions({"groupIdPrefix": "p"})
    assert "'groupIdPrefix' has no effect" in caplog.text


def test_internal_topics_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    check_companions({"subscribe": Subscribe(topics=("__consumer_offsets", "a"))})
    assert "option 'subscribe' names internal topics, which are not read: __consumer_offsets" in caplog.text


@pytest.mark.parametrize("edge", ["starting", "ending"])
def test_offsets_default_needs_offset_json(edge: str) -> None:
    default = {f"{edge}OffsetsDefault": -1}
    check_companions(default | {f"{edge}Offsets": SpecificOffsets()})
    check_companions(default | {f"{edge}OffsetsByTimestamp": {}})
    with pytest.raises(OptionError, match=f"{edge}OffsetsByTimestamp', for partitions without a position"):
        check_companions(default)
