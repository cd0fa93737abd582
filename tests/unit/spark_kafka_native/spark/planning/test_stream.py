"""The driver's side of a stream, played as Spark plays it, against a cluster that is only numbers."""

from pathlib import Path

import pytest

from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.errors import DataLossError, OptionError, PlanError
from spark_kafka_native._spark.planning.packing import Task
from tests.support.spark.fake_offsets import LEADER, FakeCluster
from tests.support.spark.stream_query import query

T0, T1, T2 = (TopicPartition("t", partition) for partition in range(3))


# --- the initial offset


def test_initial_offset_is_looked_up_once(cluster: FakeCluster) -> None:
    running = query(cluster, startingOffsets="latest").start()
    first = running.stream.initial()
    cluster.produce("t", 0, 5)
    assert running.stream.initial() == first == {T0: 10, T1: 4}


def test_initial_offset_not_durable_from_latest(cluster: FakeCluster) -> None:
    """Killed between the write-ahead log of batch 0 and its commit; records that came meanwhile are read."""
    running = query(cluster, startingOffsets="latest").start()
    running.stream.initial()
    cluster.produce("t", 0, 3)
    running.trigger(crash=True)
    cluster.produce("t", 0, 2)
    cluster.produce("t", 1, 1)
    running.start().run_to_the_end()
    assert running.read == {T0: [10, 11, 12, 13, 14], T1: [4]}


def test_initial_offset_not_durable_without_new_records(cluster: FakeCluster) -> None:
    running = query(cluster, startingOffsets="latest").start()
    running.trigger(crash=True)
    running.start()
    cluster.produce("t", 0, 1)
    assert running.trigger()
    assert running.read == {T0: [10]}


def test_first_batch_from_latest_is_empty_and_the_second_is_not(cluster: FakeCluster) -> None:
    running = query(cluster, startingOffsets="latest").start()
    assert running.stream.initial() == {T0: 10, T1: 4}
    cluster.produce("t", 0, 3)
    running.run_to_the_end()
    assert running.offsets_log == [{T0: 10, T1: 4}, {T0: 13, T1: 4}]
    assert running.batches == [0, 3]


def test_trigger_once_from_latest_stores_its_start(cluster: FakeCluster) -> None:
    """ReadAllAvailable: all that is there at the start is nothing; what comes later is for the next run."""
    running = query(cluster, startingOffsets="latest").start()
    running.stream.initial()
    cluster.produce("t", 0, 3)
    running.trigger(max_offsets=None)
    running.start()
    running.trigger(max_offsets=None)
    assert running.read == {T0: [10, 11, 12]}


def test_first_batch_from_earliest_is_not_empty(cluster: FakeCluster) -> None:
    running = query(cluster, startingOffsets="earliest").start().run_to_the_end()
    assert running.batches == [14]


def test_first_batch_from_earliest_is_replayed(cluster: FakeCluster) -> None:
    running = query(cluster, startingOffsets="earliest").start()
    running.trigger(max_offsets=6, crash=True)
    cluster.produce("t", 0, 5)
    running.start().run_to_the_end()
    assert running.read == {T0: list(range(15)), T1: list(range(4))}
    assert running.batches[0] == 6


def test_only_partitions_that_start_at_latest_have_an_empty_first_batch(cluster: FakeCluster) -> None:
    running = query(cluster, startingOffsets='{"t":{"0":7,"1":-1}}').start()
    assert running.stream.initial() == {T0: 7, T1: 4}
    cluster.produce("t", 1, 2)
    running.trigger(crash=True)
    assert running.offsets_log == [{T0: 10, T1: 4}]
    cluster.produce("t", 1, 2)
    running.start().run_to_the_end()
    assert running.read == {T0: [7, 8, 9], T1: [4, 5, 6, 7]}


@pytest.mark.feature("source.startingOffsets")
def test_specific_offsets_earliest_latest_and_numbers() -> None:
    """As the JVM connector's suite: three records in each of five partitions."""
    cluster = FakeCluster().add("t", 3, 3, 3, 3, 3)
    running = query(cluster, startingOffsets='{"t":{"0":-2,"1":-1,"2":0,"3":1,"4":2}}').start().run_to_the_end()
    by_partition = {tp.partition: offsets for tp, offsets in running.read.items()}
    assert by_partition == {0: [0, 1, 2], 2: [0, 1, 2], 3: [1, 2], 4: [2]}


