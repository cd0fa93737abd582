"""Transactions: rows and offsets that are committed together or not at all (KIP-98).

    init -> begin -> send, send_offsets -> prepare -> commit or abort -> begin -> ...
                                              |
                                              +-> a handle, with which any process can commit or abort

No thread and no clock: a transaction begins at the coordinator with the first rows that are sent, and is ended by a
process that has its handle, or by the broker after its timeout.
"""

import dataclasses
import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum, auto
from typing import Self

import pyarrow as pa

from spark_kafka_native._client.admin.committed_offsets import OffsetAndMetadata
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.errors import ProduceError
from spark_kafka_native._client.partitioning.partitioners import TopicPartitioners
from spark_kafka_native._client.producer.producer import Producer
from spark_kafka_native._client.producer.sender import ProduceMetrics
from spark_kafka_native._client.transactions.ending import Ending, EndTxnOutcome, end_transaction
from spark_kafka_native._client.transactions.errors import (
    ProducerFailed,
    ProducerFenced,
    TransactionError,
    TransactionFailed,
    TransactionInDoubt,
)
from spark_kafka_native._client.transactions.handle import TransactionalIdentity, TransactionHandle
from spark_kafka_native._client.transactions.requests import (
    GroupMembership,
    add_offsets,
    commit_offsets_in_transaction,
    init_producer,
    max_block_deadline,
    raise_for,
)
from spark_kafka_native._client.transactions.scope import TransactionScope
from spark_kafka_native._net.errors import ConfigError
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._records.arrow.encode import EncodedBatch

_log = logging.getLogger(__name__)


class _Phase(Enum):
    """What can be done next."""

    NEW = auto()
    """``begin``, which requests a producer id."""
    IDLE = auto()
    """``begin``."""
    OPEN = auto()
    PREPARED = auto()
    """``commit`` or ``abort``, here or elsewhere."""
    BROKEN = auto()
    """``abort``."""
    FAILED = auto()
    """Nothing."""
    CLOSED = auto()


