from uuid import UUID

import pytest

from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.errors import AfterRestart, DataLossError, DataLossKind
from spark_kafka_native._spark.offsets import OffsetMap
from spark_kafka_native._spark.planning.data_loss import (
    BatchPlan,
    accept_or_raise,
    deleted_before_read,
    lagging_partitions,
    plan_batch,
    plan_replayed_first_batch,
    topic_recreated,
)
from spark_kafka_native._spark.planning.topic_ids import Recreated

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
NONE_FIRST: OffsetMap = {A0: 0, A1: 0, B0: 0}


def found(plan: BatchPlan) -> tuple[list[str], list[DataLossKind]]:
    return [str(piece) for piece in plan.ranges], [loss.kind for loss in plan.losses]


CHANGE = Recreated(topic="a", old_id=UUID(int=1), new_id=UUID(int=2), partitions=(A0, A1))


@pytest.mark.feature("better.recreated")
def test_recreated_topic_is_a_loss() -> None:
    longer = topic_recreated(CHANGE, {A0: 3, A1: 1}, {A0: 3, A1: 9}, commits_ids=False)
    assert longer.kind is DataLossKind.TOPIC_RECREATED
    assert longer.reason.startswith(
        "topic a was deleted and created again (its id was AAAAAAAAAAAAAAAAAAAAAQ, it is AAAAAAAAAAAAAAAAAAAAAg now). "
    )
    assert topic_recreated(CHANGE, {A0: 3, A1: 1}, {A0: 3}, commits_ids=False).kind is DataLossKind.TOPIC_RECREATED
    shorter = topic_recreated(CHANGE, {A0: 3, A1: 1}, {A0: 4, A1: 0}, commits_ids=False)
    assert shorter.kind is DataLossKind.OFFSET_CHANGED
    assert "; the end of a-1 was changed from 1 to 0. " in shorter.reason
    with_ids = topic_recreated(CHANGE, {A0: 3, A1: 1}, {A0: 3, A1: 9}, commits_ids=True)
    assert [loss.restart for loss in (longer, shorter, with_ids)] == [
        AfterRestart.READS_OLD_OFFSETS,  # no query without ids could find it
        AfterRestart.FINDS_IT,
        AfterRestart.FINDS_IT,
    ]


def test_ranges_between_two_offsets() -> None:
    plan = plan_batch({A0: 3, A1: 5, B0: 0}, {B0: 4, A0: 7, A1: 5}, NONE_FIRST, new_topics_start_at_zero=True)
    assert found(plan) == (["a-0 offsets [3, 7)", "b-0 offsets [0, 4)"], [])


@pytest.mark.feature("loss.deleted")
def test_deleted_partition_of_the_start_is_a_loss() -> None:
    plan = plan_batch({A0: 3, A1: 5}, {A0: 7}, NONE_FIRST, new_topics_start_at_zero=True)
    assert found(plan) == (["a-0 offsets [3, 7)"], [DataLossKind.PARTITIONS_DELETED])
    assert "a-1" in plan.losses[0].reason


def test_partition_deleted_before_planning_is_a_loss() -> None:
    plan = plan_batch({A0: 3, A1: 5}, {A0: 7, A1: 9}, {A0: 0}, new_topics_start_at_zero=True)
    assert found(plan) == (["a-0 offsets [3, 7)"], [DataLossKind.PARTITIONS_DELETED])


def test_new_partition_is_read_from_its_first_record() -> None:
    plan = plan_batch({A0: 3}, {A0: 3, A1: 9}, NONE_FIRST, new_topics_start_at_zero=True)
    assert found(plan) == (["a-1 offsets [0, 9)"], [])


@pytest.mark.feature("loss.noInitialOffset")
def test_deleted_new_partition_is_a_loss() -> None:
    plan = plan_batch({A0: 3}, {A0: 4, A1: 9}, {A0: 0}, new_topics_start_at_zero=True)
    assert found(plan) == (["a-0 offsets [3, 4)"], [DataLossKind.INITIAL_OFFSET_NOT_FOUND])


@pytest.mark.feature("loss.addedNotFromZero")
def test_new_partition_of_a_known_topic_must_start_at_offset_zero() -> None:
    plan = plan_batch({A0: 3}, {A0: 3, A1: 9}, {A1: 4}, new_topics_start_at_zero=False)
    assert found(plan) == (["a-1 offsets [4, 9)"], [DataLossKind.ADDED_PARTITION_STARTS_LATE])


