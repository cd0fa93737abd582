import pytest

from spark_kafka_native._client.admin.committed_offsets import OffsetAndMetadata
from spark_kafka_native._net.address import HostPort
from spark_kafka_native._net.errors import BrokerUnreachable
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.ids import format_id
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.errors import DataLossError, PlanError
from spark_kafka_native._spark.offsets import OffsetMap
from spark_kafka_native._spark.planning.group_progress import INTERVAL_MS
from tests.support.spark.fake_offsets import FakeCluster
from tests.support.spark.stream_query import StreamQuery

T0, T1 = (TopicPartition("t", partition) for partition in range(2))
WITHIN_THE_INTERVAL_MS = 0.3 * INTERVAL_MS

FORBIDDEN = KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "group g")
HAS_MEMBERS = KafkaError(
    ErrorCode.UNKNOWN_MEMBER_ID, "group g, t-0: the group has active members, and only they can commit offsets"
)
UNREACHABLE = BrokerUnreachable({HostPort("broker", 9092): "connection refused"}, "for OffsetCommit")


def query(cluster: FakeCluster, **options: str) -> StreamQuery:
    given = {"startingOffsets": "earliest", "kafka.group.id": "g", "commitOffsetsToGroup": "true"} | options
    return StreamQuery(cluster, given)


def committed(cluster: FakeCluster) -> OffsetMap:
    return {tp: commit.offset for tp, commit in cluster.groups.get("g", {}).items()}


@pytest.mark.feature("more.commitToGroup")
def test_exact_after_available_now(cluster: FakeCluster) -> None:
    running = query(cluster, maxOffsetsPerTrigger="4").start(available_now=True).run_to_the_end()
    assert running.batches == [4, 4, 4, 2]
    assert committed(cluster) == cluster.end
    assert {commit.metadata for commit in cluster.groups["g"].values()} == {f"pykafka:1:{format_id(cluster.ids['t'])}"}


@pytest.mark.feature("more.commitToGroup")
def test_offsets_of_finished_batches_are_committed(cluster: FakeCluster) -> None:
    running = query(cluster).start()
    running.trigger(6, crash=True)
    assert committed(cluster) == {T0: 0, T1: 0}
    running.start()
    assert committed(cluster) == {T0: 0, T1: 0}
    running.trigger(6, crash=True)
    assert committed(cluster) == running.offsets_log[0]


@pytest.mark.feature("more.commitToGroup")
def test_running_query_commits_changes_once_a_second(cluster: FakeCluster) -> None:
    running = query(cluster).start().run_to_the_end()
    for _ in range(400):
        cluster.produce("t", 0, 1)
        running.later(11).trigger()
    assert 4 <= cluster.requests.count("commit") <= 7
    running.later(2000).run_to_the_end()
    assert committed(cluster) == cluster.end
    commits = cluster.requests.count("commit")
    for _ in range(400):
        assert not running.later(11).trigger()
    assert cluster.requests.count("commit") == commits
    assert cluster.requests.count("committed") == 1


def test_no_offsets_are_committed_without_the_option(cluster: FakeCluster) -> None:
    query(cluster, commitOffsetsToGroup="false").start(available_now=True).run_to_the_end()
    assert cluster.groups == {}
    assert not {"commit", "committed"} & set(cluster.requests)


@pytest.mark.feature("more.commitToGroup")
def test_committed_offsets_never_decrease(cluster: FakeCluster) -> None:
    cluster.groups["g"] = {
        T0: OffsetAndMetadata(offset=8, metadata="another client's"),
        T1: OffsetAndMetadata(offset=4),
    }
    running = query(cluster).start()
    for max_offsets in (4, 4, 4):
        running.trigger(max_offsets)
        running.later()
        assert committed(cluster) == {T0: 8, T1: 4}
    running.run_to_the_end()
    running.later().trigger()
    assert committed(cluster) == {T0: 10, T1: 4}


@pytest.mark.feature("more.commitToGroup")
def test_commit_beyond_the_end_or_of_another_topic_is_corrected(cluster: FakeCluster) -> None:
    other = f"pykafka:1:{'A' * 22}"
    cluster.groups["g"] = {T0: OffsetAndMetadata(offset=99), T1: OffsetAndMetadata(offset=3, metadata=other)}
    query(cluster).start().trigger(crash=True)
    assert committed(cluster) == {T0: 0, T1: 0}


