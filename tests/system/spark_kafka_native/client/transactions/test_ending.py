import dataclasses

import pytest

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.transactions.ending import (
    Ending,
    EndTxnOutcome,
    end_transaction,
    end_transactions,
)
from spark_kafka_native._client.transactions.handle import TransactionHandle
from spark_kafka_native._client.transactions.requests import init_producer
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.describe_transactions import DescribeTransactionsRequest
from spark_kafka_native._protocol.messages.end_txn import EndTxnRequest
from spark_kafka_native._protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.support.clients.native_transactions import Transactions
from tests.support.scripted.cluster import KAFKA_2_1, KAFKA_4_3, ScriptedCluster
from tests.support.scripted.fixtures import brokers_of_each_level, client_of_brokers
from tests.support.scripted.steps import Drop, HalfFrame, Refuse, Silent, Slow, Step

TRANSPORT = {ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT}
"""The codes if not even the first response came in time."""


brokers = brokers_of_each_level(brokers=2, topics={"t": 4})


cluster = client_of_brokers(max_block_ms=20_000, request_timeout_ms=150)


@pytest.fixture
def handle(cluster: Cluster) -> TransactionHandle:
    return Transactions(cluster).prepared("sink", "t", "a")


def summary(ending: Ending) -> tuple[EndTxnOutcome, bool | None, bool, ErrorCode]:
    return ending.outcome, ending.committed, ending.is_closed, ending.code


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_end_txn_may_be_repeated(
    brokers: ScriptedCluster, cluster: Cluster, handle: TransactionHandle, commit: bool
) -> None:
    endings = [end_transaction(cluster, handle, commit=commit) for _ in range(3)]
    assert {summary(ending) for ending in endings} == {(EndTxnOutcome.DONE, commit, True, ErrorCode.NONE)}
    rises = handle.has_epoch_per_transaction
    following = dataclasses.replace(handle.identity, producer_epoch=handle.producer_epoch + rises)
    assert {ending.identity for ending in endings} == {following}
    versions = {version for _, request, version in brokers.received if isinstance(request, EndTxnRequest)}
    assert versions == ({5} if rises else {4})


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize(
    "steps",
    [
        [Drop()],
        [Drop(applied=True)],
        [HalfFrame()],
        [Silent()],
        [Silent(applied=True)],
        [Slow(400)],
        [Refuse(ErrorCode.NOT_COORDINATOR)],
        [Refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), Refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)],
        [Drop(applied=True), Refuse(ErrorCode.CONCURRENT_TRANSACTIONS), Drop()],
    ],
    ids=str,
)
def test_end_txn_is_retried_until_the_result_is_known(
    brokers: ScriptedCluster, cluster: Cluster, handle: TransactionHandle, steps: list[Step], commit: bool
) -> None:
    brokers.script(EndTxnRequest, *steps)
    ending = end_transaction(cluster, handle, commit=commit)
    assert summary(ending) == (EndTxnOutcome.DONE, commit, True, ErrorCode.NONE)
    assert brokers.state.transactions.by_id["sink"].state == ("CompleteCommit" if commit else "CompleteAbort")


def test_a_coordinator_that_moves_is_followed(
    brokers: ScriptedCluster, cluster: Cluster, handle: TransactionHandle
) -> None:
    brokers.state.coordinator = 2
    assert end_transaction(cluster, handle, commit=True).outcome is EndTxnOutcome.DONE


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_a_transaction_that_ended_the_other_way(cluster: Cluster, handle: TransactionHandle, commit: bool) -> None:
    end_transaction(cluster, handle, commit=commit)
    ending = end_transaction(cluster, handle, commit=not commit)
    assert summary(ending) == (EndTxnOutcome.ENDED_OTHERWISE, commit, True, ErrorCode.INVALID_TXN_STATE)
    assert ending.identity is None
    assert f"its coordinator now has sink in Complete{'Commit' if commit else 'Abort'}" in ending.reason


def test_an_empty_transaction_cannot_be_committed_and_counts_as_aborted(cluster: Cluster) -> None:
    fence = init_producer(cluster, "sink")
    expected = (EndTxnOutcome.ENDED_OTHERWISE, False, True, ErrorCode.INVALID_TXN_STATE)
    assert summary(end_transaction(cluster, fence, commit=True)) == expected
    ending = end_transaction(cluster, fence, commit=False)
    assert (ending.outcome, ending.committed, ending.identity) == (EndTxnOutcome.DONE, False, fence)


@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_a_fenced_transaction_ended_otherwise(
    brokers: ScriptedCluster, cluster: Cluster, handle: TransactionHandle, commit: bool, code: ErrorCode
) -> None:
    brokers.state.transactions.by_id["sink"].epoch += 3
    brokers.script(EndTxnRequest, Refuse(ErrorCode.NOT_COORDINATOR), Refuse(code))
    ending = end_transaction(cluster, handle, commit=commit)
    assert summary(ending) == (EndTxnOutcome.ENDED_OTHERWISE, None, True, code)
    assert ending.was_fenced
    assert f"epoch {handle.producer_epoch + 3}" in ending.reason


@pytest.mark.parametrize("lost", [Drop(applied=True), Refuse(ErrorCode.CONCURRENT_TRANSACTIONS)], ids=str)
def test_producer_fenced_after_a_lost_response_leaves_the_end_unknown(
    brokers: ScriptedCluster, cluster: Cluster, handle: TransactionHandle, lost: Step
) -> None:
    brokers.script(EndTxnRequest, lost, Refuse(ErrorCode.PRODUCER_FENCED))
    ending = end_transaction(cluster, handle, commit=True)
    assert summary(ending) == (EndTxnOutcome.UNKNOWN, None, True, ErrorCode.PRODUCER_FENCED)


