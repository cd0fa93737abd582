from collections.abc import Callable
from typing import Any

import pytest

from broker_embedded._testing.refusals import refusal
from spark_kafka_native._client.admin.committed_offsets import OffsetAndMetadata
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.transactions.errors import (
    ProducerFailed,
    ProducerFenced,
    TransactionError,
    TransactionFailed,
)
from spark_kafka_native._client.transactions.handle import TransactionalIdentity
from spark_kafka_native._client.transactions.requests import (
    GroupMembership,
    add_offsets,
    add_partitions,
    commit_offsets_in_transaction,
    init_producer,
    max_block_deadline,
    raise_for,
    transaction_version,
)
from spark_kafka_native._net.address import HostPort
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._net.errors import AuthenticationFailed
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from spark_kafka_native._protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from spark_kafka_native._protocol.messages.init_producer_id import InitProducerIdRequest
from spark_kafka_native._protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from spark_kafka_native._protocol.schema import Request
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.scripted.cluster import KAFKA_2_1, ScriptedCluster
from tests.support.scripted.fixtures import brokers_of_each_level, client_of_brokers
from tests.support.scripted.steps import Drop, Refuse, Respond

PARTS = [TopicPartition("t", 1), TopicPartition("u", 0), TopicPartition("t", 0)]
OFFSETS = {PARTS[0]: OffsetAndMetadata(offset=7, leader_epoch=2, metadata="m")}


brokers = brokers_of_each_level(brokers=2)


cluster = client_of_brokers(max_block_ms=20_000)


@pytest.fixture
def identity(cluster: Cluster) -> TransactionalIdentity:
    return init_producer(cluster, "sink")


def versions(brokers: ScriptedCluster, kind: type[Request[Any]]) -> list[int]:
    return [version for _, request, version in brokers.received if isinstance(request, kind)]


def test_init_producer_id_returns_id_epoch_and_transaction_version(brokers: ScriptedCluster, cluster: Cluster) -> None:
    first, second = init_producer(cluster, "sink", timeout_ms=5000), init_producer(cluster, "sink")
    assert first.transaction_version == brokers.state.transactions.level
    assert (first.timeout_ms, second.timeout_ms) == (5000, 60_000)
    assert (second.producer_id, second.producer_epoch) == (first.producer_id, first.producer_epoch + 1)
    asked = brokers.requests(InitProducerIdRequest)
    assert [(item.transaction_timeout_ms, item.producer_id) for item in asked] == [(5000, -1), (60_000, -1)]


def test_a_transaction_version_that_was_raised_is_noticed(cluster: Cluster, brokers: ScriptedCluster) -> None:
    for level in (0, 1, 2):
        brokers.state.transactions.level = level
        assert init_producer(cluster, "sink").transaction_version == level
        assert transaction_version(cluster, max_block_deadline(cluster, None)) == level


def test_any_broker_can_tell_the_level(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """Also while one is gone that the others still name."""
    brokers.brokers[1].stop()
    for _ in range(5):
        assert transaction_version(cluster, Deadline.after_ms(10_000)) == brokers.state.transactions.level


def test_a_claimed_producer_id_is_sent_with_its_epoch(cluster: Cluster, brokers: ScriptedCluster) -> None:
    first = init_producer(cluster, "sink")
    second = init_producer(cluster, "sink", claimed=first)
    assert brokers.requests(InitProducerIdRequest)[-1].producer_id == first.producer_id
    with pytest.raises(ProducerFenced, match="no producer id was given"):
        init_producer(cluster, "sink", claimed=first)
    assert second.producer_epoch == first.producer_epoch + 1


def test_old_brokers_raise_the_epoch_of_anybody() -> None:
    with ScriptedCluster(versions=KAFKA_2_1) as brokers, Cluster(brokers.config()) as cluster:
        first = init_producer(cluster, "sink")
        second = init_producer(cluster, "sink", claimed=first)
    assert (second.producer_epoch, second.transaction_version) == (1, 0)


@pytest.mark.parametrize(
    ("code", "expected", "text"),
    [
        (
            ErrorCode.INVALID_TRANSACTION_TIMEOUT,
            ProducerFailed,
            r"kafka\.transaction\.timeout\.ms = 9 is more than the broker's",
        ),
        (ErrorCode.PRODUCER_FENCED, ProducerFenced, "newer producer"),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ProducerFenced, "no producer id"),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ProducerFailed, "not authorized for WRITE on"),
    ],
)
def test_a_producer_id_may_be_refused(
    brokers: ScriptedCluster, cluster: Cluster, code: ErrorCode, expected: type[TransactionError], text: str
) -> None:
    brokers.script(InitProducerIdRequest, Refuse(ErrorCode.CONCURRENT_TRANSACTIONS), Drop(), Refuse(code))
    with pytest.raises(expected, match=text) as caught:
        init_producer(cluster, "sink", timeout_ms=9)
    assert (caught.value.code, caught.value.transactional_id) == (code, "sink")


