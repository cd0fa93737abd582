"""Requests of a transactional producer to its coordinator and the group's coordinator, one function each.

Retriable errors are retried until the deadline; other errors are those of ``transactions.errors``. A request that was
carried out although its response was lost succeeds when it is repeated.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NoReturn

from spark_kafka_native._client.admin.committed_offsets import OffsetAndMetadata
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.cluster.coordinators import at_coordinator
from spark_kafka_native._client.cluster.known_coordinators import CoordinatorType
from spark_kafka_native._client.retry import retry
from spark_kafka_native._client.transactions.errors import FENCED, ProducerFailed, ProducerFenced, TransactionFailed
from spark_kafka_native._client.transactions.handle import TransactionalIdentity
from spark_kafka_native._net.blocking import Connection
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._net.errors import AuthenticationFailed, ConnectionLost, RequestTimeout
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError, check_code
from spark_kafka_native._protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from spark_kafka_native._protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from spark_kafka_native._protocol.messages.init_producer_id import InitProducerIdRequest
from spark_kafka_native._protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from spark_kafka_native._protocol.topic import TopicPartition, by_topic

TRANSACTION_VERSION: Final = "transaction.version"
"""The feature whose finalized level decides about the versions of transaction requests."""

_FIRST_THAT_CLAIMS: Final = 3
_LAST_ADD_PARTITIONS_OF_CLIENTS: Final = 3
_LAST_TXN_OFFSET_COMMIT_WITH_ADD_OFFSETS: Final = 4
_FIRST_TXN_OFFSET_COMMIT_OF_MEMBERS: Final = 3

_FATAL: Final = FENCED | {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    ErrorCode.UNSUPPORTED_VERSION,
}
"""Errors after which a producer cannot even abort its transaction, or has none."""


def init_producer(
    cluster: Cluster,
    transactional_id: str,
    *,
    timeout_ms: int | None = None,
    claimed: TransactionalIdentity | None = None,
    max_block_ms: float | None = None,
    once: bool = False,
) -> TransactionalIdentity:
    """Make the caller the only producer of a transactional id: fence earlier ones, abort their open transaction.

    ``timeout_ms``: how long a transaction may be open, by default ``transaction.timeout.ms``. ``claimed``: only if it
    is still the id's producer, whose epoch is raised (KIP-360; brokers before 2.5 raise it whatever is claimed). Waits
    for at most ``max_block_ms``, by default ``max.block.ms``. ``once``: a request whose response was lost is not sent
    again, because a late copy would abort the next transaction. Raises ProducerFailed; ProducerFenced: ``claimed`` is
    no more.
    """
    open_ms = cluster.config.transaction_timeout_ms if timeout_ms is None else timeout_ms

    def ask(connection: Connection, wait_ms: float) -> TransactionalIdentity:
        connection.renew_versions(timeout_ms=wait_ms)
        named = claimed is not None and connection.version_of(InitProducerIdRequest) >= _FIRST_THAT_CLAIMS
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=open_ms,
            producer_id=claimed.producer_id if claimed is not None and named else -1,
            producer_epoch=claimed.producer_epoch if claimed is not None and named else -1,
        )
        try:
            response = connection.call(request, timeout_ms=wait_ms)
        except (ConnectionLost, RequestTimeout) as error:
            if once:
                raise _Unanswered(error.code, error.detail) from error
            raise
        check_code(response.error_code, "no producer id was given", operation="WRITE")
        return TransactionalIdentity(
            transactional_id=transactional_id,
            producer_id=response.producer_id,
            producer_epoch=response.producer_epoch,
            timeout_ms=open_ms,
            transaction_version=connection.feature_level(TRANSACTION_VERSION),
        )

    try:
        return at_coordinator(
            cluster, CoordinatorType.TRANSACTION, transactional_id, ask, max_block_deadline(cluster, max_block_ms)
        )
    except KafkaError as error:
        if error.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT:
            option = f"{cluster.config.option_prefix}transaction.timeout.ms"
            reason = f"{option} = {open_ms} is more than the broker's transaction.max.timeout.ms allows"
            raise ProducerFailed(transactional_id, error.code, reason) from error
        if error.code in FENCED:
            raise ProducerFenced(transactional_id, error.code, str(error)) from error
        raise ProducerFailed(transactional_id, error.code, str(error)) from error


class _Unanswered(KafkaError):
    """A request that must not be sent again may have been carried out."""

    _retriable = False


def transaction_version(cluster: Cluster, deadline: Deadline) -> int:
    """The level of ``transaction.version`` that the cluster has finalized; 0 if it has not, or is too old to."""

    def ask() -> int:
        with cluster.lent(cluster.any_node(deadline), deadline) as connection:
            connection.renew_versions(timeout_ms=deadline.remaining_ms)
            return connection.feature_level(TRANSACTION_VERSION)

    return retry(ask, deadline, cluster.backoff())


def add_partitions(
    cluster: Cluster, identity: TransactionalIdentity, partitions: Iterable[TopicPartition], deadline: Deadline
) -> None:
    """Make partitions part of the transaction; the first begin it. Raises TransactionFailed, ProducerFailed."""
    topics = tuple(
        AddPartitionsToTxnTopic(name=name, partitions=tuple(part.partition for part in parts))
        for name, parts in by_topic(partitions).items()
    )
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=identity.transactional_id,
        v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=identity.producer_epoch,
        v3_and_below_topics=topics,
    )

    def ask(connection: Connection, wait_ms: float) -> None:
        response = connection.call(request, timeout_ms=wait_ms, max_version=_LAST_ADD_PARTITIONS_OF_CLIENTS)
        codes = {
            TopicPartition(topic.name, part.partition_index): ErrorCode.of(part.partition_error_code)
            for topic in response.results_by_topic_v3_and_below
            for part in topic.results_by_partition
        }
        # One refused partition keeps all others from being attempted.
        for partition, code in codes.items():
            if code is not ErrorCode.OPERATION_NOT_ATTEMPTED:
                check_code(code, f"{partition} cannot be added to the transaction", operation="WRITE")
        for partition, code in codes.items():
            check_code(code, f"{partition} cannot be added to the transaction")

    _ask(cluster, identity, CoordinatorType.TRANSACTION, identity.transactional_id, ask, deadline)


def add_offsets(cluster: Cluster, identity: TransactionalIdentity, group_id: str, deadline: Deadline) -> None:
    """Make a group's offsets part of the transaction. Raises TransactionFailed, ProducerFailed."""
    request = AddOffsetsToTxnRequest(
        transactional_id=identity.transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        group_id=group_id,
    )

    def ask(connection: Connection, wait_ms: float) -> None:
        response = connection.call(request, timeout_ms=wait_ms)
        subject = f"the offsets of group {group_id} cannot be added to the transaction"
        check_code(response.error_code, subject, operation=_operation(response.error_code))

    _ask(cluster, identity, CoordinatorType.TRANSACTION, identity.transactional_id, ask, deadline)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GroupMembership:
    """The member's id and generation, so that its offsets are committed only while it is a member (KIP-447)."""

    member_id: str
    generation_id: int
    """Of a group of the newer protocol (KIP-848): the member's epoch."""
    instance_id: str | None = None


