import random
from uuid import UUID, uuid4

import pytest

from spark_kafka_native._client.admin.committed_offsets import OffsetAndMetadata
from spark_kafka_native._protocol.ids import format_id
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.errors import DataLossError
from spark_kafka_native._spark.planning.topic_ids import CommitMark, TopicIds
from tests.support.spark.fake_offsets import LEADER, FakeCluster
from tests.support.spark.stream_query import StreamQuery

T0, T1 = (TopicPartition("t", partition) for partition in range(2))
U0 = TopicPartition("u", 0)
A, B, C = uuid4(), uuid4(), uuid4()


def finished(cluster: FakeCluster, **options: str) -> StreamQuery:
    running = StreamQuery(cluster, {"startingOffsets": "earliest"} | options).start().run_to_the_end()
    assert running.read == {T0: list(range(10)), T1: list(range(4))}
    return running.later()


IN_A_GROUP = {"kafka.group.id": "g", "commitOffsetsToGroup": "true"}


# --- while the query runs


@pytest.mark.feature("better.recreated", "source.failOnDataLoss")
@pytest.mark.parametrize("ends", [(10, 4), (11, 4), (500, 0), (10, 4, 7)])
def test_longer_recreated_topic_fails_the_query(cluster: FakeCluster, ends: tuple[int, ...]) -> None:
    running = finished(cluster)
    cluster.recreate("t", *ends)
    is_shorter = ends[1] < 4
    code = "PARTITION_OFFSET_CHANGED" if is_shorter else "TOPIC_RECREATED"
    with pytest.raises(DataLossError, match=r"topic t was deleted and created again \(its id was ") as caught:
        running.trigger()
    assert caught.value.code == f"KAFKA_DATA_LOSS.{code}"
    advice = "'failOnDataLoss' to false" if is_shorter else "Start it with a new checkpointLocation"
    assert advice in str(caught.value)
    assert running.clock.slept_ms == 0
    assert len(running.offsets_log) == 1, "the loss must not become a part of the checkpoint"


@pytest.mark.feature("loss.changed")
def test_subscribe_topic_by_pattern_with_topic_recreation_between_batches() -> None:
    """As the JVM connector's suite: "was changed from 2 to 1"."""
    cluster = FakeCluster().add("t", 2)
    running = StreamQuery(cluster, {"subscribePattern": "t.*", "startingOffsets": "earliest"}).start().run_to_the_end()
    running.later()
    cluster.recreate("t", 1)
    with pytest.raises(DataLossError, match=r"PARTITION_OFFSET_CHANGED\].*the end of t-0 was changed from 2 to 1"):
        running.trigger()


