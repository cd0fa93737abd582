"""Records of partitions from given offsets on, without state between calls: the Fetch of the simple consumer.

Each partition has its own result or error, and topics are named, so that every release of Kafka can be asked. The
leader's records are read, unless a broker is given: no rack is sent, so leaders name no other replica (KIP-392).
"""

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.cluster.leaders import AGAIN, Again, Leaders, ask_each, without_frames
from spark_kafka_native._client.config import READ_COMMITTED, READ_UNCOMMITTED
from spark_kafka_native._client.consumer.completed_fetch import size_of_cut_off
from spark_kafka_native._client.consumer.offsets import (
    CONSUMER,
    DEBUGGING_CONSUMER,
    EARLIEST,
    LATEST,
    list_each,
)
from spark_kafka_native._client.errors import BatchTooLarge, CorruptRecords, OffsetOutOfRange
from spark_kafka_native._net.blocking import DEFAULT_MAX_FRAME_BYTES, Connection
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from spark_kafka_native._protocol.topic import TopicPartition, by_topic
from spark_kafka_native._records.arrow.batches import Batches
from spark_kafka_native._records.arrow.decode import Decoded, decode
from spark_kafka_native._records.arrow.schema import ALL, record_batch, schema_of
from spark_kafka_native._records.decompression import MAX_DECOMPRESSED_BYTES
from spark_kafka_native._records.errors import OversizedBatch, UnreadableBatch

_LAST_BY_NAME: Final = 12
"""The last version of Fetch that names topics."""
_NO_LIMIT: Final = 2**63 - 1
_WAITING_SHARE: Final = 0.9
"""Share of the time until the deadline that brokers may wait for records, so that their responses come before it."""
_RANGE_MS: Final = 1_000
"""Least time for the look-up of a log's range, also after the deadline."""
_BYTES_PER_RECORD: Final = 32
"""Of a decoded record without key, value and headers, about."""
_LEAST_DECODED_BYTES: Final = 52_428_800
"""The records of a call may take so many bytes decoded, whatever its limits."""
_MOST_BYTES: Final = DEFAULT_MAX_FRAME_BYTES // 2
"""Bound of ``max_bytes`` in requests: a response is larger by one batch at most, and must fit a frame."""


class FetchPosition(NamedTuple):
    """Where to read a partition; ``max_bytes`` of batches, but one batch at least (KIP-74)."""

    offset: int
    max_bytes: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FetchedRecords:
    """Records of one partition, with the columns of ``records.arrow.schema``; -1: the broker is too old to have it."""

    records: pa.RecordBatch
    next_offset: int
    """Where to continue. It can be greater than the last record's offset + 1."""
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int


def fetch_records(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, FetchPosition],
    deadline: Deadline,
    *,
    broker_id: int | None = None,
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> dict[TopicPartition, FetchedRecords | KafkaError]:
    """The records of each partition from its position on, or its error, in the order of ``wanted``.

    Brokers wait ``fetch.max.wait.ms`` for ``fetch.min.bytes``. A partition that a response has left out because of
    other partitions' records is requested again, until the records of the call take 50 MB decoded, or what
    ``fetch.max.bytes`` or a ``max_bytes`` is if that is more. Then the partitions that are left have no records, and
    their next offset is their position. Transient errors are retried until ``deadline``.

    ``broker_id``: read from this replica instead of the leaders.
    """
    fetch = _Fetch(cluster, wanted, deadline, broker_id, max_decompressed_bytes)
    ask = functools.partial(
        ask_each,
        cluster,
        request_of=fetch.request,
        results_of=fetch.results,
        deadline=deadline,
        broker_id=broker_id,
        max_version=_LAST_BY_NAME,
        wait_ms=cluster.config.fetch_max_wait_ms,
    )
    results: dict[TopicPartition, FetchedRecords | KafkaError] = ask(partitions=list(wanted))
    out_of_range = [part for part, result in results.items() if _is_out_of_range(result)]
    backoff = cluster.backoff()
    while out_of_range:
        errors = _range_errors(cluster, {part: wanted[part].offset for part in out_of_range}, broker_id, deadline)
        results |= errors
        # Shortly after an election a leader does not know the end of its log.
        in_range = [part for part in out_of_range if part not in errors]
        if not in_range or not deadline.pause(backoff.next_ms()):
            break
        results |= ask(partitions=in_range)
        out_of_range = [part for part in in_range if _is_out_of_range(results[part])]
    return {partition: results[partition] for partition in wanted}


