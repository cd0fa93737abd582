"""Offset ranges -> batches for Spark. Runs in a Python worker, which runs one task after the other.

Connections belong to the process (``shared_cluster``) and are reused by the next task.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from spark_kafka_native._client.cluster.metadata import NO_EPOCH, PartitionLeader
from spark_kafka_native._client.cluster.shared import shared_cluster
from spark_kafka_native._client.consumer.cursor import PartitionRange
from spark_kafka_native._client.consumer.fetcher import Fetcher
from spark_kafka_native._client.consumer.row_fetcher import row_fetcher
from spark_kafka_native._client.errors import (
    BatchTooLarge,
    CorruptRecords,
    FetchTimeout,
    LogTruncated,
    OffsetOutOfRange,
    TopicRecreated,
)
from spark_kafka_native._protocol.errors import AUTHORIZATION_ERRORS, ErrorCode, KafkaError
from spark_kafka_native._protocol.topic import TopicPartition, listed
from spark_kafka_native._protocol.wire import ZERO_UUID
from spark_kafka_native._spark.errors import AfterRestart, TaskError
from spark_kafka_native._spark.garbage_collection import task_begins
from spark_kafka_native._spark.gathering import gathered
from spark_kafka_native._spark.offsets import EARLIEST_OFFSET, LATEST_OFFSET, OffsetMap
from spark_kafka_native._spark.options.parsed import SourceOptions
from spark_kafka_native._spark.planning.cluster_offsets import ClusterOffsets
from spark_kafka_native._spark.planning.data_loss import (
    DataLoss,
    accept_or_raise,
    beyond_end,
    deleted_before_read,
    deleted_partitions,
    range_recreated,
    truncated,
)
from spark_kafka_native._spark.planning.packing import Task
from spark_kafka_native._spark.planning.ranges import OffsetRange, bind_range
from spark_kafka_native._spark.source.layout import Layout
from spark_kafka_native._spark.source.shaper import RowShaper

TARGET_ROWS: Final = 40_000
"""Rows of one batch, up to half more: with 1,000 Spark reads half as many rows a second as with 50,000."""
MAX_SHAPED_ROWS: Final = 1 << 17
"""Rows that are shaped together, which bounds a column of repeated topic names. A record batch can have millions."""


def read_task(options: SourceOptions, layout: Layout, task: Task | None) -> Iterator[pa.RecordBatch]:
    """The records of a task, as `read_ranges`; none for None, with which Spark runs a batch without partitions."""
    task_begins()
    return read_ranges(options, layout, task) if task else iter(())


def read_ranges(options: SourceOptions, layout: Layout, pieces: Sequence[OffsetRange]) -> Iterator[pa.RecordBatch]:
    """The records of ranges of different partitions, in order within each, as batches of ``layout.arrow_schema``.

    Raises TaskError naming range and option; DataLossError if records are gone and ``failOnDataLoss`` is true.
    """
    return gathered(_TaskReader(options, layout, pieces).batches(), TARGET_ROWS)


class _TaskReader:
    def __init__(self, options: SourceOptions, layout: Layout, pieces: Sequence[OffsetRange]) -> None:
        self._options = options
        self._layout = layout
        self._pieces = {piece.topic_partition: piece for piece in pieces}
        self._bound: dict[TopicPartition, OffsetRange] = {}
        """With real offsets."""
        self._is_planned = {tp for tp, piece in self._pieces.items() if _is_planned(piece)}
        """Partitions whose topic id is from the plan, or was looked up by this task."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The records, each batch from one partition. Raises as `read_ranges`."""
        self._bind(list(self._pieces.values()))
        shapers = {tp: RowShaper(layout=self._layout, partition=tp) for tp in self._bound}
        fetcher = row_fetcher(
            shared_cluster(self._options.client),
            [_wanted(piece) for piece in self._bound.values()],
            columns=self._layout.record_fields,
            timeout_ms=self._options.poll_timeout_ms,
            max_decompressed_bytes=self._options.max_decompressed_batch_bytes,
            target_rows=TARGET_ROWS,
        )
        with fetcher:
            while True:
                try:
                    for tp, records in fetcher:
                        for start in range(0, records.num_rows, MAX_SHAPED_ROWS):
                            yield shapers[tp].shape(records.slice(start, MAX_SHAPED_ROWS))
                    return
                except KafkaError as error:
                    if fetcher.failed is None:
                        self._skip_or_raise(list(self._pieces.values()), error)
                        return
                    self._continue(fetcher, fetcher.failed, error)

    def _bind(self, pieces: Sequence[OffsetRange]) -> None:
        """Look up the offsets of ranges that have -2 and -1."""
        try:
            found = bind_ranges(self._options, pieces)
        except KafkaError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or len(pieces) == 1:
                self._skip_or_raise(pieces, error)
                return
            for piece in pieces:  # the topic of one of them does not exist
                self._bind([piece])
            return
        self._bound |= found
        for tp in [piece.topic_partition for piece in pieces if piece.topic_partition not in found]:
            self._skip_or_raise([self._pieces[tp]], KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, str(tp)))

    def _skip_or_raise(self, pieces: Sequence[OffsetRange], error: KafkaError) -> None:
        """Skip topics that do not exist any more if ``failOnDataLoss`` is false. Raises TaskError otherwise."""
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or self._options.fail_on_data_loss:
            raise failed(listed(str(piece) for piece in pieces), error) from error
        self._accept(deleted_partitions([piece.topic_partition for piece in pieces]))

    def _accept(self, loss: DataLoss) -> None:
        accept_or_raise(loss, fail=self._options.fail_on_data_loss)

    def _continue(self, fetcher: Fetcher[pa.RecordBatch], tp: TopicPartition, error: KafkaError) -> None:
        """Have the fetcher continue after an error of a partition. Raises DataLossError; TaskError."""
        piece, position = self._bound[tp], fetcher.position(tp)
        match error:
            case OffsetOutOfRange():
                fetcher.assign(_wanted(piece, from_offset=self._after_gap(piece, error)))
            case LogTruncated():
                self._accept(replace(truncated(tp, error.diverged_at, error.position), restart=AfterRestart.CONTINUES))
                # The new records at the offsets of the lost ones have not been read.
                from_offset = max(error.diverged_at, piece.from_offset)
                fetcher.assign(_wanted(piece, from_offset=from_offset, is_same_log=False))
            case TopicRecreated() if tp not in self._is_planned and position == piece.from_offset:
                # The task has bound the range with cached metadata of the topic before.
                self._is_planned.add(tp)
                fetcher.remove(tp)
                self._bound.pop(tp)
                self._bind([self._pieces[tp]])
                if tp in self._bound:
                    fetcher.assign(_wanted(self._bound[tp]))
            case TopicRecreated():
                # The topic of rows that were fetched by its name is unknown (``named_topics``).
                lost_from = piece.from_offset if fetcher.named_topics else position
                commits_ids = self._options.commit_to_group
                self._accept(range_recreated(tp, lost_from, piece.until_offset, commits_ids=commits_ids))
                fetcher.remove(tp)
            case _:
                self._skip_or_raise([self._pieces[tp]], error)
                fetcher.remove(tp)

    def _after_gap(self, piece: OffsetRange, error: OffsetOutOfRange) -> int:
        """Where to continue when the log does not have ``error.offset``."""
        tp, until = piece.topic_partition, piece.until_offset
        if error.offset < error.earliest:
            position = min(error.earliest, until)
            if not piece.from_earliest:
                self._accept(deleted_before_read(tp, error.offset, position))
            return position
        self._accept(beyond_end(tp, error.latest, until))
        return until