def commit_offsets_in_transaction(
    cluster: Cluster,
    identity: TransactionalIdentity,
    group_id: str,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    member: GroupMembership | None,
    deadline: Deadline,
) -> None:
    """Commit offsets that count once the transaction is committed. Raises TransactionFailed, ProducerFailed."""
    topics = tuple(
        TxnOffsetCommitRequestTopic(
            name=name,
            partitions=tuple(
                TxnOffsetCommitRequestPartition(
                    partition_index=part.partition,
                    committed_offset=offsets[part].offset,
                    committed_leader_epoch=offsets[part].leader_epoch,
                    committed_metadata=offsets[part].metadata,
                )
                for part in parts
            ),
        )
        for name, parts in by_topic(offsets).items()
    )
    request = TxnOffsetCommitRequest(
        transactional_id=identity.transactional_id,
        group_id=group_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        generation_id=-1 if member is None else member.generation_id,
        member_id="" if member is None else member.member_id,
        group_instance_id=None if member is None else member.instance_id,
        topics=topics,
    )
    last = None if identity.has_epoch_per_transaction else _LAST_TXN_OFFSET_COMMIT_WITH_ADD_OFFSETS

    def ask(connection: Connection, wait_ms: float) -> None:
        if (
            member is not None
            and connection.version_of(TxnOffsetCommitRequest, last) < _FIRST_TXN_OFFSET_COMMIT_OF_MEMBERS
        ):
            detail = f"{connection.address} is older than 2.5 and takes no member's offsets into a transaction"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, detail)
        response = connection.call(request, timeout_ms=wait_ms, max_version=last)
        for topic in response.topics:
            for part in topic.partitions:
                partition = TopicPartition(topic.name, part.partition_index)
                subject = f"group {group_id}, {partition}: the offset cannot be committed"
                check_code(part.error_code, subject, operation=_operation(part.error_code))

    _ask(cluster, identity, CoordinatorType.GROUP, group_id, ask, deadline)


def _operation(error_code: int) -> str:
    """The ACL operation that offsets in transactions need on their group and topics, or on the transactional id."""
    return "WRITE" if error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED else "READ"


def max_block_deadline(cluster: Cluster, max_block_ms: float | None) -> Deadline:
    """``max_block_ms`` from now, by default the property ``max.block.ms``."""
    return Deadline.after_ms(cluster.config.max_block_ms if max_block_ms is None else max_block_ms)


def raise_for(transactional_id: str, error: KafkaError) -> NoReturn:
    """Raise what an error in the middle of a transaction means for it, and for its producer."""
    if error.code in FENCED:
        raise ProducerFenced(transactional_id, error.code, str(error)) from error
    if error.code in _FATAL or isinstance(error, AuthenticationFailed):
        raise ProducerFailed(transactional_id, error.code, str(error)) from error
    raise TransactionFailed(transactional_id, error.code, str(error)) from error


def _ask(
    cluster: Cluster,
    identity: TransactionalIdentity,
    kind: CoordinatorType,
    key: str,
    ask: Callable[[Connection, float], None],
    deadline: Deadline,
) -> None:
    try:
        at_coordinator(cluster, kind, key, ask, deadline)
    except KafkaError as error:
        raise_for(identity.transactional_id, error)
