import pytest

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.transactions.describe_transactions import (
    TransactionDescription,
    TransactionListing,
    TransactionState,
    describe_known,
    describe_transactions,
    list_transactions,
)
from spark_kafka_native._client.transactions.requests import init_producer
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.describe_transactions import DescribeTransactionsRequest
from spark_kafka_native._protocol.messages.list_transactions import ListTransactionsRequest
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.clients.native_transactions import Transactions
from tests.support.scripted.cluster import KAFKA_2_1, KAFKA_4_3, ScriptedCluster
from tests.support.scripted.fixtures import scripted_brokers
from tests.support.scripted.steps import Drop, Refuse

brokers = scripted_brokers(brokers=2, topics={"t": 4}, transaction_version=2)


def names(listings: list[TransactionListing]) -> list[str]:
    return [item.transactional_id for item in listings]


def test_descriptions_have_every_field(cluster: Cluster) -> None:
    handle = Transactions(cluster).prepared("sink", "t", "a", partition=2)
    found = describe_transactions(cluster, ["sink", "unknown"])
    assert found == {
        "sink": TransactionDescription(
            transactional_id="sink",
            state=TransactionState.ONGOING,
            producer_id=handle.producer_id,
            producer_epoch=handle.producer_epoch,
            timeout_ms=60_000,
            started_ms=1_700_000_000_000,
            partitions=(TopicPartition("t", 2),),
        )
    }
    init_producer(cluster, "sink")
    assert describe_transactions(cluster, ["sink"])["sink"].state is not TransactionState.ONGOING
    assert str(found["sink"]) == f"sink in Ongoing (producer {handle.producer_id}, epoch 0)"


def test_states_of_newer_brokers_are_unknown() -> None:
    assert TransactionState.of("PrepareCommit") is TransactionState.PREPARE_COMMIT
    assert TransactionState.of("Pondering") is TransactionState.UNKNOWN


def test_an_error_names_the_transactional_id(brokers: ScriptedCluster, cluster: Cluster) -> None:
    refused = Refuse(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    brokers.script(DescribeTransactionsRequest, Refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), Drop(), refused)
    with pytest.raises(KafkaError, match="transactional id sink: not authorized"):
        describe_transactions(cluster, ["sink"])
    brokers.script(DescribeTransactionsRequest, refused)
    assert describe_known(cluster, ["sink"], Deadline.after_ms(2000)) == {}


def test_transactional_ids_of_every_broker_are_listed(brokers: ScriptedCluster, cluster: Cluster) -> None:
    for name in ("b", "a", "other"):
        init_producer(cluster, name)
    brokers.script(ListTransactionsRequest, Refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), broker=1)
    assert names(list_transactions(cluster)) == ["a", "b", "other"]
    asked = [broker for broker, request, _ in brokers.received if isinstance(request, ListTransactionsRequest)]
    assert set(asked) == {1, 2}
    brokers.script(ListTransactionsRequest, Refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED), broker=2)
    with pytest.raises(KafkaError, match="the transactions of broker 2"):
        list_transactions(cluster)


def test_filters_go_to_the_broker(brokers: ScriptedCluster, cluster: Cluster) -> None:
    list_transactions(
        cluster, states=[TransactionState.ONGOING], producer_ids=[7], prefix="sink.[1]-é", open_for_ms=500
    )
    asked = brokers.requests(ListTransactionsRequest)[-1]
    assert (asked.state_filters, asked.producer_id_filters, asked.duration_filter) == (("Ongoing",), (7,), 500)
    assert asked.transactional_id_pattern == r"(?s)sink\.\[1\]\-é.*"
    list_transactions(cluster, prefix="a", pattern="a.*b")
    asked = brokers.requests(ListTransactionsRequest)[-1]
    assert (asked.transactional_id_pattern, asked.duration_filter) == ("a.*b", -1)


@pytest.mark.parametrize("newest", [0, 1, 2])
def test_filters_that_a_broker_lacks_are_applied_by_the_client(newest: int) -> None:
    versions = {**KAFKA_4_3, ListTransactionsRequest.api_key: (0, newest)}
    with (
        ScriptedCluster(topics={"t": 1}, versions=versions, transaction_version=1) as brokers,
        Cluster(brokers.config()) as cluster,
    ):
        for name in ("sink.1", "sink.2", "other"):
            Transactions(cluster).prepared(name, "t", name)
        init_producer(cluster, "sink.3")
        assert names(list_transactions(cluster, prefix="sink.")) == ["sink.1", "sink.2", "sink.3"]
        assert names(list_transactions(cluster, states=[TransactionState.ONGOING], prefix="s")) == ["sink.1", "sink.2"]
        if newest < 2:
            assert names(list_transactions(cluster, pattern=r"sink\.[13]")) == ["sink.1", "sink.3"]
            assert names(list_transactions(cluster, pattern=r"sink\.", prefix="sink")) == []
        if newest < 1:
            assert names(list_transactions(cluster, prefix="s", open_for_ms=1000)) == ["sink.1", "sink.2"]
            assert list_transactions(cluster, open_for_ms=2**61) == []


def test_brokers_before_3_0_are_unsupported() -> None:
    with ScriptedCluster(versions=KAFKA_2_1) as brokers, Cluster(brokers.config()) as cluster:
        with pytest.raises(KafkaError, match="ListTransactions"):
            list_transactions(cluster)
        with pytest.raises(KafkaError, match="DescribeTransactions"):
            describe_transactions(cluster, ["sink"])