def test_deleted_partitions_are_not_committed(cluster: FakeCluster) -> None:
    running = query(cluster, failOnDataLoss="false").start().run_to_the_end()
    cluster.remove("t", 1)
    cluster.produce("t", 0, 1)
    running.later().run_to_the_end()
    running.later().trigger()
    assert committed(cluster) == {T0: 11, T1: 0}


@pytest.mark.feature("more.commitToGroup")
def test_finished_offsets_are_committed_before_the_query_fails(cluster: FakeCluster) -> None:
    running = query(cluster, **{"fetchOffset.retryIntervalMs": "10"}).start().run_to_the_end()
    cluster.remove("t", 1)
    with pytest.raises(DataLossError, match="t-1 were read before"):
        running.later(WITHIN_THE_INTERVAL_MS).trigger()
    assert committed(cluster) == {T0: 10, T1: 0}


@pytest.mark.feature("more.commitToGroup", "better.recreatedAcrossRestarts")
def test_offsets_before_a_recreated_topic_are_committed_before_its_first_batch(cluster: FakeCluster) -> None:
    """A restart reads each of its records once."""
    running = query(cluster, failOnDataLoss="false").start().run_to_the_end()
    running.later().trigger()
    running.read.clear()
    cluster.recreate("t", 50, 50)
    assert running.later(WITHIN_THE_INTERVAL_MS).trigger(7)
    running.start().run_to_the_end()
    assert running.read == {T0: list(range(50)), T1: list(range(50))}


@pytest.mark.feature("more.commitToGroup")
@pytest.mark.parametrize("error", [FORBIDDEN, HAS_MEMBERS])
def test_rejected_first_commit_fails_the_query(cluster: FakeCluster, error: KafkaError) -> None:
    cluster.commit_error = error
    running = query(cluster).start()
    with pytest.raises(
        PlanError, match=r"option 'commitOffsetsToGroup': the broker rejects commits .*'kafka\.group\.id': group g"
    ) as c:
        running.trigger()
    assert c.value.code == "KAFKA_GROUP_COMMIT_REFUSED"
    assert error.detail in str(c.value)


@pytest.mark.feature("more.commitToGroup")
@pytest.mark.parametrize("error", [FORBIDDEN, HAS_MEMBERS, UNREACHABLE])
def test_rejected_later_commits_do_not_fail_the_query(
    cluster: FakeCluster, error: KafkaError, caplog: pytest.LogCaptureFixture
) -> None:
    running = query(cluster).start().run_to_the_end()
    running.later().trigger()
    cluster.commit_error = error
    cluster.produce("t", 0, 5)
    running.later().run_to_the_end()
    cluster.requests.clear()
    for _ in range(1000):
        assert not running.later(30).trigger()
    assert running.read[T0] == list(range(15))
    assert 2 <= cluster.requests.count("commit") <= 6, "pauses double"
    assert "could not be committed to group g" in caplog.text
    assert committed(cluster) == {T0: 10, T1: 4}
    cluster.commit_error = None
    running.later(61_000).trigger()
    assert committed(cluster) == cluster.end


def test_unreachable_coordinator_of_the_first_commit_is_retried(cluster: FakeCluster) -> None:
    cluster.commit_error = UNREACHABLE
    running = query(cluster).start().run_to_the_end()
    cluster.commit_error = None
    running.later(2000).trigger()
    assert committed(cluster) == cluster.end


def test_restarted_query_without_permission_for_its_group_fails(cluster: FakeCluster) -> None:
    running = query(cluster).start().run_to_the_end()

    def refuse(*_: object, **__: object) -> None:
        raise FORBIDDEN

    cluster.committed = refuse  # type: ignore[assignment, method-assign]  # a cluster that refuses
    with pytest.raises(PlanError, match="KAFKA_GROUP_COMMIT_REFUSED"):
        running.start().trigger()