class _Fetch:
    """The requests of one call of ``fetch_records``, and what their responses mean."""

    def __init__(
        self,
        cluster: Cluster,
        wanted: Mapping[TopicPartition, FetchPosition],
        deadline: Deadline,
        broker_id: int | None,
        max_decompressed_bytes: int,
    ) -> None:
        self._config = cluster.config
        self._wanted = dict(wanted)
        self._deadline = deadline
        self._replica_id = CONSUMER if broker_id is None else DEBUGGING_CONSUMER
        self._committed_only = cluster.config.isolation_level == READ_COMMITTED
        self._max_decompressed_bytes = max_decompressed_bytes
        self._corrupt: set[TopicPartition] = set()
        most = max((each.max_bytes for each in wanted.values()), default=0)
        self._decoded_bytes_left = max(_LEAST_DECODED_BYTES, cluster.config.fetch_max_bytes, most)

    def request(self, partitions: Sequence[TopicPartition], leaders: Leaders, _: Connection) -> FetchRequest:
        """The Fetch of one broker."""
        topics = tuple(
            FetchTopic(
                topic=name,
                partitions=tuple(
                    FetchPartition(
                        partition=part.partition,
                        current_leader_epoch=leaders[part].leader_epoch,
                        fetch_offset=self._wanted[part].offset,
                        partition_max_bytes=min(self._wanted[part].max_bytes, _MOST_BYTES),
                    )
                    for part in parts
                ),
            )
            for name, parts in by_topic(partitions).items()
        )
        return FetchRequest(
            replica_id=self._replica_id,
            max_wait_ms=int(min(self._config.fetch_max_wait_ms, self._deadline.remaining_ms * _WAITING_SHARE)),
            min_bytes=self._config.fetch_min_bytes,
            max_bytes=min(self._config.fetch_max_bytes, _MOST_BYTES),
            isolation_level=self._config.isolation_level,
            topics=topics,
        )

    def results(self, response: FetchResponse) -> Iterator[tuple[TopicPartition, FetchedRecords | KafkaError | Again]]:
        """The result of each partition in a response."""
        parts = {
            partition: part
            for topic in response.responses
            for part in topic.partitions
            if (partition := TopicPartition(topic.topic, part.partition_index)) in self._wanted
        }
        with_records = sum(bool(part.records) for part in parts.values())
        unread = with_records
        for partition, part in parts.items():
            share = self._decoded_bytes_left // max(unread, 1)
            unread -= bool(part.records)
            yield partition, self._result(partition, part, share, has_records=with_records > 0)

    def _result(
        self, partition: TopicPartition, part: PartitionData, share: int, *, has_records: bool
    ) -> FetchedRecords | KafkaError | Again:
        """The result of a partition, which may have one batch, and more until they take ``share`` bytes decoded."""
        code, offset = ErrorCode.of(part.error_code), self._wanted[partition].offset
        if code is not ErrorCode.NONE:
            return KafkaError(code, str(partition), operation="READ")
        has_memory = self._decoded_bytes_left > 0
        if part.records and has_memory:
            try:
                return self._read(partition, part, share)
            except UnreadableBatch as error:
                return self._unreadable(partition, without_frames(error))
        if not part.records and part.preferred_read_replica >= 0:
            detail = f"{partition}: its leader has its records read from broker {part.preferred_read_replica}"
            return KafkaError(ErrorCode.INVALID_REQUEST, f"{detail}; set broker_id={part.preferred_read_replica}")
        is_left_out = has_records and has_memory and offset < self._end(part) and not self._deadline.expired
        return AGAIN if is_left_out else _fetched(part, _NO_RECORDS, offset)

    def _end(self, part: PartitionData) -> int:
        """The offset up to which the broker has records for this client."""
        is_stable = self._committed_only and part.last_stable_offset >= 0
        return part.last_stable_offset if is_stable else part.high_watermark

    def _read(self, partition: TopicPartition, part: PartitionData, share: int) -> FetchedRecords | KafkaError | Again:
        """The records of a partition; AGAIN: brokers before Kafka 0.10.1 cut off even the first batch.

        Raises UnreadableBatch: of the batch at the position.
        """
        assert isinstance(part.records, bytes | memoryview)
        offset, max_bytes = self._wanted[partition]
        batches = Batches.of(part.records)
        while True:
            try:
                decoded = self._decode(batches, offset, part, share)
                break
            except UnreadableBatch as error:
                if not error.position:
                    raise
                batches = batches.before(error.position)  # the next Fetch has the error
        if not decoded.bytes_used:
            size = size_of_cut_off(part.records, max_bytes)
            if self._deadline.expired:
                detail = f"{partition}: no time was left for the batch of {size} bytes at offset {offset}"
                return KafkaError(ErrorCode.REQUEST_TIMED_OUT, detail)
            self._wanted[partition] = FetchPosition(offset, size)
            return AGAIN
        self._decoded_bytes_left -= decoded.records.nbytes
        return _fetched(part, decoded.records, decoded.next_offset)

    def _decode(self, batches: Batches, offset: int, part: PartitionData, share: int) -> Decoded:
        return decode(
            batches,
            from_offset=offset,
            until_offset=_NO_LIMIT,
            check_crcs=self._config.check_crcs,
            aborted=(part.aborted_transactions or ()) if self._committed_only else None,
            max_decompressed_bytes=self._max_decompressed_bytes,
            target_rows=max(share // _BYTES_PER_RECORD, 1),
            target_bytes=max(share, 1),
        )

    def _unreadable(self, partition: TopicPartition, error: UnreadableBatch) -> KafkaError:
        """The error of a batch that cannot be read; transient at first, because the network may be the cause."""
        offset = self._wanted[partition].offset
        found: KafkaError
        if isinstance(error, OversizedBatch):
            at = offset if error.base_offset is None else error.base_offset
            found = BatchTooLarge(partition, at, self._max_decompressed_bytes)
        elif partition in self._corrupt:
            found = CorruptRecords(partition, offset, str(error))
        else:
            self._corrupt.add(partition)
            found = KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{partition}: records at offset {offset}: {error}")
        found.__cause__ = error
        return found


_NO_RECORDS: Final = record_batch([pa.nulls(0, field.type) for field in schema_of(ALL)], schema_of(ALL), 0)


def _fetched(part: PartitionData, records: pa.RecordBatch, next_offset: int) -> FetchedRecords:
    return FetchedRecords(
        records=records,
        next_offset=next_offset,
        high_watermark=part.high_watermark,
        last_stable_offset=part.last_stable_offset,
        log_start_offset=part.log_start_offset,
    )


def _is_out_of_range(result: FetchedRecords | KafkaError) -> bool:
    return isinstance(result, KafkaError) and result.code is ErrorCode.OFFSET_OUT_OF_RANGE


def _range_errors(
    cluster: Cluster, offsets: Mapping[TopicPartition, int], broker_id: int | None, deadline: Deadline
) -> dict[TopicPartition, KafkaError]:
    """OffsetOutOfRange with the range of each log; without the offsets that are in their logs."""
    errors: dict[TopicPartition, KafkaError] = {}
    soon = deadline if deadline.remaining_ms > _RANGE_MS else Deadline.after_ms(_RANGE_MS)
    earliest, latest = (
        list_each(cluster, dict.fromkeys(offsets, position), soon, isolation=READ_UNCOMMITTED, broker_id=broker_id)
        for position in (EARLIEST, LATEST)
    )
    for partition, offset in offsets.items():
        start, end = earliest[partition], latest[partition]
        if isinstance(start, KafkaError) or isinstance(end, KafkaError):
            detail = (
                f"{partition}: offset {offset}; its range is not known: {end if isinstance(end, KafkaError) else start}"
            )
            errors[partition] = KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, detail)
        elif not start.offset <= offset <= end.offset:
            errors[partition] = OffsetOutOfRange(partition, offset, start.offset, end.offset)
    return errors