def test_the_end_of_a_forgotten_id_is_unknown(
    brokers: ScriptedCluster, cluster: Cluster, handle: TransactionHandle
) -> None:
    brokers.state.transactions.by_id.clear()
    ending = end_transaction(cluster, handle, commit=True)
    assert summary(ending) == (EndTxnOutcome.UNKNOWN, None, True, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    assert not ending.was_fenced


@pytest.mark.parametrize(
    ("step", "code"),
    [
        (Silent(applied=True), ErrorCode.REQUEST_TIMED_OUT),
        (Refuse(ErrorCode.CONCURRENT_TRANSACTIONS), ErrorCode.CONCURRENT_TRANSACTIONS),
        (Refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ],
    ids=str,
)
def test_without_a_response_the_transaction_may_be_open(
    brokers: ScriptedCluster, cluster: Cluster, handle: TransactionHandle, step: Step, code: ErrorCode
) -> None:
    brokers.script(EndTxnRequest, *[step] * 5_000)
    ending = end_transaction(cluster, handle, commit=True, timeout_ms=600)
    assert summary(ending)[:3] == (EndTxnOutcome.UNKNOWN, None, False)
    assert ending.code in {code, *TRANSPORT}


def test_without_a_coordinator_the_end_is_unknown(
    brokers: ScriptedCluster, cluster: Cluster, handle: TransactionHandle
) -> None:
    cluster.coordinators.clear()
    brokers.script(FindCoordinatorRequest, *[Refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)] * 5_000)
    ending = end_transaction(cluster, handle, commit=False, timeout_ms=600)
    assert summary(ending)[:3] == (EndTxnOutcome.UNKNOWN, None, False)
    assert ending.code in {ErrorCode.COORDINATOR_NOT_AVAILABLE, *TRANSPORT}


def test_unknown_server_error_leaves_the_end_unknown(
    brokers: ScriptedCluster, cluster: Cluster, handle: TransactionHandle
) -> None:
    brokers.script(EndTxnRequest, Refuse(ErrorCode.UNKNOWN_SERVER_ERROR))
    assert summary(end_transaction(cluster, handle, commit=True)) == (
        *(EndTxnOutcome.UNKNOWN, None, False),
        ErrorCode.UNKNOWN_SERVER_ERROR,
    )


def test_end_txn_without_authorization_is_an_error(
    brokers: ScriptedCluster, cluster: Cluster, handle: TransactionHandle
) -> None:
    brokers.script(EndTxnRequest, Refuse(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    with pytest.raises(KafkaError, match=r"commit of sink \(producer .* not authorized for WRITE on this"):
        end_transaction(cluster, handle, commit=True)


def test_brokers_that_describe_nothing_say_less(brokers: ScriptedCluster, handle: TransactionHandle) -> None:
    brokers.script(DescribeTransactionsRequest, Refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    brokers.script(EndTxnRequest, Refuse(ErrorCode.INVALID_TXN_STATE))
    with Cluster(brokers.config()) as cluster:
        ending = end_transaction(cluster, handle, commit=False)
    assert summary(ending) == (EndTxnOutcome.ENDED_OTHERWISE, None, True, ErrorCode.INVALID_TXN_STATE)


def test_many_transactions_are_ended_in_few_round_trips(brokers: ScriptedCluster, cluster: Cluster) -> None:
    write = Transactions(cluster)
    handles = [write.prepared(f"sink.{number}", "t", str(number)) for number in range(25)]
    fenced = dataclasses.replace(handles[7], producer_epoch=handles[7].producer_epoch + 9)
    cluster.coordinators.clear()
    asked = len(brokers.requests(FindCoordinatorRequest))
    brokers.script(EndTxnRequest, Drop(applied=True), Slow(1), Refuse(ErrorCode.CONCURRENT_TRANSACTIONS))
    endings = end_transactions(cluster, [*handles[:7], fenced, *handles[8:]], commit=True)
    outcomes = [ending.outcome for ending in endings]
    assert outcomes.pop(7) is EndTxnOutcome.UNKNOWN, "its first question was lost with those before it"
    assert set(outcomes) == {EndTxnOutcome.DONE}
    assert len(brokers.requests(FindCoordinatorRequest)) - asked < 10, "all at once, and again after lost connections"


def test_one_id_cannot_be_ended_twice_at_once(cluster: Cluster, handle: TransactionHandle) -> None:
    with pytest.raises(ValueError, match="two transactions of one transactional id"):
        end_transactions(cluster, [handle, handle], commit=True)
    assert end_transactions(cluster, [], commit=True) == []


def test_a_handle_of_level_2_is_spoken_as_the_broker_can() -> None:
    with ScriptedCluster(versions=KAFKA_2_1) as brokers, Cluster(brokers.config()) as cluster:
        fence = dataclasses.replace(init_producer(cluster, "sink"), transaction_version=2)
        ending = end_transaction(cluster, fence, commit=True)
    assert ending.outcome is EndTxnOutcome.ENDED_OTHERWISE


def test_brokers_without_transactions_are_named() -> None:
    handle = TransactionHandle(
        transactional_id="sink", producer_id=1, producer_epoch=0, timeout_ms=1, transaction_version=0
    )
    versions = {key: span for key, span in KAFKA_4_3.items() if key != EndTxnRequest.api_key}
    with (
        ScriptedCluster(versions=versions) as brokers,
        Cluster(brokers.config()) as cluster,
        pytest.raises(KafkaError, match=r"commit of sink .*: EndTxn: .*no such API") as caught,
    ):
        end_transaction(cluster, handle, commit=True)
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