@pytest.mark.feature("more.commitToGroup")
def test_unchanged_offsets_are_committed_again_before_they_expire(cluster: FakeCluster) -> None:
    running = query(cluster).start().run_to_the_end()
    running.later().trigger()
    cluster.requests.clear()
    for _ in range(24):
        assert not running.later(3600 * 1000).trigger()
    assert cluster.requests.count("commit") == 2 * 4, "the group's and its register's"
    assert committed(cluster) == cluster.end
    running.start().trigger()
    assert cluster.requests.count("commit") == 2 * 5


# --- starting there


@pytest.mark.feature("more.startCommitted")
def test_query_starts_at_committed_offsets(cluster: FakeCluster) -> None:
    cluster.groups["g"] = {T0: OffsetAndMetadata(offset=7)}
    options = {"startingOffsets": "committed", "startingOffsetsWithoutCommit": "earliest"}
    running = query(cluster, commitOffsetsToGroup="false", **options).start().run_to_the_end()
    assert running.read == {T0: [7, 8, 9], T1: [0, 1, 2, 3]}
    assert running.offsets_log[0] == {T0: 7, T1: 0}


@pytest.mark.feature("more.startCommitted")
def test_first_batch_from_committed_offsets_is_replayed_from_its_start(cluster: FakeCluster) -> None:
    """The group's offsets change while the query is down; the query continues from its own start."""
    cluster.groups["g"] = {T0: OffsetAndMetadata(offset=7), T1: OffsetAndMetadata(offset=4)}
    running = query(cluster, startingOffsets="committed", commitOffsetsToGroup="false").start()
    running.trigger(crash=True)
    cluster.groups["g"][T0] = OffsetAndMetadata(offset=9)
    running.start().run_to_the_end()
    assert running.read == {T0: [7, 8, 9]}


@pytest.mark.feature("more.startCommitted")
def test_query_continues_at_offsets_of_another_query(cluster: FakeCluster) -> None:
    query(cluster).start(available_now=True).run_to_the_end()
    cluster.produce("t", 0, 2)
    second = query(cluster, startingOffsets="committed").start(available_now=True).run_to_the_end()
    assert second.read == {T0: [10, 11]}
    assert committed(cluster) == cluster.end


@pytest.mark.feature("more.startCommitted", "source.failOnDataLoss")
def test_committed_offset_that_aged_out_is_data_loss(cluster: FakeCluster) -> None:
    cluster.groups["g"] = {T0: OffsetAndMetadata(offset=2), T1: OffsetAndMetadata(offset=4)}
    cluster.first[T0] = 6
    careful = query(cluster, startingOffsets="committed").start()
    with pytest.raises(DataLossError, match=r"COULD_NOT_READ_OFFSET_RANGE\] offsets \[2, 6\) of t-0"):
        careful.run_to_the_end()
    careless = query(cluster, startingOffsets="committed", failOnDataLoss="false").start().run_to_the_end()
    assert careless.read == {T0: [6, 7, 8, 9]}


@pytest.mark.feature("more.startCommitted", "source.failOnDataLoss")
def test_committed_offset_beyond_the_end_is_data_loss(cluster: FakeCluster) -> None:
    cluster.groups["g"] = {T0: OffsetAndMetadata(offset=50), T1: OffsetAndMetadata(offset=4)}
    with pytest.raises(DataLossError, match=r"PARTITION_OFFSET_CHANGED\] t-0 .* from 50 to 10"):
        query(cluster, startingOffsets="committed").start().run_to_the_end()


@pytest.mark.feature("more.startCommitted", "better.recreatedAcrossRestarts")
def test_commit_of_a_topic_that_was_recreated_is_data_loss(cluster: FakeCluster) -> None:
    """Where commits outlive their topic, as in a cluster that was restored or is a mirror."""
    query(cluster).start(available_now=True).run_to_the_end()
    kept = dict(cluster.groups["g"])
    cluster.recreate("t", 30, 30)
    cluster.groups["g"] = kept
    with pytest.raises(DataLossError, match="TOPIC_RECREATED"):
        query(cluster, startingOffsets="committed").start().run_to_the_end()
    careless = query(cluster, startingOffsets="committed", failOnDataLoss="false").start(available_now=True)
    careless.run_to_the_end()
    assert careless.read == {T0: list(range(30)), T1: list(range(30))}
    assert committed(cluster) == {T0: 30, T1: 30}
