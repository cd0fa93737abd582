import pytest

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.errors import NoSuchPartition, NotAReplica
from spark_kafka_native._client.transactions.describe_producers import ActiveProducer, describe_producers
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.clients.native_transactions import Transactions
from tests.support.scripted.cluster import KAFKA_2_1, ScriptedCluster
from tests.support.scripted.steps import Drop, Respond

T = [TopicPartition("t", number) for number in range(2)]


def answered(code: ErrorCode, *producers: ProducerState) -> Respond:
    part = PartitionResponse(partition_index=0, error_code=code, active_producers=producers)
    return Respond(lambda _: DescribeProducersResponse(topics=(TopicResponse(name="t", partitions=(part,)),)))


def test_leaders_list_the_active_producers() -> None:
    with ScriptedCluster(brokers=2, topics={"t": 2}) as brokers, Cluster(brokers.config()) as cluster:
        handle = Transactions(cluster).prepared("sink", "t", "a", "b", partition=1)
        brokers.script(DescribeProducersRequest, Drop())
        found = describe_producers(cluster, T)
    assert list(found) == T
    assert found[T[0]] == ()
    (writer,) = found[T[1]]
    assert (writer.producer_id, writer.producer_epoch, writer.last_sequence) == (handle.producer_id, 0, 1)


def test_an_open_transaction_shows_where_it_begins() -> None:
    state = ProducerState(
        producer_id=7,
        producer_epoch=3,
        last_sequence=9,
        last_timestamp=12,
        coordinator_epoch=4,
        current_txn_start_offset=40,
    )
    with ScriptedCluster(topics={"t": 1}) as brokers, Cluster(brokers.config()) as cluster:
        moved = answered(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        brokers.script(DescribeProducersRequest, moved, answered(ErrorCode.NONE, state))
        (found,) = describe_producers(cluster, T[:1])[T[0]]
    assert found == ActiveProducer(
        producer_id=7,
        producer_epoch=3,
        last_sequence=9,
        last_timestamp_ms=12,
        coordinator_epoch=4,
        transaction_start_offset=40,
    )
    assert found.has_open_transaction


def test_a_given_broker_describes_its_own_replica() -> None:
    with ScriptedCluster(brokers=2, topics={"t": 2}) as brokers, Cluster(brokers.config()) as cluster:
        Transactions(cluster).prepared("sink", "t", "a", partition=1)
        leaders = {part: cluster.leader(part).node.node_id for part in T}
        brokers.script(DescribeProducersRequest, Drop())
        assert len(describe_producers(cluster, T[1:], broker_id=leaders[T[1]])[T[1]]) == 1
        with pytest.raises(NotAReplica, match="broker 99 has no replica of t-1"):
            describe_producers(cluster, T[1:], broker_id=99)
        with pytest.raises(NoSuchPartition, match="t-7"):
            describe_producers(cluster, [TopicPartition("t", 7)], broker_id=leaders[T[1]])
        brokers.script(DescribeProducersRequest, answered(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        with pytest.raises(NotAReplica, match="t-0"):
            describe_producers(cluster, T[:1], broker_id=leaders[T[0]])
        missing = Respond(lambda _: DescribeProducersResponse())
        brokers.script(DescribeProducersRequest, missing)
        assert describe_producers(cluster, T[:1], broker_id=leaders[T[0]]) == {T[0]: ()}
        brokers.script(DescribeProducersRequest, answered(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        with pytest.raises(KafkaError, match="t-0: its producers"):
            describe_producers(cluster, T[:1], broker_id=leaders[T[0]])
        brokers.script(DescribeProducersRequest, *[missing] * 10_000)
        with pytest.raises(KafkaError, match="t-0 is missing from DescribeProducers"):
            describe_producers(cluster, T[:1], broker_id=leaders[T[0]], timeout_ms=500)


def test_refusals_name_the_partition() -> None:
    with ScriptedCluster(topics={"t": 1}) as brokers, Cluster(brokers.config()) as cluster:
        brokers.script(DescribeProducersRequest, answered(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        with pytest.raises(KafkaError, match="t-0: its producers"):
            describe_producers(cluster, T[:1])
    with (
        ScriptedCluster(topics={"t": 1}, versions=KAFKA_2_1) as brokers,
        Cluster(brokers.config()) as cluster,
        pytest.raises(KafkaError, match="DescribeProducers"),
    ):
        describe_producers(cluster, T[:1])
