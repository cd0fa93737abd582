"""Produce (0) v0-v13: append record batches, or message sets, to partitions.

v1   throttle time
v2   message format v1; log append time in the response
v3   record format v2 only
v5   log start offset in the response
v7   zstd (KIP-110); before it, UNSUPPORTED_COMPRESSION_TYPE
v8   error messages, and errors of single records (KIP-467)
v10  the current leader in the response (KIP-951); never set, because leaders do not move
v11  TRANSACTION_ABORTABLE; before it, INVALID_TXN_STATE
v12  adds the partitions to the transaction (KIP-890); before it, they must have been added
v13  topic ids (KIP-516)

Releases from 4.0 on advertise v0 to v2 (KAFKA-18659), because librdkafka does not compress if v0 is missing, but close
the connection after a request of these versions.

Each partition has one batch, as the protocol requires since v3, and its own response. With acks=0 there is no response,
and an error closes the connection to signal it. `partition_verification` checks transactional batches first. Appends
that wait for a thread when the client disconnects are dropped (`record_threads`).
"""

import contextlib
from collections.abc import Awaitable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, TypeAlias

from broker_embedded._coordinator.transactions import Transactions
from broker_embedded._handlers.support.partition_verification import PartitionVerification
from broker_embedded._handlers.support.registry import CloseConnection, RequestContext, handles
from broker_embedded._log.append.incoming import FROM_CLIENT, AppendConditions, InvalidRecords, RecordError
from broker_embedded._log.appender import AppendResult
from broker_embedded._metadata.dynamic_configs import DynamicConfigs
from broker_embedded._platform.cancellation import NEVER_CANCELLED, Cancellation
from broker_embedded._platform.record_threads import ClientPresence
from broker_embedded._platform.shielded_tasks import ShieldedTasks
from broker_embedded._platform.timers import Timers
from broker_embedded._platform.worker_threads import WorkerThreads
from broker_embedded._replica.delayed import DelayedOperations
from broker_embedded._replica.partitions import LocalPartition, Partitions
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch
from spark_kafka_native._protocol.topic import INTERNAL_TOPICS, TopicPartition
from spark_kafka_native._protocol.wire import RecordsValue
from spark_kafka_native._records.batch import BatchHeader, read_header
from spark_kafka_native._records.compression import CompressionType
from spark_kafka_native._records.errors import CorruptBatch, IncompleteBatch, InvalidMessageSet, OldFormatBatch
from spark_kafka_native._records.formats import iter_any
from spark_kafka_native._records.legacy import is_message

_BATCHES_SINCE: Final = 3
_IDS_SINCE: Final = 13
_ZSTD_SINCE: Final = 7
_ALL: Final = -1
_VALID_ACKS: Final = {_ALL, 0, 1}
_WITHOUT_LOG_START_OFFSET: Final = {
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.KAFKA_STORAGE_ERROR,
}
"""Error codes that Apache Kafka responds without the log start offset."""
_ADMIN_CLIENT: Final = "__admin_client"
"""The only client id that may write to internal topics, as in Apache Kafka."""
_MAX_RECORD_ERRORS: Final = 1000
"""Upper bound of the record errors (KIP-467) in one response, over all partitions."""
_NOTHING: Final = AppendResult(
    base_offset=-1, last_offset=-1, log_append_time_ms=-1, log_start_offset=-1, duplicate=False
)
"""The result of an append without bytes."""


