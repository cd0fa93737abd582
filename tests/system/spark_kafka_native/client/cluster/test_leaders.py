import dataclasses
from collections.abc import Iterator, Sequence

import pytest

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.cluster.leaders import Leaders, ask_each, ask_leaders, ask_once
from spark_kafka_native._net.blocking import Connection
from spark_kafka_native._net.errors import BrokerUnreachable
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.fixtures import client_of_brokers
from tests.support.scripted.steps import Drop, Respond

PARTITIONS = [TopicPartition("t", number) for number in range(4)]


class FirstOffset:
    def __init__(self) -> None:
        self.asked: list[list[TopicPartition]] = []
        self.errors: list[KafkaError] = []

    def request(
        self, partitions: Sequence[TopicPartition], leaders: Leaders, connection: Connection
    ) -> ListOffsetsRequest:
        assert {leaders[partition].node.address for partition in partitions} == {connection.address}
        self.asked.append(list(partitions))
        parts = tuple(
            ListOffsetsPartition(
                partition_index=part.partition, current_leader_epoch=leaders[part].leader_epoch, timestamp=-2
            )
            for part in partitions
        )
        return ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name="t", partitions=parts),))

    def results(self, response: ListOffsetsResponse) -> Iterator[tuple[TopicPartition, int | KafkaError]]:
        error = self.errors.pop() if self.errors else None
        offsets = {
            TopicPartition(topic.name, part.partition_index): part.offset
            for topic in response.topics
            for part in topic.partitions
        }
        yield from ((part, error if error and part == min(offsets) else offset) for part, offset in offsets.items())


@pytest.fixture
def brokers() -> Iterator[ScriptedCluster]:
    with ScriptedCluster(brokers=2, topics={"t": 4}) as running:
        for partition in PARTITIONS:
            running.partition("t", partition.partition).log_start = 10 + partition.partition
        yield running


cluster = client_of_brokers(default_api_timeout_ms=20_000, request_timeout_ms=10_000)


def test_every_leader_gets_one_request_for_its_partitions(cluster: Cluster) -> None:
    query = FirstOffset()
    assert ask_leaders(cluster, PARTITIONS, query.request, query.results) == dict(
        zip(PARTITIONS, [10, 11, 12, 13], strict=True)
    )
    assert sorted(query.asked) == [PARTITIONS[0::2], PARTITIONS[1::2]]


def test_only_partitions_with_errors_are_requested_again(brokers: ScriptedCluster, cluster: Cluster) -> None:
    cluster.leaders(PARTITIONS)
    brokers.script(ListOffsetsRequest, Drop(), broker=1)
    query = FirstOffset()
    assert set(ask_leaders(cluster, PARTITIONS, query.request, query.results)) == set(PARTITIONS)
    assert query.asked.count(PARTITIONS[1::2]) == 1
    assert query.asked[-1] == PARTITIONS[0::2]


def test_errors_are_raised_at_once_and_retriable_ones_after_the_deadline(cluster: Cluster) -> None:
    query = FirstOffset()
    query.errors = [KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "t-0")]
    with pytest.raises(KafkaError, match="t-0"):
        ask_leaders(cluster, PARTITIONS, query.request, query.results)
    query.errors = [KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "t-0")] * 10_000
    with pytest.raises(KafkaError, match=r"\(NOT_LEADER_OR_FOLLOWER, "):
        ask_leaders(cluster, PARTITIONS, query.request, query.results, timeout_ms=2_000)


def test_a_partition_missing_from_the_response_is_requested_again_and_named(
    brokers: ScriptedCluster, cluster: Cluster
) -> None:
    empty = Respond(lambda _: ListOffsetsResponse())
    query = FirstOffset()
    brokers.script(ListOffsetsRequest, empty, broker=2)
    assert set(ask_leaders(cluster, PARTITIONS, query.request, query.results)) == set(PARTITIONS)
    brokers.script(ListOffsetsRequest, *[empty] * 10_000, broker=2)
    with pytest.raises(KafkaError, match="t-1 is missing from ListOffsets"):
        ask_leaders(cluster, PARTITIONS, query.request, query.results, timeout_ms=1_000)


def test_an_unreachable_cluster_is_broker_unreachable(brokers: ScriptedCluster, cluster: Cluster) -> None:
    cluster.leaders(PARTITIONS)
    brokers.close()
    query = FirstOffset()
    with pytest.raises(BrokerUnreachable):
        ask_leaders(cluster, PARTITIONS, query.request, query.results, timeout_ms=600)


def test_a_leader_that_cannot_be_reached_is_named(brokers: ScriptedCluster, cluster: Cluster) -> None:
    leaders = cluster.leaders(PARTITIONS)
    port = brokers.brokers[2].port
    brokers.brokers[2].stop()
    query = FirstOffset()
    found = ask_once(cluster, leaders, query.request, query.results, cluster.deadline())
    expected = f"no broker could be reached for the partitions of broker 2 (127.0.0.1:{port}: connection refused)"
    assert [found[PARTITIONS[0]], str(found[PARTITIONS[1]])] == [10, expected]
    assert isinstance(found[PARTITIONS[1]], BrokerUnreachable)


def test_each_partition_has_its_own_result_or_error(brokers: ScriptedCluster, cluster: Cluster) -> None:
    wanted = [*PARTITIONS, TopicPartition("t", 9), TopicPartition("missing", 0)]
    query = FirstOffset()
    found = ask_each(cluster, wanted, query.request, query.results, cluster.deadline())
    assert [found[part] for part in PARTITIONS] == [10, 11, 12, 13]
    assert [str(found[part]).partition(":")[0] for part in wanted[4:]] == ["t-9 does not exist", "topic missing"]


def test_added_partitions_are_found(brokers: ScriptedCluster, cluster: Cluster) -> None:
    cluster.leaders(PARTITIONS)
    brokers.state.topics["t"].partitions[4] = dataclasses.replace(brokers.partition("t", 0), log_start=14)
    query = FirstOffset()
    added = TopicPartition("t", 4)
    assert ask_leaders(cluster, [added], query.request, query.results) == {added: 14}
