import time
from collections.abc import Iterator

import pytest

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.transactions.hanging_transactions import (
    AbortTransactionSpec,
    OpenTransaction,
    abort_transaction,
    find_hanging_transactions,
)
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from spark_kafka_native._protocol.messages.list_transactions import ListTransactionsRequest
from spark_kafka_native._protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopic,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.clients.native_transactions import Transactions
from tests.support.scripted.cluster import KAFKA_4_3, ScriptedCluster
from tests.support.scripted.steps import Drop, Respond

PARTITIONS = 1001
T = [TopicPartition("t", number) for number in range(PARTITIONS)]
MINUTE_MS = 60_000
FORGOTTEN = 4711
SPEC = AbortTransactionSpec(partition=T[1], producer_id=7, producer_epoch=3, coordinator_epoch=4)


@pytest.fixture
def brokers() -> Iterator[ScriptedCluster]:
    versions = {**KAFKA_4_3, WriteTxnMarkersRequest.api_key: (1, 2)}
    with ScriptedCluster(brokers=2, topics={"t": PARTITIONS}, versions=versions) as running:
        yield running


def described(producers: dict[int, list[ProducerState]]) -> Respond:

    def make(request: DescribeProducersRequest) -> DescribeProducersResponse:
        (topic,) = request.topics
        return DescribeProducersResponse(
            topics=(
                TopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        PartitionResponse(partition_index=number, active_producers=tuple(producers.get(number, ())))
                        for number in topic.partition_indexes
                    ),
                ),
            )
        )

    return Respond(make)


def state(producer_id: int, *, silent_minutes: int = 20, start: int = 5, epoch: int = 0) -> ProducerState:
    return ProducerState(
        producer_id=producer_id,
        producer_epoch=epoch,
        last_timestamp=int(time.time() * 1000) - silent_minutes * MINUTE_MS,
        coordinator_epoch=-1,
        current_txn_start_offset=start,
    )


def marked(code: ErrorCode) -> Respond:
    part = WritableTxnMarkerPartitionResult(partition_index=1, error_code=code)
    topic = WritableTxnMarkerTopicResult(name="t", partitions=(part,))
    return Respond(
        lambda _: WriteTxnMarkersResponse(markers=(WritableTxnMarkerResult(producer_id=7, topics=(topic,)),))
    )


def found(cluster: Cluster, *, broker_id: int | None = None) -> list[tuple[int, int]]:
    hanging = find_hanging_transactions(cluster, T, longest_timeout_ms=15 * MINUTE_MS, broker_id=broker_id)
    return [(each.producer.producer_id, each.partition.partition) for each in hanging]


def test_transactions_hang_if_their_coordinator_does_not_expect_them(
    brokers: ScriptedCluster, cluster: Cluster
) -> None:
    known = Transactions(cluster).prepared("sink", "t", "a", partition=1).producer_id
    producers = {
        1: [state(known), state(FORGOTTEN)],
        2: [state(known), state(FORGOTTEN, silent_minutes=10), state(FORGOTTEN + 1, start=-1)],
        1000: [state(FORGOTTEN)],
    }
    brokers.script(DescribeProducersRequest, *[described(producers)] * 6)
    assert found(cluster) == sorted([(known, 2), (FORGOTTEN, 1), (FORGOTTEN, 1000)])


def test_coordinators_get_no_request_while_all_producers_are_active(brokers: ScriptedCluster, cluster: Cluster) -> None:
    assert found(cluster) == []
    assert brokers.requests(ListTransactionsRequest) == []


def test_no_request_has_more_than_500_partitions(brokers: ScriptedCluster, cluster: Cluster) -> None:
    found(cluster)
    asked = [len(request.topics[0].partition_indexes) for request in brokers.requests(DescribeProducersRequest)]
    assert (sum(asked), max(asked) <= 500) == (PARTITIONS, True)


def test_an_abort_marker_has_the_producer_and_the_coordinators_epoch(
    brokers: ScriptedCluster, cluster: Cluster
) -> None:
    moved = marked(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    brokers.script(WriteTxnMarkersRequest, moved, Drop(), marked(ErrorCode.NONE))
    abort_transaction(cluster, SPEC)
    marker = WritableTxnMarker(
        producer_id=7,
        producer_epoch=3,
        coordinator_epoch=4,
        transaction_result=False,
        topics=(WritableTxnMarkerTopic(name="t", partition_indexes=(1,)),),
    )
    assert brokers.requests(WriteTxnMarkersRequest) == [WriteTxnMarkersRequest(markers=(marker,))] * 3


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ],
)
def test_a_refused_abort_names_partition_and_producer(
    brokers: ScriptedCluster, cluster: Cluster, code: ErrorCode
) -> None:
    brokers.script(WriteTxnMarkersRequest, marked(code))
    with pytest.raises(KafkaError, match="t-1: producer 7, epoch 3: ") as caught:
        abort_transaction(cluster, SPEC)
    assert caught.value.code is code


def test_a_response_without_the_partition_is_not_taken_for_an_abort(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.script(WriteTxnMarkersRequest, Respond(lambda _: WriteTxnMarkersResponse()), marked(ErrorCode.NONE))
    abort_transaction(cluster, SPEC)
    assert len(brokers.requests(WriteTxnMarkersRequest)) == 2


def test_a_coordinator_epoch_that_is_not_known_is_0(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.script(DescribeProducersRequest, *[described({1: [state(FORGOTTEN, epoch=2)]})] * 6)
    (hanging,) = find_hanging_transactions(cluster, T, longest_timeout_ms=0)
    assert hanging == OpenTransaction(partition=T[1], producer=hanging.producer)
    spec = AbortTransactionSpec.of(hanging)
    assert str(spec) == (
        f"AbortTransactionSpec(topicPartition=t-1, producerId={FORGOTTEN}, producerEpoch=2, coordinatorEpoch=0)"
    )