class TransactionalProducer:
    """Writes in transactions, one after the other. Use it as a context manager, or call ``close``.

    After TransactionFailed the open transaction can only be aborted; after ProducerFailed the producer can only be
    closed. Leaving the ``with`` block aborts what is open, unless it was prepared: then another process ends it.
    """

    def __init__(
        self,
        cluster: Cluster,
        producer: str | TransactionalIdentity | None = None,
        *,
        timeout_ms: int | None = None,
        partitioner: str | TopicPartitioners | None = None,
    ) -> None:
        """Sends no request yet.

        ``producer``: a transactional id, whose earlier producers the first ``begin`` fences, by default
        ``transactional.id``; or an identity to resume, which fences no producer and fails if another was initialised.
        ``timeout_ms``: how long a transaction may be open, by default ``transaction.timeout.ms``. ``partitioner``: as
        for ``Producer``. Raises ConfigError: no id, or settings that allow no transactions.
        """
        config = cluster.config
        known = producer if isinstance(producer, TransactionalIdentity) else None
        name = producer.transactional_id if isinstance(producer, TransactionalIdentity) else producer
        self._transactional_id = name or config.transactional_id or ""
        if not self._transactional_id:
            raise ConfigError("transactional.id", "is needed for transactions")
        if not config.enable_idempotence:
            raise ConfigError("enable.idempotence", "must be true for transactions")
        self._cluster = cluster
        self._timeout_ms = timeout_ms
        self._partitioner = partitioner
        self._identity = known
        self._phase = _Phase.NEW if known is None else _Phase.IDLE
        self._scope: TransactionScope | None = None
        self._producer: Producer | None = None
        self._metrics = ProduceMetrics()
        self._failure: TransactionError | None = None
        if known is not None:
            self._renew(known, resumed=True)

    @property
    def transactional_id(self) -> str:
        """The ``transactional.id``."""
        return self._transactional_id

    @property
    def identity(self) -> TransactionalIdentity | None:
        """Producer id and epoch as they are now; None before the first ``begin``."""
        return self._identity

    @property
    def metrics(self) -> ProduceMetrics:
        """Counters from the start."""
        return _sum(self._metrics, self._producer.metrics if self._producer else ProduceMetrics())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- one transaction

    def begin(self) -> None:
        """Begin a transaction; its coordinator gets a request with the first rows.

        Raises ProducerFailed: no producer id could be had; ProducerFenced: another producer was initialised since.
        """
        self._expect("begin", _Phase.NEW, _Phase.IDLE)
        if self._phase is _Phase.NEW:
            known = self._identity
            timeout_ms = known.timeout_ms if known is not None else self._timeout_ms
            with self._watched():
                found = init_producer(self._cluster, self._transactional_id, timeout_ms=timeout_ms, claimed=known)
            self._renew(found)
        self._open.restart()
        self._phase = _Phase.OPEN

    def send(self, topic: str, rows: pa.RecordBatch) -> None:
        """Hand over rows, as to ``Producer.send``, which lists the errors before any row is taken.

        Raises TransactionFailed, ProducerFailed: rows of this or an earlier call could not be written.
        """
        self._expect("send", _Phase.OPEN)
        with self._watched():
            self._writer.send(topic, rows)

    def send_batches(self, partition: TopicPartition, batches: Iterable[EncodedBatch]) -> None:
        """As ``Producer.send_batches``. Raises TransactionFailed, ProducerFailed as ``send`` does."""
        self._expect("send_batches", _Phase.OPEN)
        with self._watched():
            self._writer.send_batches(partition, batches)

    def send_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        member: GroupMembership | None = None,
    ) -> None:
        """Commit offsets of a group with the transaction. ``member``: as which member of the group, if it has any.

        Raises TransactionFailed, also if the group has another generation by now, and ProducerFailed.
        """
        self._expect("send_offsets", _Phase.OPEN)
        committed = {
            partition: OffsetAndMetadata(offset=value) if isinstance(value, int) else value
            for partition, value in offsets.items()
        }
        if not committed:
            return
        scope, deadline = self._open, max_block_deadline(self._cluster, None)
        is_new = not scope.has_group(group_id)
        scope.add_group(group_id)
        with self._watched():
            if is_new and not scope.identity.has_epoch_per_transaction:
                add_offsets(self._cluster, scope.identity, group_id, deadline)
            commit_offsets_in_transaction(self._cluster, scope.identity, group_id, committed, member, deadline)

    def flush(self) -> None:
        """Return once every row handed over is acknowledged. Raises TransactionFailed, ProducerFailed."""
        self._expect("flush", _Phase.OPEN)
        with self._watched():
            self._writer.flush()

    def prepare(self) -> TransactionHandle:
        """Write what is left, and leave the transaction to the process that gets the handle. Raises as ``flush``.

        It stays open until it is ended or its timeout has passed. Until then readers with ``read_committed`` stop
        before it. This producer can still end it, too.
        """
        if self._phase is not _Phase.PREPARED:
            self.flush()
            self._phase = _Phase.PREPARED
        return self._open.handle()

    def commit(self, *, timeout_ms: float | None = None) -> None:
        """Write what is left and commit. Returns once the coordinator has decided so: the markers follow at once.

        Raises TransactionFailed: nothing counts, and the transaction is to be aborted. ProducerFailed: the broker or
        another producer has ended it. TransactionInDoubt: no response within ``timeout_ms``, by default
        ``max.block.ms``.
        """
        handle = self.prepare()
        if self._open.is_empty:
            self._phase = _Phase.IDLE
        else:
            self._end(handle, commit=True, timeout_ms=timeout_ms)

    def abort(self, *, timeout_ms: float | None = None) -> None:
        """Give up what the transaction has. Raises ProducerFailed: it is over already; TransactionInDoubt as above."""
        self._expect("abort", _Phase.OPEN, _Phase.PREPARED, _Phase.BROKEN)
        handle, is_empty = self._open.handle(), self._open.is_empty
        self._writer.discard()
        if is_empty:
            self._phase = _Phase.NEW
        else:
            self._end(handle, commit=False, timeout_ms=timeout_ms)

    def close(self) -> None:
        """Abort what is open and not prepared, and give the connections back. A failure to abort is logged."""
        if self._phase is _Phase.CLOSED:
            return
        try:
            if self._phase in {_Phase.OPEN, _Phase.BROKEN}:
                self.abort()
        except KafkaError as error:
            _log.warning("a transaction could not be aborted and ends at its timeout: %s", error)
        finally:
            if self._producer is not None:
                self._producer.discard()
            self._phase = _Phase.CLOSED

    # --- inside

    @property
    def _open(self) -> TransactionScope:
        assert self._scope is not None
        return self._scope

    @property
    def _writer(self) -> Producer:
        assert self._producer is not None
        return self._producer

    def _expect(self, wish: str, *phases: _Phase) -> None:
        if self._phase in phases:
            return
        if self._failure is not None and self._phase in {_Phase.BROKEN, _Phase.FAILED}:
            raise self._failure
        raise ValueError(f"{wish}() while the producer is {self._phase.name.lower()}")

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Raise errors of the producer as transaction errors, and note what can still be done."""
        try:
            try:
                yield
            except ProduceError as error:
                raise_for(self._transactional_id, error)
        except TransactionError as error:
            if self._phase is not _Phase.NEW or isinstance(error, ProducerFenced):
                # What may be committed is not for us to abort.
                self._phase = _Phase.BROKEN if isinstance(error, TransactionFailed) else _Phase.FAILED
                self._failure = error
            raise

    def _renew(self, identity: TransactionalIdentity, *, resumed: bool = False) -> None:
        """Continue under another producer id or epoch, with sequence numbers from 0."""
        if self._producer is not None:
            self._metrics = self.metrics
            self._producer.discard()
        self._identity = identity
        self._scope = TransactionScope(self._cluster, identity, resumed=resumed)
        self._producer = Producer(self._cluster, partitioner=self._partitioner, scope=self._scope)

    def _end(self, handle: TransactionHandle, *, commit: bool, timeout_ms: float | None) -> None:
        with self._watched():
            try:
                ending = end_transaction(self._cluster, handle, commit=commit, timeout_ms=timeout_ms)
            except KafkaError as error:
                raise_for(self._transactional_id, error)
            never_begun = handle.is_empty and ending.code is ErrorCode.INVALID_TXN_STATE
            if ending.outcome is not EndTxnOutcome.DONE and (commit or not never_begun):
                raise _failure(handle, ending, commit=commit)
        following = ending.identity or handle.identity
        if following != self._identity:
            self._renew(following)
            self._phase = _Phase.IDLE
        else:
            # Without a new epoch only a coordinator can say from where on sequence numbers are free.
            self._phase = _Phase.IDLE if commit else _Phase.NEW


def _failure(handle: TransactionHandle, ending: Ending, *, commit: bool) -> TransactionError:
    if not ending.is_closed:
        return TransactionInDoubt(handle, commit=commit, code=ending.code, reason=ending.reason)
    kind = ProducerFenced if ending.was_fenced else ProducerFailed
    return kind(handle.transactional_id, ending.code, ending.reason)


def _sum(one: ProduceMetrics, other: ProduceMetrics) -> ProduceMetrics:
    names = [item.name for item in dataclasses.fields(ProduceMetrics)]
    return ProduceMetrics(**{name: getattr(one, name) + getattr(other, name) for name in names})