def _wanted(piece: OffsetRange, *, from_offset: int | None = None, is_same_log: bool = True) -> PartitionRange:
    """A range for the fetcher; without ``is_same_log`` it is not checked for a truncation."""
    return PartitionRange(
        partition=piece.topic_partition,
        from_offset=piece.from_offset if from_offset is None else from_offset,
        until_offset=piece.until_offset,
        leader=piece.leader,
        known_epoch=NO_EPOCH if piece.leader is None or not is_same_log else piece.leader.leader_epoch,
    )


def bind_ranges(options: SourceOptions, pieces: Sequence[OffsetRange]) -> dict[TopicPartition, OffsetRange]:
    """Ranges with -2 and -1 replaced by the present offsets; partitions without offsets are left out.

    An end before the start is a loss. Raises KafkaError; DataLossError.
    """
    source = ClusterOffsets(options.client)
    firsts = _listed(source, [piece for piece in pieces if piece.from_offset == EARLIEST_OFFSET], EARLIEST_OFFSET)
    lasts = _listed(source, [piece for piece in pieces if piece.until_offset == LATEST_OFFSET], LATEST_OFFSET)
    bound: dict[TopicPartition, OffsetRange] = {}
    for piece in pieces:
        tp = piece.topic_partition
        if (piece.from_offset == EARLIEST_OFFSET and tp not in firsts) or (
            piece.until_offset == LATEST_OFFSET and tp not in lasts
        ):
            continue
        bound[tp] = bind_range(piece, firsts.get(tp, 0), lasts.get(tp, 0))
        if piece.until_offset == LATEST_OFFSET:
            # The broker that returned the end is the leader of this epoch or an earlier one, and has the log up to it.
            planned = _planned_leader(piece)
            leader = shared_cluster(options.client).known_leader(tp) or planned
            if leader and planned and planned.topic_id != ZERO_UUID:
                leader = leader._replace(topic_id=planned.topic_id)
            bound[tp] = bound[tp]._replace(leader=leader)
        if bound[tp].size < 0 and piece.from_offset != EARLIEST_OFFSET:
            loss = beyond_end(tp, bound[tp].until_offset, bound[tp].from_offset)
            accept_or_raise(loss, fail=options.fail_on_data_loss)
    return bound