@pytest.mark.feature("better.recreated", "source.failOnDataLoss")
@pytest.mark.parametrize("max_offsets", [None, 3, 7, 100])
@pytest.mark.parametrize("ends", [(10, 4), (12, 9), (3, 2), (0, 4), (10, 0), (60, 1)])
def test_recreated_topic_is_read_from_its_first_offset(
    cluster: FakeCluster, ends: tuple[int, int], max_offsets: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    running = finished(cluster, failOnDataLoss="false")
    running.read.clear()
    cluster.recreate("t", *ends)
    while running.trigger(max_offsets):
        running.later()
    assert running.read.get(T0, []) == list(range(ends[0]))
    assert running.read.get(T1, []) == list(range(ends[1]))
    assert caplog.text.count("is read from its first offset") == 1
    cluster.produce("t", 0, 2)
    running.later().run_to_the_end()
    assert running.read[T0] == list(range(ends[0] + 2))


@pytest.mark.parametrize(("ends", "first"), [((20, 9), 5), ((12,), 0)], ids=["trimmed", "fewer partitions"])
def test_another_first_offset_or_number_of_partitions(cluster: FakeCluster, ends: tuple[int, ...], first: int) -> None:
    running = finished(cluster, failOnDataLoss="false")
    running.read.clear()
    cluster.recreate("t", *ends, first=first)
    running.run_to_the_end()
    assert running.read == {tp: list(range(first, end)) for tp, end in zip((T0, T1), ends, strict=False)}
    assert running.offsets_log[-1] == dict(zip((T0, T1), ends, strict=False))


def test_recreated_twice_while_a_batch_is_under_way(cluster: FakeCluster) -> None:
    running = finished(cluster, failOnDataLoss="false")
    running.read.clear()
    cluster.recreate("t", 30, 5)
    assert running.trigger(20)
    cluster.recreate("t", 40, 1)
    running.later().read.clear()
    running.run_to_the_end()
    assert running.read == {T0: list(range(40)), T1: [0]}


def test_topic_recreated_while_it_was_missing(cluster: FakeCluster) -> None:
    running = finished(cluster, failOnDataLoss="false")
    cluster.remove("t")
    assert not running.trigger()
    cluster.add("t", 11, 4)
    running.later().read.clear()
    running.run_to_the_end()
    assert running.read == {T0: list(range(11)), T1: list(range(4))}


def test_partition_of_a_recreated_topic_is_new(cluster: FakeCluster) -> None:
    cluster.add("u", 3)
    running = StreamQuery(
        cluster, {"subscribePattern": "t|u", "startingOffsets": "earliest", "failOnDataLoss": "false"}
    )
    running.start().run_to_the_end()
    cluster.remove("u")
    running.later().run_to_the_end()
    cluster.add("u", 5)
    running.later().run_to_the_end()
    assert running.read[U0] == [0, 1, 2, 0, 1, 2, 3, 4]
    assert running.batches == [17, 0, 5]


def test_recreated_before_the_first_batch(cluster: FakeCluster) -> None:
    for options, expected in (({"startingOffsets": "latest"}, None), ({"failOnDataLoss": "false"}, [0, 1])):
        running = StreamQuery(cluster, options).start()
        running.stream.initial()
        cluster.recreate("t", 2, 0)
        if expected is None:
            with pytest.raises(DataLossError, match="created again"):
                running.trigger()
        else:
            running.run_to_the_end()
            assert running.read == {T0: [0, 1]}
        cluster.recreate("t", 10, 4)


def test_cluster_without_topic_ids(cluster: FakeCluster) -> None:
    cluster.ids.clear()
    running = finished(cluster)
    cluster.recreate("t", 12, 4)
    cluster.ids.clear()
    running.run_to_the_end()
    assert running.read[T0] == list(range(12))


@pytest.mark.feature("better.recreated", "rate.availableNow")
@pytest.mark.parametrize("fail_on_data_loss", ["true", "false"])
def test_recreated_during_available_now_fails_the_query(cluster: FakeCluster, fail_on_data_loss: str) -> None:
    options = {"startingOffsets": "earliest", "failOnDataLoss": fail_on_data_loss}
    running = StreamQuery(cluster, options).start(available_now=True)
    running.trigger(5)
    cluster.recreate("t", 100, 100)
    with pytest.raises(
        DataLossError, match=r"TOPIC_RECREATED\] topics t were deleted and created again during a query"
    ):
        running.trigger(5)


# --- across restarts, with commits to a group


@pytest.mark.feature("better.recreatedAcrossRestarts")
def test_recreated_while_the_query_was_down_fails_it(cluster: FakeCluster) -> None:
    running = finished(cluster, **IN_A_GROUP)
    cluster.recreate("t", 50, 50)
    for _ in range(2):
        with pytest.raises(DataLossError, match=r"TOPIC_RECREATED\] topic t was deleted and created again"):
            running.start().trigger()


@pytest.mark.feature("better.recreatedAcrossRestarts")
@pytest.mark.parametrize("max_offsets", [None, 7])
def test_recreated_while_the_query_was_down_is_read_whole(cluster: FakeCluster, max_offsets: int | None) -> None:
    running = finished(cluster, failOnDataLoss="false", **IN_A_GROUP)
    running.read.clear()
    cluster.recreate("t", 10, 5)
    for _ in range(12):
        running.start().trigger(max_offsets)
        running.later()
    assert running.read == {T0: list(range(10)), T1: list(range(5))}
    running.options = dict(running.options) | {"failOnDataLoss": "true"}
    assert not running.start().trigger()


@pytest.mark.feature("better.recreatedAcrossRestarts")
@pytest.mark.parametrize("ends", [(13, 5), (11, 9), (2, 0)])
def test_recreated_between_a_batch_and_its_replay(cluster: FakeCluster, ends: tuple[int, int]) -> None:
    """The batch [10, 13) of the old topic can never be run; as a batch of the new one it would skip [0, 10)."""
    running = finished(cluster, failOnDataLoss="false", **IN_A_GROUP)
    cluster.produce("t", 0, 3)
    running.trigger(crash=True)
    running.read.clear()
    cluster.recreate("t", *ends)
    running.start().run_to_the_end()
    cluster.produce("t", 0, 4)
    running.later().run_to_the_end()
    assert running.read.get(T0) == list(range(ends[0] + 4))
    assert running.read.get(T1, []) == list(range(ends[1]))


def test_recreated_between_a_batch_and_its_replay_fails_with_fail_on_data_loss(cluster: FakeCluster) -> None:
    running = finished(cluster, **IN_A_GROUP)
    cluster.produce("t", 0, 3)
    running.trigger(crash=True)
    cluster.recreate("t", 50, 50)
    with pytest.raises(DataLossError, match="TOPIC_RECREATED"):
        running.start()


def test_recreated_between_the_first_batch_and_its_replay(cluster: FakeCluster) -> None:
    running = StreamQuery(cluster, {"failOnDataLoss": "false", **IN_A_GROUP}).start()
    running.trigger(crash=True)
    cluster.recreate("t", 12, 1)
    running.start().run_to_the_end()
    assert running.read == {T0: list(range(12)), T1: [0]}


def test_replay_without_recreation_is_the_same_batch(cluster: FakeCluster) -> None:
    running = finished(cluster, **IN_A_GROUP)
    cluster.produce("t", 0, 3)
    running.trigger(crash=True)
    cluster.produce("t", 0, 3)
    running.start()
    assert running.read[T0] == list(range(13))


# --- ids, one by one


def test_replaced_topic_id_is_stale_metadata() -> None:
    ids = TopicIds()
    assert ids.find_recreated([T0], {"t": A}) == []
    (change,) = ids.find_recreated([T0], {"t": B})
    assert (change.old_id, change.new_id, change.partitions) == (A, B, (T0,))
    ids.accept(change, {T0: 0}, {T0: 9})
    assert ids.find_recreated([T0], {"t": A}) == []
    assert ids.find_recreated([T0], {"t": B}) == []
    ids.update_start({T0: 3})
    assert ids.find_recreated([T0], {"t": A}) == []
    assert [change.old_id for change in ids.find_recreated([T0], {"t": C})] == [B]


def test_offsets_are_translated_until_the_start_changes() -> None:
    ids = TopicIds()
    ids.record_ids({T0: A, T1: A})
    (change,) = ids.find_recreated([T0, T1], {"t": B})
    start = {T0: 9, T1: 4, U0: 7}
    ids.accept(change, {T0: 2, T1: 0}, start)
    assert ids.translated(start) == {T0: 2, T1: 0, U0: 7}
    assert ids.distinct_from_start(start, {T0: 9, T1: 5, U0: 7}) == {T0: 8, T1: 5, U0: 7}
    ids.update_start(dict(start))
    assert ids.new_positions == {T0: 2, T1: 0}
    ids.update_start({T0: 8, T1: 5, U0: 7})
    assert ids.new_positions == {}
    assert ids.translated(start) == start


def test_metadata_of_commits() -> None:
    ids = TopicIds()
    ids.record_ids({T0: A})
    text = ids.commit_metadata(T0)
    assert text == f"pykafka:1:{format_id(A)}"
    assert len(text) == 32
    assert CommitMark.parse(text) == CommitMark(topic_id=A)
    assert ids.commit_metadata(T1) == ""
    assert format_id(UUID(int=0)) == "A" * 22
    (change,) = ids.find_recreated([T0], {"t": B})
    ids.accept(change, {T0: 0}, {T0: 9})
    assert ids.commit_metadata(T0) == f"pykafka:1:{format_id(B)}:9"
    assert CommitMark.parse(ids.commit_metadata(T0)) == CommitMark(topic_id=B, left_at=9)


@pytest.mark.parametrize(
    "foreign",
    ["", "anything", f"pykafka:2:{'A' * 22}", "pykafka:1:short", f"pykafka:1:{'é' * 22}", f"pykafka:1:{'A' * 22}:x"],
)
def test_commit_metadata_of_other_programs_are_ignored(foreign: str) -> None:
    assert CommitMark.parse(foreign) is None


@pytest.mark.parametrize(("start", "expected"), [(9, 3), (4, 4)])
def test_resumed_query_maps_the_old_offset_to_the_new_topic(start: int, expected: int) -> None:
    ids = TopicIds()
    ids.load_commits({T0: OffsetAndMetadata(offset=3, metadata=f"pykafka:1:{format_id(B)}:9")}, {T0: start})
    assert ids.translated({T0: start}) == {T0: expected}
    assert ids.find_recreated([T0], {"t": B}) == []
    assert [change.old_id for change in ids.find_recreated([T0], {"t": C})] == [B]


@pytest.mark.feature("better.recreated", "better.recreatedAcrossRestarts")
@pytest.mark.parametrize("seed", range(40))
def test_every_record_of_the_last_topic_is_read(seed: int) -> None:
    """Topics made again at any moment, batches lost half-way, restarts, limits: every record of the last topic is read.

    Twice, if the query dies after it has read a new topic in a replayed batch and before it commits to the group.
    """
    chance = random.Random(seed)
    cluster = FakeCluster().add("t", 5, 2)
    limit = chance.choice([{}, {"maxOffsetsPerTrigger": str(chance.randint(1, 9))}])
    options = {"startingOffsets": "earliest", "failOnDataLoss": "false", **limit, **IN_A_GROUP}
    running = StreamQuery(cluster, options).start()
    lived: set[UUID] = {cluster.ids["t"]}
    for _ in range(40):
        match chance.randrange(6):
            case 0:
                cluster.recreate("t", *(chance.choice([0, 2, 5, 11]) for _ in range(2)))
                running.read.clear()
                lived.add(cluster.ids["t"])
            case 1:
                cluster.produce("t", chance.randrange(2), chance.randint(1, 6))
            case 2 if len(running.offsets_log) == running.commits:
                running.later().trigger(crash=True)
            case 3:
                running.start()
            case _ if len(running.offsets_log) == running.commits:
                running.later().trigger()
    running.start()
    for _ in range(200):
        running.later().trigger()
    assert len(lived) > 1
    expected = {tp: list(range(end)) for tp, end in cluster.end.items() if end}
    assert {tp: sorted(set(offsets)) for tp, offsets in running.read.items()} == expected


# --- metadata that is newer than the offsets


def test_leader_has_the_topic_id_of_the_offsets() -> None:
    ids = TopicIds()
    ids.record_ids({T0: A})
    newer = {tp: LEADER._replace(topic_id=B) for tp in (T0, U0)}
    assert ids.planned_leader(T0, newer).topic_id == A
    assert ids.planned_leader(U0, newer).topic_id == B
    late = ids.find_recreated([T0, U0], {"t": B, "u": A})
    assert [(change.topic, change.old_id, change.new_id) for change in late] == [("t", A, B), ("u", B, A)]
    assert ids.planned_leader(T1, {T1: LEADER}) == LEADER


def test_recreated_topic_without_a_first_offset_is_looked_up_again() -> None:
    ids = TopicIds()
    ids.record_ids({T0: A, T1: A})
    start = {T0: 9, T1: 4}
    (change,) = ids.find_recreated([T0, T1], {"t": B})
    ids.accept(change, {T0: 0}, start)
    assert ids.translated(start) == {T0: 0, T1: 4}
    (again,) = ids.find_recreated([T0, T1], {"t": B})
    assert (again.old_id, again.new_id, again.partitions) == (A, B, (T1,))
    ids.accept(again, {T1: 0}, start)
    assert ids.translated(start) == {T0: 0, T1: 0}


def absent(topic_id: UUID) -> TopicIds:
    ids = TopicIds()
    ids.find_recreated([T0], {"t": topic_id})
    ids.update_start({T0: 9, U0: 1})
    ids.update_start({U0: 1})
    return ids


def test_returned_partition_keeps_its_topic_id() -> None:
    ids = absent(A)
    assert ids.returned_positions([T0], {"t": A}) == {T0: 9}
    assert ids.planned_leader(T0, {T0: LEADER._replace(topic_id=B)}).topic_id == A
    ids.update_start({T0: 9, U0: 1})
    assert [(change.old_id, change.new_id) for change in ids.find_recreated([T0], {"t": B})] == [(A, B)]


def test_stale_topic_id_does_not_replace_a_newer_one() -> None:
    ids = absent(A)
    assert ids.returned_positions([T0], {"t": B}) == {}
    ids.planned_leader(T0, {T0: LEADER._replace(topic_id=B)})
    ids.update_start({T0: 3, U0: 1})
    assert ids.find_recreated([T0], {"t": A}) == []
    ids.update_start({U0: 1})
    assert ids.returned_positions([T0], {"t": A}) == {T0: 3}
    assert ids.find_recreated([T0], {"t": B}) == []


def test_unread_end_offset_belongs_to_its_topic_id() -> None:
    ids = TopicIds()
    ids.record_new_partitions([T0], {"t": A})
    ids.record_new_partitions([T1], {})
    ids.update_start({T0: 9, T1: 9})
    assert [(change.old_id, change.partitions) for change in ids.find_recreated([T0, T1], {"t": B})] == [(A, (T0,))]
