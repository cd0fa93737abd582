import pytest

from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.errors import OptionError
from spark_kafka_native._spark.offsets import (
    Earliest,
    GlobalTimestamp,
    Latest,
    NoMatch,
    OffsetLimit,
    PartitionTimestamps,
    SpecificOffsets,
)
from spark_kafka_native._spark.options.limits import check_batch_limits, ending_limit, starting_limit

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
AT_5 = GlobalTimestamp(timestamp_ms=5, no_match=NoMatch.ERROR)


def test_defaults_of_starting_and_ending_offsets() -> None:
    assert starting_limit({}, default=Earliest()) == Earliest()
    assert ending_limit({}) == Latest()


def test_timestamp_zero_is_a_timestamp() -> None:
    assert starting_limit({"startingTimestamp": 0}, default=Latest()) == GlobalTimestamp(
        timestamp_ms=0, no_match=NoMatch.ERROR
    )
    assert ending_limit({"endingTimestamp": 0}) == GlobalTimestamp(timestamp_ms=0, no_match=NoMatch.LATEST)


@pytest.mark.parametrize(
    ("starting", "ending"),
    [
        (Earliest(), Latest()),
        (AT_5, AT_5),
        (AT_5, SpecificOffsets(offsets={T0: 1})),
        (SpecificOffsets(offsets={T0: 5}), SpecificOffsets(offsets={T0: 5})),
        (SpecificOffsets(offsets={T0: 5}), SpecificOffsets(offsets={T0: -1})),
        (SpecificOffsets(offsets={T0: -2}), SpecificOffsets(offsets={T0: 0})),
        (SpecificOffsets(topics={"t": -2}), SpecificOffsets(offsets={T1: 3})),
        (SpecificOffsets(offsets={T0: 5}), Latest()),
    ],
)
def test_valid_offset_limits_of_a_batch(starting: OffsetLimit, ending: OffsetLimit) -> None:
    check_batch_limits(starting, ending)


@pytest.mark.parametrize(
    ("starting", "ending", "option"),
    [
        (Latest(), Latest(), "startingOffsets"),
        (SpecificOffsets(topics={"t": -1}), Latest(), "startingOffsets"),
        (Earliest(), Earliest(), "endingOffsets"),
        (Earliest(), SpecificOffsets(topics={"t": -2}), "endingOffsets"),
        (SpecificOffsets(offsets={T0: 5}), SpecificOffsets(offsets={T0: 4}), "endingOffsets"),
        (SpecificOffsets(offsets={T0: 5}), SpecificOffsets(offsets={T1: 6}), "endingOffsets"),
        (
            PartitionTimestamps(timestamps={T0: 5}, no_match=NoMatch.ERROR),
            PartitionTimestamps(timestamps={T0: 4}, no_match=NoMatch.LATEST),
            "endingOffsetsByTimestamp",
        ),
        (AT_5, GlobalTimestamp(timestamp_ms=4, no_match=NoMatch.LATEST), "endingTimestamp"),
    ],
)
def test_offset_limits_without_offsets_between_them(starting: OffsetLimit, ending: OffsetLimit, option: str) -> None:
    with pytest.raises(OptionError) as caught:
        check_batch_limits(starting, ending)
    assert caught.value.option == option
