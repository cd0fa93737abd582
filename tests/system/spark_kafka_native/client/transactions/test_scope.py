import pytest

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.transactions.errors import ProducerFailed, ProducerFenced
from spark_kafka_native._client.transactions.requests import init_producer
from spark_kafka_native._client.transactions.scope import TransactionScope
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.scripted.cluster import KAFKA_4_3, ScriptedCluster
from tests.support.scripted.fixtures import brokers_of_each_level
from tests.support.scripted.steps import Refuse

T = [TopicPartition("t", number) for number in range(3)]


brokers = brokers_of_each_level(topics={"t": 3})


@pytest.fixture
def scope(cluster: Cluster) -> TransactionScope:
    return TransactionScope(cluster, init_producer(cluster, "sink"))


def soon() -> Deadline:
    return Deadline.after_ms(30_000)


def test_each_partition_is_added_once(brokers: ScriptedCluster, scope: TransactionScope) -> None:
    assert scope.is_empty
    scope.add_partitions([], soon())
    assert scope.is_empty
    scope.add_partitions(T[:2], soon())
    scope.add_partitions([T[1], T[2]], soon())
    scope.add_partitions(T, soon())
    assert not scope.is_empty
    added = [
        [part for topic in request.v3_and_below_topics for part in topic.partitions]
        for request in brokers.requests(AddPartitionsToTxnRequest)
    ]
    assert added == ([] if scope.identity.has_epoch_per_transaction else [[0, 1], [2]])
    assert [part.partition for part in scope.handle().partitions] == T


def test_acknowledged_offsets_become_a_range(scope: TransactionScope) -> None:
    scope.add_partitions(T[:2], soon())
    for base_offset, count in ((-1, 5), (30, 2), (20, 4), (32, 1)):
        scope.record_written(T[0], base_offset, count)
    scope.record_written(T[1], -1, 3)
    assert [str(part) for part in scope.handle().partitions] == ["t-0 offsets 20 to 33", "t-1 offsets -1 to -1"]


def test_the_next_transaction_begins_empty(scope: TransactionScope) -> None:
    scope.add_partitions(T[:1], soon())
    scope.add_group("g")
    assert scope.has_group("g")
    first = scope.handle()
    scope.restart()
    assert (scope.is_empty, scope.has_group("g"), scope.handle().is_empty) == (True, False, True)
    assert scope.handle().started_ms == -1 < first.started_ms
    scope.add_group("h")
    assert (scope.is_empty, scope.handle().groups) == (False, ("h",))


def test_a_refused_partition_is_not_added(brokers: ScriptedCluster, scope: TransactionScope) -> None:
    if scope.identity.has_epoch_per_transaction:
        return  # no request is sent, and so none is refused
    brokers.script(AddPartitionsToTxnRequest, Refuse(ErrorCode.PRODUCER_FENCED))
    with pytest.raises(ProducerFenced, match="t-0"):
        scope.add_partitions(T[:1], soon())
    assert scope.handle().partitions == ()
    assert not scope.is_empty, "the coordinator may have heard of it"


def test_a_resumed_scope_looks_up_the_last_sequences(brokers: ScriptedCluster, cluster: Cluster) -> None:
    identity = init_producer(cluster, "sink")
    last = {
        0: (identity.producer_epoch, 41),
        1: (identity.producer_epoch - 1, 7),
        2: (identity.producer_epoch, 2**31 - 1),
    }
    for number, state in last.items():
        brokers.partition("t", number).sequences[identity.producer_id] = state
    resumed = TransactionScope(cluster, identity, resumed=True)
    resumed.add_partitions(T, soon())
    assert [resumed.first_sequence(part) for part in T] == [42, 0, 0]
    fresh = TransactionScope(cluster, identity)
    fresh.add_partitions(T, soon())
    assert [fresh.first_sequence(part) for part in T] == [0, 0, 0]


def test_a_scope_cannot_be_resumed_without_describe_producers() -> None:
    versions = {key: span for key, span in KAFKA_4_3.items() if key != 61}
    with ScriptedCluster(topics={"t": 3}, versions=versions) as brokers, Cluster(brokers.config()) as cluster:
        scope = TransactionScope(cluster, init_producer(cluster, "sink"), resumed=True)
        with pytest.raises(ProducerFailed, match="DescribeProducers"):
            scope.add_partitions(T, soon())
        assert scope.is_empty
