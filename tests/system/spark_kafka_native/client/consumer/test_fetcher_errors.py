import threading
import uuid

import pytest

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.cluster.metadata import Node, PartitionLeader
from spark_kafka_native._client.errors import TopicRecreated
from spark_kafka_native._net.errors import BrokerUnreachable
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.fetch import FetchRequest, FetchResponse
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.fetched_logs import BROKEN_FETCHES, LAST, T0, OneRange, read
from tests.support.scripted.steps import Pass, Refuse, Respond, Step
from tests.support.waiting import eventually


@pytest.mark.parametrize(
    "step",
    [
        *BROKEN_FETCHES,
        *[
            Refuse(code)
            for code in (
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                ErrorCode.FENCED_LEADER_EPOCH,
                ErrorCode.UNKNOWN_LEADER_EPOCH,
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ErrorCode.UNKNOWN_TOPIC_ID,
                ErrorCode.INCONSISTENT_TOPIC_ID,
                ErrorCode.UNKNOWN_SERVER_ERROR,
                ErrorCode.KAFKA_STORAGE_ERROR,
                ErrorCode.REPLICA_NOT_AVAILABLE,
                ErrorCode.OFFSET_NOT_AVAILABLE,
                ErrorCode.CORRUPT_MESSAGE,
            )
        ],
    ],
    ids=str,
)
def test_retriable_errors_are_retried_at_the_same_offset(
    brokers: ScriptedCluster, cluster: Cluster, step: Step
) -> None:
    brokers.script(FetchRequest, Pass(), step, step)
    with OneRange(cluster, T0, 0, LAST) as fetcher:
        assert sum(batch.num_rows for batch in fetcher) == LAST
        assert fetcher.metrics.retries == 2


def test_an_error_of_the_whole_response_is_retried(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.script(FetchRequest, Respond(lambda _: FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)))
    assert read(cluster, 0, LAST) == list(range(LAST))


@pytest.mark.parametrize("code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE])
def test_other_errors_are_raised_at_once_and_name_the_partition(
    brokers: ScriptedCluster, cluster: Cluster, code: ErrorCode
) -> None:
    brokers.script(FetchRequest, Refuse(code))
    with OneRange(cluster, T0, 0, 5) as fetcher, pytest.raises(KafkaError, match="t-0: ") as caught:
        list(fetcher)
    assert caught.value.code is code
    assert fetcher.metrics.retries == 0


def test_a_response_without_the_partition_is_an_error(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.script(FetchRequest, *[Respond(lambda _: FetchResponse())] * 5_000)
    with (
        OneRange(cluster, T0, 0, 5, timeout_ms=2_000) as fetcher,
        pytest.raises(KafkaError, match="t-0 is missing from the Fetch response"),
    ):
        list(fetcher)


@pytest.mark.parametrize("code", [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR])
def test_lasting_errors_end_the_read_after_the_timeout(
    brokers: ScriptedCluster, cluster: Cluster, code: ErrorCode
) -> None:
    brokers.script(FetchRequest, *[Refuse(code)] * 5_000)
    with OneRange(cluster, T0, 0, 5, timeout_ms=2_000) as fetcher, pytest.raises(KafkaError, match="t-0: ") as caught:
        list(fetcher)
    assert caught.value.code is code
    assert fetcher.metrics.retries > 1


def test_when_all_brokers_are_unreachable_they_are_named(brokers: ScriptedCluster, cluster: Cluster) -> None:
    ports = [broker.port for broker in brokers.brokers.values()]
    with OneRange(cluster, T0, 0, LAST, timeout_ms=600, target_rows=1) as fetcher:
        rows = iter(fetcher)
        next(rows)
        for broker in brokers.brokers.values():
            broker.stop()
        with pytest.raises(BrokerUnreachable) as caught:
            list(rows)
    assert {address.port for address in caught.value.tried} == set(ports)


def test_a_dead_leaders_successor_is_read(brokers: ScriptedCluster, cluster: Cluster) -> None:
    with OneRange(cluster, T0, 0, LAST, target_rows=1) as fetcher:
        rows = iter(fetcher)
        count = next(rows).num_rows
        brokers.brokers[1].stop()
        timer = threading.Timer(0.05, brokers.move_leader, ("t", 0, 2))
        timer.start()
        assert count + sum(batch.num_rows for batch in rows) == LAST
        timer.join()


def test_connections_that_break_between_two_responses_are_replaced(brokers: ScriptedCluster, cluster: Cluster) -> None:
    with OneRange(cluster, T0, 0, LAST, target_rows=1) as fetcher:
        count = 0
        for number, batch in enumerate(fetcher):
            count += batch.num_rows
            if number % 4 == 0:
                brokers.brokers[1].drop_connections()
    assert count == LAST


def test_a_planned_leader_that_is_unreachable_is_looked_up_again(brokers: ScriptedCluster, cluster: Cluster) -> None:
    gone = PartitionLeader(node=Node(node_id=9, host="127.0.0.1", port=1))
    assert read(cluster, 0, 10, leader=gone) == list(range(10))


def test_a_topic_created_again_since_the_read_was_planned_is_not_read(
    brokers: ScriptedCluster, cluster: Cluster
) -> None:
    planned = PartitionLeader(node=cluster.leader(T0).node, topic_id=uuid.uuid4())
    with pytest.raises(TopicRecreated, match=str(planned.topic_id)):
        read(cluster, 0, 10, leader=planned)


def test_a_deleted_topic_is_named_in_bounded_time(brokers: ScriptedCluster, cluster: Cluster) -> None:
    with OneRange(cluster, T0, 0, LAST, target_rows=1) as fetcher:
        rows = iter(fetcher)
        next(rows)
        with brokers.state.lock:
            del brokers.state.topics["t"]
        with pytest.raises(KafkaError, match="topic t: ") as caught:
            list(rows)
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_close_gives_an_idle_connection_back_and_closes_one_with_a_fetch_in_flight(
    brokers: ScriptedCluster, cluster: Cluster
) -> None:
    read(cluster, 0, LAST)
    (used,) = (each for each in brokers.brokers.values() if each.open_connections)
    assert used.open_connections == 1
    with OneRange(cluster, T0, 0, LAST, target_rows=1) as fetcher:
        next(iter(fetcher))
    read(cluster, 0, 10)
    eventually(lambda: used.open_connections, 1)