@pytest.mark.feature("loss.addedNotFromZero")
def test_trimmed_topic_added_to_subscribe_is_no_loss() -> None:
    start, end, first = {A0: 3}, {A0: 3, B0: 9}, {B0: 4}
    assert found(plan_batch(start, end, first, new_topics_start_at_zero=False)) == (["b-0 offsets [4, 9)"], [])
    # With a pattern the topic came by itself: its first records were to be read.
    assert plan_batch(start, end, first, new_topics_start_at_zero=True).losses


@pytest.mark.feature("loss.changed")
def test_decreased_end_offset_is_a_loss() -> None:
    plan = plan_batch({A0: 2, A1: 1}, {A0: 1, A1: 2}, NONE_FIRST, new_topics_start_at_zero=True)
    assert found(plan) == (["a-1 offsets [1, 2)"], [DataLossKind.OFFSET_CHANGED])
    assert "was changed from 2 to 1" in plan.losses[0].reason


@pytest.mark.parametrize(
    ("first", "ranges", "lost"), [(5, ["a-0 offsets [5, 9)"], "[3, 5)"), (9, [], "[3, 9)"), (20, [], "[3, 9)")]
)
@pytest.mark.feature("loss.agedOut", "better.agedOut")
def test_deleted_start_is_a_loss_in_planning(first: int, ranges: list[str], lost: str) -> None:
    plan = plan_batch({A0: 3}, {A0: 9}, {A0: first}, new_topics_start_at_zero=True)
    assert found(plan) == (ranges, [DataLossKind.COULD_NOT_READ])
    assert lost in plan.losses[0].reason


def test_partitions_without_new_records_have_no_loss() -> None:
    assert found(plan_batch({A0: 3}, {A0: 3}, {}, new_topics_start_at_zero=True)) == ([], [])


# --- the first batch again


def never(_: TopicPartition) -> bool:
    return False


def always(_: TopicPartition) -> bool:
    return True


def test_replayed_first_batch_of_a_query_from_latest_is_empty_again() -> None:
    plan = plan_replayed_first_batch({A0: 12, A1: 7}, {A0: 10, A1: 7}, {}, always)
    assert found(plan) == ([], [])


def test_replayed_first_batch_of_a_query_from_earliest_reads_what_it_read() -> None:
    plan = plan_replayed_first_batch({A0: 0, A1: 0}, {A0: 10, A1: 7}, NONE_FIRST, never)
    assert found(plan) == (["a-0 offsets [0, 10)", "a-1 offsets [0, 7)"], [])


def test_replayed_first_batch_omits_new_partitions() -> None:
    plan = plan_replayed_first_batch({A0: 0, A1: 0}, {A0: 10}, NONE_FIRST, never)
    assert found(plan) == (["a-0 offsets [0, 10)"], [])


def test_replayed_first_batch_with_deleted_records() -> None:
    plan = plan_replayed_first_batch({A0: 12}, {A0: 10}, {A0: 12}, never)
    assert found(plan) == ([], [DataLossKind.OFFSET_CHANGED])


def test_replayed_first_batch_with_a_deleted_partition() -> None:
    plan = plan_replayed_first_batch({A0: 0}, {A0: 10, A1: 7}, NONE_FIRST, never)
    assert found(plan) == (["a-0 offsets [0, 10)"], [DataLossKind.PARTITIONS_DELETED])
    assert found(plan_replayed_first_batch({A0: 9}, {A0: 9, A1: 7}, {}, always)) == ([], [])


# --- what becomes of a loss


@pytest.mark.feature("source.failOnDataLoss")
def test_loss_is_raised_with_a_stable_code_and_the_option_that_changes_it() -> None:
    with pytest.raises(DataLossError) as caught:
        accept_or_raise(deleted_before_read(A0, 3, 5), fail=True)
    text = str(caught.value)
    assert text.startswith("[KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] offsets [3, 5) of a-0")
    assert "'failOnDataLoss' to false" in text
    assert "nothing else was lost" in text


def test_loss_is_logged_when_it_is_accepted(caplog: pytest.LogCaptureFixture) -> None:
    accept_or_raise(deleted_before_read(A0, 3, 5), fail=False)
    assert "[KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] offsets [3, 5) of a-0" in caplog.text


def test_lagging_partitions() -> None:
    assert lagging_partitions({A0: 5, A1: 5, B0: 5}, {A0: 5, A1: 4}) == [A1, B0]