def test_partition_added_before_the_first_trigger_starts_at_earliest(cluster: FakeCluster) -> None:
    running = query(cluster, startingOffsets="latest").start()
    running.stream.initial()
    cluster.add("t", 10, 4, 2)
    running.trigger(crash=True)
    running.start().run_to_the_end()
    assert running.read == {T2: [0, 1]}


# --- restarts


def test_new_partitions_start_at_earliest(cluster: FakeCluster) -> None:
    running = query(cluster, startingOffsets="latest").start().run_to_the_end()
    cluster.add("t", 11, 4, 3)
    running.later().run_to_the_end(max_offsets=2)
    assert running.read == {T0: [10], T2: [0, 1, 2]}


def test_only_assigned_partitions_are_read(cluster: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    running = query(cluster, assign='{"t":[1,7]}', startingOffsets="earliest").start().run_to_the_end()
    cluster.add("t", 10, 4, 3)
    running.later().run_to_the_end()
    assert running.read == {T1: [0, 1, 2, 3]}
    assert caplog.text.count("assigned partitions that do not exist are not read: t-7") == 1


def test_topics_that_match_a_pattern_later_start_at_earliest(cluster: FakeCluster) -> None:
    running = query(cluster, subscribePattern="^(t|u.*)$", startingOffsets="latest").start().run_to_the_end()
    cluster.add("u1", 2)
    cluster.add("w", 9)
    running.later().run_to_the_end()
    assert running.read == {TopicPartition("u1", 0): [0, 1]}


def test_pattern_without_topics_has_no_batch() -> None:
    cluster = FakeCluster()
    running = query(cluster, subscribePattern="t").start().run_to_the_end()
    cluster.add("t", 3)
    running.later().run_to_the_end()
    assert running.read == {T0: [0, 1, 2]}


@pytest.mark.feature("source.maxOffsetsPerTrigger", "better.exactLimits", "rate.once")
def test_max_offsets_per_trigger_as_the_jvm_connector() -> None:
    """101, 11 and 1 records, 10 at a time, with a restart in between; then Trigger.Once takes the rest."""
    cluster = FakeCluster().add("t", 101, 11, 1)
    running = query(cluster, startingOffsets="earliest").start()
    running.trigger(10)
    assert running.read == {T0: list(range(8)), T1: [0], T2: [0]}
    running.trigger(10)
    assert running.offsets_log[-1] == {T0: 17, T1: 2, T2: 1}
    running.start()
    running.trigger(10)
    running.trigger(10)
    assert running.offsets_log[-1] == {T0: 35, T1: 4, T2: 1}
    assert running.batches == [10, 10, 10, 10]
    running.start()
    running.trigger(None)
    assert running.batches[-1] == 73
    assert running.read == {T0: list(range(101)), T1: list(range(11)), T2: [0]}


@pytest.mark.feature("source.maxOffsetsPerTrigger")
def test_huge_limits_do_not_overflow(cluster: FakeCluster) -> None:
    running = query(cluster, startingOffsets='{"t":{"0":5,"1":0}}').start().run_to_the_end(max_offsets=2**63 - 1)
    assert running.batches == [9]


def test_ranges_are_split_and_know_their_leader(cluster: FakeCluster) -> None:
    running = query(cluster, startingOffsets="earliest", minPartitions="4").start()
    ranges = [piece for (piece,) in running.stream.plan({T0: 0, T1: 0}, {T0: 10, T1: 4})]
    assert [str(piece) for piece in ranges] == [
        "t-0 offsets [0, 3)",
        "t-0 offsets [3, 6)",
        "t-0 offsets [6, 10)",
        "t-1 offsets [0, 4)",
    ]
    assert {piece.leader for piece in ranges} == {LEADER._replace(topic_id=cluster.ids["t"])}


@pytest.mark.feature("more.maxPartitions")
def test_max_partitions_puts_ranges_of_a_leader_together(cluster: FakeCluster) -> None:
    cluster.add("u", 5, 5, 5)
    running = query(cluster, subscribe="t,u", startingOffsets="earliest", maxPartitions="2").start()
    other = LEADER._replace(node=LEADER.node._replace(node_id=2))
    leaders = {TopicPartition("u", 1): other, T1: other}
    cluster.leaders = lambda partitions: {tp: leaders.get(tp, LEADER) for tp in partitions}  # type: ignore[method-assign]
    end = running.stream.latest(start := running.stream.initial())
    tasks = running.stream.plan(start, {tp: end[tp] for tp in end})
    assert [[(piece.topic, piece.partition) for piece in task] for task in tasks] == [
        [("t", 0), ("u", 0)],
        [("u", 2), ("t", 1), ("u", 1)],
    ]
    assert running.stream.plan(start, end) == tasks, "planned again"
    leaders.clear()
    moved = running.stream.plan(start, end)
    assert moved != tasks

    def read(planned: list[Task]) -> set[tuple[TopicPartition, int, int]]:
        return {(piece.topic_partition, piece.from_offset, piece.until_offset) for task in planned for piece in task}

    assert read(moved) == read(tasks)


def test_empty_batch_sends_no_request(cluster: FakeCluster) -> None:
    assert query(cluster).start().stream.plan({T0: 10, T1: 4}, {T0: 10, T1: 4}) == []
    assert cluster.requests == []


# --- minOffsetsPerTrigger and maxTriggerDelay


@pytest.mark.feature("source.minOffsetsPerTrigger", "source.maxTriggerDelay", "rate.minOrDelay")
def test_compositing_read_limit() -> None:
    """As the JVM connector's suite: at least 15, at most 20, or whatever there is after 5 s."""
    cluster = FakeCluster().add("t", 10, 5, 1)
    limits = {"minOffsetsPerTrigger": "15", "maxOffsetsPerTrigger": "20", "maxTriggerDelay": "5s"}
    running = query(cluster, startingOffsets="earliest", **limits).start()
    assert running.trigger()
    cluster.produce("t", 0, 6)
    assert not running.later().trigger()
    cluster.produce("t", 1, 11)
    cluster.produce("t", 2, 1)
    assert running.later().trigger()
    cluster.produce("t", 0, 10)
    assert not running.later(4000).trigger()
    assert running.later(1000).trigger()
    assert running.batches == [16, 18, 10]
    cluster.produce("t", 0, 100)
    assert running.later().trigger()
    assert running.batches[-1] == 20


@pytest.mark.feature("source.minOffsetsPerTrigger")
def test_min_offsets_per_trigger_first_batch_is_always_processed() -> None:
    """As the JVM connector's suite: 10 + 5 + 1 records, then 6, then 12 more."""
    cluster = FakeCluster().add("t", 10, 5, 0)
    running = query(cluster, startingOffsets="earliest", minOffsetsPerTrigger="16").start()
    assert running.trigger()
    cluster.produce("t", 2, 6)
    assert not running.later().trigger()
    cluster.produce("t", 0, 10)
    assert running.later().trigger()
    running.start()
    cluster.produce("t", 0, 1)
    assert running.later().trigger(), "the first batch of a run never waits"
    assert running.batches == [15, 16, 1]


@pytest.mark.feature("rate.once", "source.minOffsetsPerTrigger")
def test_trigger_once_ignores_min_offsets(cluster: FakeCluster) -> None:
    running = query(cluster, startingOffsets="earliest", minOffsetsPerTrigger="5", maxOffsetsPerTrigger="5").start()
    running.trigger()
    assert running.batches == [5]
    cluster.produce("t", 0, 2)
    running.start().trigger(once=True)
    assert running.batches == [5, 11]


@pytest.mark.feature("source.minOffsetsPerTrigger", "source.maxTriggerDelay")
def test_idle_time_counts_for_max_trigger_delay(cluster: FakeCluster) -> None:
    running = query(cluster, minOffsetsPerTrigger="5", maxTriggerDelay="1m").start().run_to_the_end()
    for _ in range(10):
        assert not running.later(60_000).trigger()
    cluster.produce("t", 0, 1)
    assert running.later().trigger()
    cluster.produce("t", 0, 4)
    assert not running.later().trigger()


@pytest.mark.feature("source.minOffsetsPerTrigger")
def test_deleted_partition_is_reported_at_once(cluster: FakeCluster) -> None:
    running = query(cluster, startingOffsets="earliest", minOffsetsPerTrigger="1000", maxTriggerDelay="1h").start()
    running.run_to_the_end()
    cluster.remove("t", 1)
    with pytest.raises(DataLossError, match="PARTITIONS_DELETED"):
        running.later().trigger()


def test_new_partitions_count_from_their_first_offset(cluster: FakeCluster) -> None:
    running = query(cluster, startingOffsets="earliest", minOffsetsPerTrigger="5", failOnDataLoss="false").start()
    running.run_to_the_end()
    cluster.first[T2], cluster.end[T2] = 100, 104
    assert not running.later().trigger()
    cluster.produce("t", 2, 1)
    assert running.later().trigger()
    assert running.read[T2] == [100, 101, 102, 103, 104]


# --- a first batch that the JVM connector began


@pytest.fixture
def jvm_checkpoint(tmp_path: Path) -> Path:
    """The JVM connector's query began at t-0@3, t-1@1."""
    source = tmp_path / "sources" / "0"
    source.mkdir(parents=True)
    (source / "0").write_bytes(b'\0v1\n{"t":{"1":1,"0":3}}')
    return tmp_path


@pytest.mark.feature("more.jvmCheckpoint")
@pytest.mark.parametrize("starting", ["latest", "earliest", '{"t":{"0":0,"1":0}}'])
def test_first_batch_of_the_jvm_connector_needs_jvm_checkpoint(cluster: FakeCluster, starting: str) -> None:
    running = query(cluster, startingOffsets=starting).start()
    start = running.stream.initial()
    with pytest.raises(PlanError, match="option 'jvmCheckpoint'") as caught:
        running.stream.plan(start, {T0: 9, T1: 4}, from_elsewhere=True)
    assert caught.value.code == "KAFKA_START_OF_FIRST_BATCH_UNKNOWN"


@pytest.mark.feature("more.jvmCheckpoint")
@pytest.mark.parametrize("starting", ["latest", "earliest"])
def test_batch_of_the_jvm_connector_starts_at_the_offsets_of_its_checkpoint(
    cluster: FakeCluster, jvm_checkpoint: Path, starting: str
) -> None:
    cluster.add("t", 20, 14, 2)
    running = query(cluster, startingOffsets=starting, jvmCheckpoint=str(jvm_checkpoint))
    running.offsets_log.append({T0: 9, T1: 4})
    running.start().run_to_the_end()
    assert running.read == {T0: list(range(3, 20)), T1: list(range(1, 14)), T2: [0, 1]}


@pytest.mark.feature("more.jvmCheckpoint")
def test_batch_of_the_jvm_connector_with_a_partition_that_was_added_after_its_start(
    cluster: FakeCluster, jvm_checkpoint: Path
) -> None:
    cluster.add("t", 10, 4, 3)
    running = query(cluster, jvmCheckpoint=str(jvm_checkpoint))
    running.offsets_log.append({T0: 9, T1: 4, T2: 2})
    running.start()
    assert running.read == {T0: list(range(3, 9)), T1: [1, 2, 3], T2: [0, 1]}


@pytest.mark.feature("more.jvmCheckpoint")
def test_start_of_the_jvm_connector_that_aged_out_is_data_loss(cluster: FakeCluster, jvm_checkpoint: Path) -> None:
    cluster.first[T0] = 5
    running = query(cluster, jvmCheckpoint=str(jvm_checkpoint))
    running.offsets_log.append({T0: 9, T1: 4})
    with pytest.raises(DataLossError, match=r"COULD_NOT_READ_OFFSET_RANGE\] offsets \[3, 5\) of t-0"):
        running.start()


@pytest.mark.feature("more.resumeJvm")
def test_later_batch_of_the_jvm_connector_needs_no_start(cluster: FakeCluster) -> None:
    """Spark has the end of the batch before, and asks for no initial offset."""
    tasks = query(cluster).start().stream.plan({T0: 3, T1: 1}, {T0: 9, T1: 4}, from_elsewhere=True)
    assert [str(piece) for (piece,) in tasks] == ["t-0 offsets [3, 9)", "t-1 offsets [1, 4)"]


def test_new_query_starts_at_the_offsets_of_a_jvm_checkpoint(cluster: FakeCluster, jvm_checkpoint: Path) -> None:
    running = query(cluster, jvmCheckpoint=str(jvm_checkpoint)).start()
    running.trigger(crash=True)
    cluster.produce("t", 0, 3)
    running.start().run_to_the_end()
    assert running.read == {T0: list(range(3, 13)), T1: [1, 2, 3]}


def test_missing_jvm_checkpoint_is_an_error(cluster: FakeCluster, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"option 'jvmCheckpoint': .* has no file 0, so it is not a checkpoint"):
        query(cluster, jvmCheckpoint=str(tmp_path)).start().stream.initial()