def _planned_leader(piece: OffsetRange) -> PartitionLeader | None:
    """The leader of the plan's start offset; None for earliest, which the task looks up."""
    return None if piece.from_offset == EARLIEST_OFFSET else piece.leader


def _is_planned(piece: OffsetRange) -> bool:
    return _planned_leader(piece) is not None or piece.until_offset != LATEST_OFFSET


def _listed(source: ClusterOffsets, pieces: Sequence[OffsetRange], special: int) -> OffsetMap:
    return source.list_offsets({piece.topic_partition: special for piece in pieces}) if pieces else {}


def failed(what: str, error: KafkaError) -> TaskError:
    """The error of a task whose ``what`` could not be read."""
    return TaskError(
        f"reading {what} failed: {error}. {_advice(error)} No record was skipped: a repeated task, or a "
        "restarted query, reads the range from its first offset"
    )


def _advice(error: KafkaError) -> str:
    match error:
        case FetchTimeout():
            return (
                "Option 'kafkaConsumer.pollTimeoutMs' bounds the wait for records; its default is "
                "'kafka.default.api.timeout.ms'."
            )
        case BatchTooLarge():
            return "Raise option 'maxDecompressedBatchBytes' to read a larger record batch."
        case CorruptRecords():
            return (
                "With option 'startingOffsets' a new query can begin after the damaged batch; with 'kafka.check.crcs' "
                "set to false it reads records of which only the checksum is wrong."
            )
        case KafkaError(code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            return "Load the DataFrame again to read the present topics: its partitions were determined by load()."
        case KafkaError(retriable=True):
            return "Option 'kafka.default.api.timeout.ms' bounds the retries."
        case KafkaError() if error.code in AUTHORIZATION_ERRORS:
            return "Give the user this permission."
        case _:
            return "A retry does not help."
