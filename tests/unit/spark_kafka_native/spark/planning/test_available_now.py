import pytest

from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.errors import DataLossError
from spark_kafka_native._spark.planning.available_now import check_same_partitions
from tests.support.spark.fake_offsets import FakeCluster
from tests.support.spark.stream_query import query

T0, T1, T2 = (TopicPartition("t", partition) for partition in range(3))


@pytest.mark.feature("rate.availableNow")
def test_available_now_with_max_offsets_has_no_extra_batch() -> None:
    """As the JVM connector's suite: 15 records in one of five partitions, 5 at a time, three batches."""
    cluster = FakeCluster().add("t", 0, 0, 15, 0, 0)
    running = query(cluster, startingOffsets="earliest").start(available_now=True).run_to_the_end(max_offsets=5)
    assert running.batches == [5, 5, 5]


def test_available_now_stops_at_the_first_end_offsets(cluster: FakeCluster) -> None:
    running = query(cluster, startingOffsets="earliest").start(available_now=True)
    running.trigger(6)
    cluster.produce("t", 0, 100)
    cluster.add("u", 5)
    running.run_to_the_end(6)
    assert running.batches == [6, 6, 2]
    running.start(available_now=True).run_to_the_end(60)
    assert running.read[T0] == list(range(110))


def test_next_available_now_run_from_latest_continues(cluster: FakeCluster) -> None:
    running = query(cluster, startingOffsets="latest").start(available_now=True).run_to_the_end()
    assert running.batches == [0]
    cluster.produce("t", 1, 2)
    running.start(available_now=True).run_to_the_end()
    assert running.read == {T1: [4, 5]}


@pytest.mark.feature("rate.availableNow")
def test_available_now_replays_a_batch_although_partitions_were_added(cluster: FakeCluster) -> None:
    """The target is what is there at the first look of this run; a batch of the last run has its own end."""
    running = query(cluster, startingOffsets="earliest").start(available_now=True)
    running.trigger(crash=True)
    cluster.add("t", 12, 4, 3)
    running.start(available_now=True).run_to_the_end()
    assert running.read == {T0: list(range(12)), T1: list(range(4)), T2: [0, 1, 2]}


@pytest.mark.feature("rate.availableNow")
@pytest.mark.parametrize("fail_on_data_loss", ["true", "false"])
def test_available_now_fails_when_partitions_are_lost(cluster: FakeCluster, fail_on_data_loss: str) -> None:
    running = query(cluster, startingOffsets="earliest", failOnDataLoss=fail_on_data_loss).start(available_now=True)
    running.trigger(5)
    cluster.remove("t", 1)
    with pytest.raises(
        DataLossError, match=r"partitions t-1 were lost during a query with Trigger\.AvailableNow"
    ) as caught:
        running.trigger(5)
    assert caught.value.code.endswith("LOST_TOPIC_PARTITIONS_IN_END_OFFSET_WITH_TRIGGER_AVAILABLENOW")


@pytest.mark.feature("rate.availableNow")
@pytest.mark.parametrize("fail_on_data_loss", ["true", "false"])
def test_available_now_fails_when_offsets_shrink(cluster: FakeCluster, fail_on_data_loss: str) -> None:
    running = query(cluster, startingOffsets="earliest", failOnDataLoss=fail_on_data_loss).start(available_now=True)
    running.trigger(5)
    cluster.end[T0] = 6
    running.trigger(1)
    with pytest.raises(DataLossError, match="partitions t-0 end before the offset"):
        running.run_to_the_end(5)


@pytest.mark.feature("rate.availableNowTail", "better.noTail")
@pytest.mark.parametrize("max_offsets", [None, "6"])
def test_available_now_leaves_no_tail_below_min_offsets(cluster: FakeCluster, max_offsets: str | None) -> None:
    limits = {"minOffsetsPerTrigger": "6"} | ({} if max_offsets is None else {"maxOffsetsPerTrigger": max_offsets})
    running = query(cluster, startingOffsets="earliest", **limits).start(available_now=True).run_to_the_end()
    assert running.batches == ([14] if max_offsets is None else [6, 6, 2])
    cluster.produce("t", 0, 1)
    running.start(available_now=True).run_to_the_end()
    assert running.read[T0] == list(range(11))


def test_available_now_does_not_read_added_partitions() -> None:
    check_same_partitions([T0], {T0: 1, T1: 1})
    with pytest.raises(DataLossError, match=r"a query with Trigger\.AvailableNow") as c:
        check_same_partitions([T0, T2], {T0: 1, T1: 1})
    assert c.value.code == "KAFKA_DATA_LOSS.MISMATCHED_TOPIC_PARTITIONS_BETWEEN_END_OFFSET_AND_PREFETCHED"


@pytest.mark.feature("rate.availableNow")
def test_failing_batch_is_replayed_after_partitions_were_added(cluster: FakeCluster) -> None:
    """The replayed batch must be planned, again and again, whatever was added: it is its tasks that fail."""
    running = query(cluster, startingOffsets="earliest").start(available_now=True)
    running.trigger(crash=True)
    for partitions in (3, 5):
        cluster.add("t", *([10] * partitions))
        running.commits = 0
        running.batches.clear()
        running.start(available_now=True)
        assert running.batches == [14]