def test_the_error_after_the_deadline_has_the_last_reason(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.script(InitProducerIdRequest, *[Refuse(ErrorCode.CONCURRENT_TRANSACTIONS)] * 1000)
    with pytest.raises(ProducerFailed, match=r"previous transaction is still being completed|no response|be reached"):
        init_producer(cluster, "sink", max_block_ms=100)


@pytest.mark.parametrize("step", [Drop(applied=True), Drop()], ids=str)
def test_a_request_that_must_not_come_late_is_sent_once(brokers: ScriptedCluster, cluster: Cluster, step: Drop) -> None:
    brokers.script(InitProducerIdRequest, Refuse(ErrorCode.CONCURRENT_TRANSACTIONS), step)
    with pytest.raises(ProducerFailed, match="connection"):
        init_producer(cluster, "sink", once=True)
    assert len(brokers.requests(InitProducerIdRequest)) == 2, "a refusal was carried out, and is asked again"
    assert init_producer(cluster, "sink", once=True).producer_epoch == (1 if step.applied else 0)


def test_partitions_are_added_together(
    brokers: ScriptedCluster, cluster: Cluster, identity: TransactionalIdentity
) -> None:
    brokers.script(AddPartitionsToTxnRequest, Refuse(ErrorCode.CONCURRENT_TRANSACTIONS))
    add_partitions(cluster, identity, PARTS, max_block_deadline(cluster, None))
    assert brokers.state.transactions.by_id["sink"].partitions == set(PARTS)
    assert versions(brokers, AddPartitionsToTxnRequest) == [3, 3]


def test_of_several_errors_the_most_specific_is_raised(
    brokers: ScriptedCluster, cluster: Cluster, identity: TransactionalIdentity
) -> None:
    codes = iter([ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.TOPIC_AUTHORIZATION_FAILED])

    def response(request: Any) -> Any:
        responses: list[Any] = [refusal(request, 3, code) for code in codes]
        parts = [part for found in responses for part in found.results_by_topic_v3_and_below]
        return type(responses[0])(results_by_topic_v3_and_below=(parts[0], parts[-1]))

    brokers.script(AddPartitionsToTxnRequest, Respond(response))
    with pytest.raises(TransactionFailed, match="u-0 cannot be added to the transaction") as caught:
        add_partitions(cluster, identity, PARTS[:2], max_block_deadline(cluster, None))
    assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


def ask_offsets(cluster: Cluster, identity: TransactionalIdentity, member: GroupMembership | None = None) -> None:
    if not identity.has_epoch_per_transaction:
        add_offsets(cluster, identity, "g", max_block_deadline(cluster, None))
    commit_offsets_in_transaction(cluster, identity, "g", OFFSETS, member, max_block_deadline(cluster, None))


def test_offsets_go_by_the_level(brokers: ScriptedCluster, cluster: Cluster, identity: TransactionalIdentity) -> None:
    ask_offsets(cluster, identity, GroupMembership(member_id="m", generation_id=4, instance_id="i"))
    (asked,) = brokers.requests(TxnOffsetCommitRequest)
    assert (asked.member_id, asked.generation_id, asked.group_instance_id) == ("m", 4, "i")
    assert brokers.state.transactions.by_id["sink"].offsets == {("g", PARTS[0]): (7, 2, "m")}
    by_epoch = identity.has_epoch_per_transaction
    assert versions(brokers, TxnOffsetCommitRequest) == [5 if by_epoch else 4]
    assert versions(brokers, AddOffsetsToTxnRequest) == ([] if by_epoch else [4])


def test_old_brokers_take_no_members_offsets() -> None:
    with ScriptedCluster(versions=KAFKA_2_1) as brokers, Cluster(brokers.config()) as cluster:
        identity = init_producer(cluster, "sink")
        ask_offsets(cluster, identity)
        with pytest.raises(ProducerFailed, match=r"older than 2\.5 and takes no member's offsets"):
            ask_offsets(cluster, identity, GroupMembership(member_id="m", generation_id=4))
        assert versions(brokers, TxnOffsetCommitRequest) == [2]


def ask_partitions(cluster: Cluster, identity: TransactionalIdentity) -> None:
    add_partitions(cluster, identity, PARTS, max_block_deadline(cluster, None))


def ask_group(cluster: Cluster, identity: TransactionalIdentity) -> None:
    add_offsets(cluster, identity, "g", max_block_deadline(cluster, None))


def ask_commit(cluster: Cluster, identity: TransactionalIdentity) -> None:
    commit_offsets_in_transaction(cluster, identity, "g", OFFSETS, None, max_block_deadline(cluster, None))


@pytest.mark.parametrize(
    ("kind", "ask"),
    [
        (AddPartitionsToTxnRequest, ask_partitions),
        (AddOffsetsToTxnRequest, ask_group),
        (TxnOffsetCommitRequest, ask_commit),
    ],
    ids=["partitions", "group", "offsets"],
)
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.TRANSACTION_ABORTABLE, TransactionFailed),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, TransactionFailed),
        (ErrorCode.PRODUCER_FENCED, ProducerFenced),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ProducerFenced),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, ProducerFailed),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ProducerFailed),
    ],
)
def test_errors_show_whether_the_producer_can_continue(
    brokers: ScriptedCluster,
    cluster: Cluster,
    identity: TransactionalIdentity,
    kind: type[Request[Any]],
    ask: Callable[[Cluster, TransactionalIdentity], None],
    code: ErrorCode,
    expected: type[TransactionError],
) -> None:
    brokers.script(kind, Refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), Refuse(code))
    with pytest.raises(expected) as caught:
        ask(cluster, identity)
    assert type(caught.value) is expected
    assert caught.value.code is code


def test_authentication_failed_is_final() -> None:
    with pytest.raises(ProducerFailed, match=r"sasl\.jaas\.config: wrong password"):
        raise_for("sink", AuthenticationFailed(HostPort("h", 1), "sasl.jaas.config", "wrong password"))
    with pytest.raises(TransactionFailed):
        raise_for("sink", KafkaError(ErrorCode.REQUEST_TIMED_OUT, "late"))
