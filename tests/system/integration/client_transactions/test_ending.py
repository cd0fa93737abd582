import pytest
from dirty_equals import IsOneOf

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.cluster.coordinators import look_up_coordinator
from spark_kafka_native._client.cluster.known_coordinators import CoordinatorType
from spark_kafka_native._client.producer.transactional_producer import TransactionalProducer
from spark_kafka_native._client.transactions.describe_transactions import (
    TransactionState,
    describe_transactions,
    list_transactions,
)
from spark_kafka_native._client.transactions.ending import (
    EndTxnOutcome,
    end_transaction,
    end_transactions,
)
from spark_kafka_native._client.transactions.errors import ProducerFenced, TransactionError
from spark_kafka_native._client.transactions.handle import TransactionHandle
from spark_kafka_native._client.transactions.requests import init_producer
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._protocol.errors import ErrorCode
from tests.support.clients.native_transactions import Transactions, valued
from tests.support.servers.apache_kafka import ApacheKafka
from tests.support.waiting import eventually
from tests.system.integration.client_transactions.conftest import Kafka


def coordinator_of(cluster: Cluster, handle: TransactionHandle) -> int:
    deadline = Deadline.after_ms(30_000)
    return look_up_coordinator(cluster, CoordinatorType.TRANSACTION, handle.transactional_id, deadline).node_id


def settled(cluster: Cluster, transactional_id: str) -> None:
    """Wait until the markers of the last transaction are written."""
    busy = {TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT}
    eventually(lambda: describe_transactions(cluster, [transactional_id])[transactional_id].state, ~IsOneOf(*busy))


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_end_txn_may_be_sent_again(transactions: Transactions, name: str, topic: str, commit: bool) -> None:
    handle = transactions.prepared(name, topic, "a")
    endings = [end_transaction(transactions.cluster, handle, commit=commit) for _ in range(3)]
    settled(transactions.cluster, name)
    endings.append(end_transaction(transactions.cluster, handle, commit=commit))
    assert {(ending.outcome, ending.committed) for ending in endings} == {(EndTxnOutcome.DONE, commit)}
    assert len({ending.identity for ending in endings}) == 1
    transactions.soon_committed(topic, ["a"] if commit else [])


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_an_end_whose_response_was_lost_is_found_done(
    transactions: Transactions, name: str, topic: str, commit: bool
) -> None:
    handle = transactions.prepared(name, topic, "a")
    node_id = coordinator_of(transactions.cluster, handle)
    transactions.end_without_response(handle, commit=commit, node_id=node_id)
    ongoing = TransactionState.ONGOING
    eventually(lambda: describe_transactions(transactions.cluster, [name])[name].state, ~IsOneOf(ongoing))
    ending = end_transaction(transactions.cluster, handle, commit=commit)
    assert (ending.outcome, ending.committed) == (EndTxnOutcome.DONE, commit)
    other = end_transaction(transactions.cluster, handle, commit=not commit)
    assert (other.outcome, other.committed, other.is_closed) == (EndTxnOutcome.ENDED_OTHERWISE, commit, True)
    transactions.soon_committed(topic, ["a"] if commit else [])


def test_a_producer_continues_after_its_transaction_was_ended_elsewhere(
    transactions: Transactions, name: str, topic: str
) -> None:
    with TransactionalProducer(transactions.cluster, name) as producer:
        producer.begin()
        producer.send(topic, valued(["a"]))
        handle = producer.prepare()
        assert end_transaction(transactions.cluster, handle, commit=True).outcome is EndTxnOutcome.DONE
        producer.commit()
        producer.begin()
        producer.send(topic, valued(["b"]))
        producer.commit()
    transactions.soon_committed(topic, ["a", "b"])


def test_a_timed_out_transaction_is_another_error_than_an_ended_one(
    kafka: Kafka, transactions: Transactions, name: str, topic: str
) -> None:
    handle = transactions.prepared(name, topic, "late", timeout_ms=500)
    assert handle.timeout_ms == 500
    assert describe_transactions(transactions.cluster, [name])[name].timeout_ms == 500
    # Below level 2 Apache Kafka raises the epoch before it aborts: the transaction is Ongoing then.
    aborted = IsOneOf(TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT)
    eventually(lambda: describe_transactions(transactions.cluster, [name])[name].state, aborted)
    for _ in range(2):
        ending = end_transaction(transactions.cluster, handle, commit=True)
        assert (ending.outcome, ending.is_closed) == (EndTxnOutcome.ENDED_OTHERWISE, True)
        # Below level 2 the abort raised the epoch, so the coordinator takes the handle's producer for an old one.
        assert (ending.was_fenced, ending.committed) == ((True, None) if kafka.level == 1 else (False, False))
        assert "Abort" in ending.reason
    assert end_transaction(transactions.cluster, handle, commit=False).is_closed
    assert transactions.committed(topic) == []


def test_an_open_transaction_holds_back_readers_until_it_ends(
    transactions: Transactions, name: str, topic: str
) -> None:
    first = transactions.prepared(f"{name}-1", topic, "first")
    second = transactions.prepared(f"{name}-2", topic, "second")
    assert end_transaction(transactions.cluster, second, commit=True).outcome is EndTxnOutcome.DONE
    assert transactions.committed(topic) == []
    assert end_transaction(transactions.cluster, first, commit=False).outcome is EndTxnOutcome.DONE
    transactions.soon_committed(topic, ["second"])