@handles(ProduceRequest, "0-13")
def produce(
    request: ProduceRequest,
    context: RequestContext,
    delayed: DelayedOperations,
    configs: DynamicConfigs,
    shielded_tasks: ShieldedTasks,
    partitions: Partitions,
    timers: Timers,
    transactions: Transactions,
    threads: WorkerThreads,
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    """Append each partition's batch."""
    errors = _ErrorBudget(_MAX_RECORD_ERRORS)
    appends = [(topic, [_Append(topic, data, errors) for data in topic.partition_data]) for topic in request.topic_data]
    in_thread = False
    in_transaction = False
    for _, parts in appends:
        for append in parts:
            append.prepare(request, context, partitions, timers)
            in_thread = in_thread or append.flushes or append.inspects
            in_transaction = in_transaction or append.in_transaction
    if in_transaction:
        verification = PartitionVerification(
            request.transactional_id,
            context.version,
            [append for _, parts in appends for append in parts],
            transactions,
            verifies=configs.config.transaction_partition_verification_enable,
        )
        if verification.needs_lock(waits_for_disk=in_thread):
            locked = verification.locked()
            return shielded_tasks.run(_append_in_threads(request, context.presence, appends, threads, delayed, locked))
    if in_thread:
        unlocked = contextlib.nullcontext()
        return shielded_tasks.run(_append_in_threads(request, context.presence, appends, threads, delayed, unlocked))
    for _, parts in appends:
        for append in parts:
            append.run()
            append.announce(delayed)
    return _response(request, appends)


async def _append_in_threads(
    request: ProduceRequest,
    presence: ClientPresence,
    appends: "_Appends",
    threads: WorkerThreads,
    delayed: DelayedOperations,
    locked: AbstractAsyncContextManager[None],
) -> ProduceResponse | None:
    """Append in threads what would block the event loop, because it waits for the disk or inspects records.

    ``locked`` holds the lock of the transaction, so that no marker is written between the check and the append. If the
    client disconnects, no further append begins, except with acks=0 while the connection is still open. Raises
    WorkCancelled: appends that had begun may be in the log.
    """
    is_awaited = request.acks != 0
    with presence.holding(is_awaited=is_awaited):
        async with locked:
            for _, parts in appends:
                for append in parts:
                    presence.check(is_awaited=is_awaited)
                    if append.inspects:
                        await threads.appends.run(append.run, presence, is_awaited=is_awaited)
                    elif append.flushes:
                        await threads.on_disk(append.run)
                    else:
                        append.run()
                    append.announce(delayed)
    return _response(request, appends)


def _response(request: ProduceRequest, appends: "_Appends") -> ProduceResponse | None:
    if request.acks != 0:
        return ProduceResponse(
            responses=tuple(
                TopicProduceResponse(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_responses=tuple(append.response() for append in parts),
                )
                for topic, parts in appends
            )
        )
    failed = [append.failure for _, parts in appends for append in parts if append.error is not None]
    if failed:
        raise CloseConnection(f"a Produce with acks=0 failed: {', '.join(failed)}")
    return None


class _ErrorBudget:
    """Bounds the record errors of one response."""

    def __init__(self, left: int) -> None:
        self._left = left

    def take(self, errors: Sequence[RecordError]) -> tuple[RecordError, ...]:
        """The first of ``errors``, within the bound."""
        taken = tuple(errors[: self._left])
        self._left -= len(taken)
        return taken


class _Append:
    """One partition of a Produce request."""

    __slots__ = (
        "_conditions",
        "_data",
        "_errors",
        "_header",
        "_partition",
        "_record_errors",
        "_records",
        "_result",
        "_topic",
        "error",
        "inspects",
    )

    def __init__(self, topic: TopicProduceData, data: PartitionProduceData, errors: _ErrorBudget) -> None:
        self._topic = topic
        self._data = data
        self._errors = errors
        self._record_errors: tuple[RecordError, ...] = ()
        self._partition: LocalPartition | None = None
        self._records: memoryview | None = None
        self._header: BatchHeader | None = None
        self._conditions = FROM_CLIENT
        self._result: AppendResult | None = None
        self.inspects = False
        """Whether the append inspects each record, and must therefore run in a thread."""
        self.error: KafkaError | None = None

    def prepare(self, request: ProduceRequest, context: RequestContext, partitions: Partitions, timers: Timers) -> None:
        """Find the partition and validate the request without its log."""
        try:
            if context.version >= _IDS_SINCE:
                self._partition = partitions.get_by_id(self._topic.topic_id, self._data.index)
            else:
                self._partition = partitions.get(self._topic.name, self._data.index)
            if request.acks not in _VALID_ACKS:
                raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks is {request.acks}; it may be -1, 0 or 1")
            if self._partition.id.topic in INTERNAL_TOPICS and context.client_id != _ADMIN_CLIENT:
                raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{self._partition.id.topic} is an internal topic")
            if request.acks == _ALL:
                self._partition.check_replicas()
            self._records, self._header = _to_append(self._data.records, context.version)
            if not self._records:
                self._result = _NOTHING
            else:
                self.inspects = self._partition.inspects_on_append(self._records, self._header, timers.now_ms())
        except KafkaError as error:
            self.error = error

    @property
    def flushes(self) -> bool:
        """Whether the append may wait for the disk."""
        return self._partition is not None and bool(self._records) and self._partition.flushes_on_append

    @property
    def in_transaction(self) -> bool:
        """Whether there is a transactional batch to append."""
        return self._header is not None and self._header.is_transactional and self._records is not None

    @property
    def producer(self) -> ProducerIdAndEpoch:
        """The producer of a transactional batch."""
        assert self._header is not None
        return ProducerIdAndEpoch(producer_id=self._header.producer_id, epoch=self._header.producer_epoch)

    @property
    def partition_id(self) -> TopicPartition:
        assert self._partition is not None
        return self._partition.id

    @property
    def begins(self) -> bool:
        """Whether the transaction is not open in the partition's log yet."""
        assert self._partition is not None
        assert self._header is not None
        return not self._partition.log.producers.is_in_transaction(
            self._header.producer_id, self._header.producer_epoch
        )

    def accept(self, conditions: AppendConditions) -> None:
        self._conditions = conditions

    def refuse(self, error: KafkaError) -> None:
        self.error = error
        self._records = self._result = None

    def run(self, cancellation: Cancellation = NEVER_CANCELLED) -> None:
        """Append, unless there was an error before. May be called in any thread. Raises WorkCancelled."""
        if self._partition is None or not self._records:
            return
        try:
            self._result = self._partition.append(self._records, self._conditions, cancellation)
        except InvalidRecords as error:
            self._record_errors = self._errors.take(error.record_errors)
            self.error = KafkaError(error.code, error.detail)
        except KafkaError as error:
            self.error = error

    def announce(self, delayed: DelayedOperations) -> None:
        """Complete the requests that wait for records of the partition.

        Also after KAFKA_STORAGE_ERROR: if the flush for flush.messages failed, the records may be in the log.
        """
        may_be_there = self.error is not None and self.error.code is ErrorCode.KAFKA_STORAGE_ERROR
        if self._partition is not None and (may_be_there or self._result not in {None, _NOTHING}):
            delayed.changed(self._partition.id)

    @property
    def failure(self) -> str:
        """The partition and its error, for the log."""
        name = self._partition.id.topic if self._partition else self._topic.name or str(self._topic.topic_id)
        return f"{name}-{self._data.index}: {self.error.code.name if self.error else 'no error'}"

    def response(self) -> PartitionProduceResponse:
        if self._result is not None:
            return PartitionProduceResponse(
                index=self._data.index,
                base_offset=self._result.base_offset,
                log_append_time_ms=self._result.log_append_time_ms,
                log_start_offset=self._result.log_start_offset,
            )
        assert self.error is not None
        return PartitionProduceResponse(
            index=self._data.index,
            error_code=self.error.code,
            base_offset=-1,
            log_start_offset=self._known_log_start_offset(self.error.code),
            record_errors=tuple(
                BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
                for index, message in self._record_errors
            ),
            error_message=self.error.detail or None,
        )

    def _known_log_start_offset(self, code: ErrorCode) -> int:
        """The log start offset, if the log refused the content of the batch."""
        if self._partition is None or self._records is None or code in _WITHOUT_LOG_START_OFFSET:
            return -1
        return self._partition.log.log_start_offset


_Appends: TypeAlias = list[tuple[TopicProduceData, list[_Append]]]


def _to_append(records: RecordsValue | None, version: int) -> tuple[memoryview, BatchHeader | None]:
    """A writable view of the bytes to append, and the header if it is a batch. Raises KafkaError.

    Since v3 it must be exactly one complete batch. Before, it may be a message set. A set without a complete message is
    empty, which is not an error, as in Apache Kafka.
    """
    if not isinstance(records, memoryview):
        raise KafkaError(ErrorCode.INVALID_RECORD, "There is no record batch.")
    if version >= _BATCHES_SINCE:
        return _one_batch(records, version)
    try:
        first = next(iter_any(records), None)
    except InvalidMessageSet:
        return records, None  # the log checks the CRC and raises the right error
    except CorruptBatch as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
    if first is None:
        return records[:0], None
    return (records, None) if is_message(records) else _one_batch(records, version)


def _one_batch(records: memoryview, version: int) -> tuple[memoryview, BatchHeader]:
    """The only batch, which must be complete, and its header. Raises KafkaError."""
    try:
        header = read_header(records)
    except IncompleteBatch:
        raise KafkaError(ErrorCode.INVALID_RECORD, "There is no whole record batch.") from None
    except OldFormatBatch as error:
        raise KafkaError(ErrorCode.INVALID_RECORD, str(error)) from None
    except CorruptBatch as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
    if header.size_in_bytes != len(records):
        raise KafkaError(ErrorCode.INVALID_RECORD, "There is more than one record batch.")
    if header.compression is CompressionType.ZSTD and _BATCHES_SINCE <= version < _ZSTD_SINCE:
        detail = f"Produce v{version} cannot carry zstd; v{_ZSTD_SINCE} and later can."
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, detail)
    return records, header
