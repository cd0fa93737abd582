import threading
from collections.abc import Iterator

import pytest

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.config import READ_COMMITTED
from spark_kafka_native._client.consumer.offsets import EARLIEST, LATEST, MAX_TIMESTAMP, list_offsets
from spark_kafka_native._client.errors import NoSuchPartition
from spark_kafka_native._net.errors import BrokerUnreachable
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from spark_kafka_native._protocol.messages.metadata import MetadataRequest
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.records.record_batches import TIMESTAMP_MS, batch_of
from tests.support.scripted.cluster import KAFKA_0_11, ScriptedCluster
from tests.support.scripted.steps import BROKEN_CONNECTIONS, Refuse, Respond, Silent, Step, Together

T = [TopicPartition("t", number) for number in range(6)]


@pytest.fixture
def brokers() -> Iterator[ScriptedCluster]:
    with ScriptedCluster(brokers=3, topics={"t": 6}) as running:
        for number in range(6):
            for step in range(number):
                running.partition("t", number).append(batch_of([b"v"] * 10, timestamp_ms=TIMESTAMP_MS + step))
        yield running


def test_offsets_of_all_partitions_in_one_request_per_broker(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.partition("t", 5).log_start = 7
    assert {at.partition: found.offset for at, found in list_offsets(cluster, dict.fromkeys(T, LATEST)).items()} == {
        number: 10 * number for number in range(6)
    }
    assert len(brokers.requests(ListOffsetsRequest)) == 3
    assert list_offsets(cluster, {T[5]: EARLIEST})[T[5]].offset == 7
    assert len(brokers.requests(MetadataRequest)) == 1


def test_list_offsets_has_replica_minus_1_and_the_leader_epoch(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.partition("t", 0).leader_epoch = 4
    list_offsets(cluster, {T[0]: LATEST})
    (request,) = brokers.requests(ListOffsetsRequest)
    assert request.replica_id == -1
    assert request.topics[0].partitions[0].current_leader_epoch == 4


def test_all_brokers_get_their_requests_at_once(brokers: ScriptedCluster, cluster: Cluster) -> None:
    cluster.metadata(["t"])
    brokers.script(ListOffsetsRequest, *[Together(threading.Barrier(3))] * 3)
    assert len(list_offsets(cluster, dict.fromkeys(T, LATEST))) == len(T)


def test_a_timestamp_finds_the_first_record_that_is_not_older(cluster: Cluster) -> None:
    found = list_offsets(cluster, {T[3]: TIMESTAMP_MS + 1, T[2]: TIMESTAMP_MS - 5, T[0]: TIMESTAMP_MS})
    assert (found[T[3]].offset, found[T[3]].timestamp) == (10, TIMESTAMP_MS + 1)
    assert (found[T[2]].offset, found[T[2]].timestamp) == (0, TIMESTAMP_MS)
    assert found[T[0]].offset == -1
    assert list(found) == [T[3], T[2], T[0]]


def test_read_committed_ends_at_the_last_stable_offset(brokers: ScriptedCluster) -> None:
    brokers.partition("t", 3).last_stable_offset = 12
    with Cluster(brokers.config(isolation_level="read_committed")) as committed:
        assert list_offsets(committed, {T[3]: LATEST})[T[3]].offset == 12
        assert list_offsets(committed, {T[3]: LATEST}, isolation=0)[T[3]].offset == 30
    with Cluster(brokers.config()) as uncommitted:
        assert list_offsets(uncommitted, {T[3]: LATEST}, isolation=READ_COMMITTED)[T[3]].offset == 12


def test_moved_leaders_are_found_and_only_failed_partitions_are_retried(
    brokers: ScriptedCluster, cluster: Cluster
) -> None:
    cluster.metadata(["t"])
    brokers.move_leader("t", 1, to=3)
    found = list_offsets(cluster, dict.fromkeys(T, LATEST))
    assert [found[partition].offset for partition in T] == [0, 10, 20, 30, 40, 50]
    last = brokers.requests(ListOffsetsRequest)[-1]
    assert [(topic.name, [part.partition_index for part in topic.partitions]) for topic in last.topics] == [("t", [1])]


@pytest.mark.parametrize(
    "step",
    [
        *BROKEN_CONNECTIONS,
        Refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER),
        Refuse(ErrorCode.OFFSET_NOT_AVAILABLE),
        Refuse(ErrorCode.FENCED_LEADER_EPOCH),
        Refuse(ErrorCode.UNKNOWN_LEADER_EPOCH),
        Refuse(ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
    ids=str,
)
def test_retriable_errors_are_retried(brokers: ScriptedCluster, cluster: Cluster, step: Step) -> None:
    brokers.script(ListOffsetsRequest, step, step)
    found = list_offsets(cluster, dict.fromkeys(T, LATEST))
    assert [found[partition].offset for partition in T] == [0, 10, 20, 30, 40, 50]


def test_a_request_is_retried_after_the_request_timeout(brokers: ScriptedCluster) -> None:
    brokers.script(ListOffsetsRequest, Silent())
    with Cluster(brokers.config(request_timeout_ms=200)) as cluster:
        assert list_offsets(cluster, {T[1]: LATEST})[T[1]].offset == 10


def test_an_unreachable_broker_is_named_after_the_deadline(brokers: ScriptedCluster, cluster: Cluster) -> None:
    cluster.metadata(["t"])
    port = brokers.brokers[2].port
    brokers.brokers[2].stop()
    with pytest.raises(BrokerUnreachable, match=f"127.0.0.1:{port}: connection refused"):
        list_offsets(cluster, dict.fromkeys(T, LATEST), timeout_ms=600)


@pytest.mark.parametrize("code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT])
def test_errors_that_are_not_retriable_name_the_partition(
    brokers: ScriptedCluster, cluster: Cluster, code: ErrorCode
) -> None:
    brokers.script(ListOffsetsRequest, Refuse(code))
    with pytest.raises(KafkaError, match="t-3: ") as caught:
        list_offsets(cluster, {T[3]: LATEST})
    assert caught.value.code is code


def test_a_retriable_error_is_raised_after_the_deadline(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.script(ListOffsetsRequest, *[Refuse(ErrorCode.LEADER_NOT_AVAILABLE)] * 500)
    with pytest.raises(KafkaError, match=r"t-3: .*\(LEADER_NOT_AVAILABLE, "):
        list_offsets(cluster, {T[3]: LATEST}, timeout_ms=2_000)


def test_a_partition_missing_from_the_responses_is_named(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.script(ListOffsetsRequest, *[Respond(lambda _: ListOffsetsResponse())] * 10_000)
    with pytest.raises(KafkaError, match="t-3 is missing from ListOffsets"):
        list_offsets(cluster, {T[3]: LATEST}, timeout_ms=500)


def test_partitions_and_topics_that_do_not_exist(cluster: Cluster) -> None:
    with pytest.raises(NoSuchPartition, match="t-9"):
        list_offsets(cluster, {T[0]: LATEST, TopicPartition("t", 9): LATEST})
    with pytest.raises(KafkaError, match="topic u"):
        list_offsets(cluster, {TopicPartition("u", 0): LATEST})


def test_without_partitions_no_request_is_sent(brokers: ScriptedCluster, cluster: Cluster) -> None:
    assert list_offsets(cluster, {}) == {}
    assert not brokers.received


def test_lookups_that_old_brokers_lack_are_unsupported_version() -> None:
    with ScriptedCluster(topics={"t": 1}, versions=KAFKA_0_11) as brokers, Cluster(brokers.config()) as cluster:
        assert list_offsets(cluster, {T[0]: LATEST})[T[0]].offset == 0
        with pytest.raises(KafkaError, match=r"looking up timestamp -3 needs ListOffsets v7, 127.0.0.1:.* has v2"):
            list_offsets(cluster, {T[0]: MAX_TIMESTAMP})