def test_many_are_ended_at_once(transactions: Transactions, name: str, topic: str) -> None:
    handles = [
        transactions.prepared(f"{name}.{number}", topic, str(number), partition=number % 3) for number in range(30)
    ]
    endings = end_transactions(transactions.cluster, handles, commit=True)
    assert {ending.outcome for ending in endings} == {EndTxnOutcome.DONE}
    again = end_transactions(transactions.cluster, handles, commit=True)
    assert [ending.identity for ending in again] == [ending.identity for ending in endings]
    transactions.soon_committed(topic, [str(number) for number in range(30)])


def test_a_transaction_that_never_began_has_nothing_to_commit(cluster: Cluster, kafka: Kafka, name: str) -> None:
    fence = init_producer(cluster, name)
    ending = end_transaction(cluster, fence, commit=True)
    assert (ending.outcome, ending.committed) == (EndTxnOutcome.ENDED_OTHERWISE, False)
    ending = end_transaction(cluster, fence, commit=False)
    assert (ending.outcome, ending.committed) == (EndTxnOutcome.DONE, False)


def test_the_outcome_of_an_unknown_id_is_unknown(cluster: Cluster, transactions: Transactions, name: str) -> None:
    fence = init_producer(cluster, name)
    other = TransactionHandle(**{**fence.to_json(), "transactional_id": f"{name}-never"})
    ending = end_transaction(cluster, other, commit=True)
    assert (ending.outcome, ending.is_closed) == (EndTxnOutcome.UNKNOWN, True)
    assert ending.code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert describe_transactions(cluster, [other.transactional_id, name]).keys() == {name}


def test_open_transactions_are_found_by_name_and_aborted(transactions: Transactions, name: str, topic: str) -> None:
    prefix = f"sink [{name}]+."
    open_ones = [transactions.prepared(f"{prefix}{number}", topic, str(number)) for number in range(3)]
    elsewhere = transactions.prepared(f"other.{name}", topic, "other")
    done = transactions.prepared(f"{prefix}done", topic, "done")
    end_transaction(transactions.cluster, done, commit=True)
    cluster = transactions.cluster

    found = list_transactions(cluster, prefix=prefix, states=[TransactionState.ONGOING])
    assert [(item.transactional_id, item.producer_id) for item in found] == [
        (handle.transactional_id, handle.producer_id) for handle in open_ones
    ]
    assert [item.transactional_id for item in list_transactions(cluster, producer_ids=[elsewhere.producer_id])] == [
        elsewhere.transactional_id
    ]
    by_pattern = list_transactions(cluster, pattern=rf"sink \[{name}\].*[01]")
    assert [item.transactional_id for item in by_pattern] == [handle.transactional_id for handle in open_ones[:2]]
    assert list_transactions(cluster, prefix=prefix, open_for_ms=3_600_000) == []
    ongoing = [TransactionState.ONGOING]
    eventually(lambda: len(list_transactions(cluster, prefix=prefix, states=ongoing, open_for_ms=1)), 3)

    described = describe_transactions(cluster, [item.transactional_id for item in found])
    for handle in open_ones:
        known = described[handle.transactional_id]
        assert (known.producer_id, known.producer_epoch) == (handle.producer_id, handle.producer_epoch)
        assert known.state is TransactionState.ONGOING
        assert known.partitions == tuple(part.partition for part in handle.partitions)
        assert abs(known.started_ms - handle.started_ms) < 30_000
    endings = end_transactions(cluster, open_ones, commit=False)
    assert [ending.outcome for ending in endings] == [EndTxnOutcome.DONE] * 3
    late = end_transaction(cluster, open_ones[0], commit=True)
    assert (late.outcome, late.committed) == (EndTxnOutcome.ENDED_OTHERWISE, False)
    end_transaction(cluster, elsewhere, commit=True)
    transactions.soon_committed(topic, ["done", "other"])


def test_a_producer_whose_transaction_others_aborted_is_done_for(
    kafka: Kafka, transactions: Transactions, name: str, topic: str
) -> None:
    with TransactionalProducer(transactions.cluster, name) as producer:
        producer.begin()
        producer.send(topic, valued(["a"]))
        assert end_transaction(transactions.cluster, producer.prepare(), commit=False).outcome is EndTxnOutcome.DONE
        if kafka.level == 1:
            init_producer(transactions.cluster, name)  # fences where aborting does not
            with pytest.raises(ProducerFenced):
                producer.commit()
            return
        with pytest.raises(TransactionError, match="not in a state"):
            producer.commit()
    assert transactions.committed(topic) == []


@pytest.mark.parametrize("asked", [False, True], ids=["before", "after"])
def test_a_handle_outlives_the_broker(
    kafka: Kafka, transactions: Transactions, name: str, topic: str, asked: bool
) -> None:
    """The broker is killed before EndTxn, or after it.

    Apache Kafka 4.3.1 now and then never writes the markers that were due when it was killed; so they are waited for.
    """
    handle = transactions.prepared(name, topic, "a")
    other = transactions.prepared(f"{name}-other", topic, "b", partition=1)
    if asked:
        assert end_transaction(transactions.cluster, handle, commit=True).outcome is EndTxnOutcome.DONE
        if isinstance(kafka.broker, ApacheKafka):
            settled(transactions.cluster, name)
    kafka.broker.kill()
    kafka.broker.restart()
    endings = end_transactions(transactions.cluster, [handle], commit=True)
    endings += end_transactions(transactions.cluster, [other], commit=False)
    assert [ending.outcome for ending in endings] == [EndTxnOutcome.DONE, EndTxnOutcome.DONE]
    transactions.soon_committed(topic, ["a"])
