"""One offset range -> batches for Spark. Runs in a Python worker that lives on from task to task.

Connections belong to the process (``shared_cluster``), so the next task finds them open.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from spark_kafka_native.client.cluster.cluster import shared_cluster
from spark_kafka_native.client.cluster.metadata import NO_EPOCH, PartitionLeader
from spark_kafka_native.client.consumer.fetcher import Fetcher
from spark_kafka_native.client.consumer.joint_fetcher import Place
from spark_kafka_native.client.errors import (
    BatchTooLarge,
    CorruptRecords,
    FetchTimeout,
    LogTruncated,
    OffsetOutOfRange,
    TopicRecreated,
)
from spark_kafka_native.net.errors import BrokerUnreachable
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError
from spark_kafka_native.protocol.topic import TopicPartition
from spark_kafka_native.protocol.wire import ZERO_UUID
from spark_kafka_native.spark.errors import TaskError
from spark_kafka_native.spark.offsets import EARLIEST_OFFSET, LATEST_OFFSET, OffsetMap
from spark_kafka_native.spark.options.parsing import SourceOptions
from spark_kafka_native.spark.planning.cluster_offsets import ClusterOffsets
from spark_kafka_native.spark.planning.data_loss import (
    accept_or_raise,
    aged_out,
    deleted_partitions,
    not_there_yet,
    recreated,
    truncated,
)
from spark_kafka_native.spark.planning.ranges import OffsetRange, bind_range
from spark_kafka_native.spark.source.schema import Layout
from spark_kafka_native.spark.source.shaper import RowShaper

TARGET_ROWS: Final = 40_000
"""Rows in one batch, up to half more: with 1,000 Spark takes half as many rows a second as with 50,000."""


def read_range(
    options: SourceOptions, layout: Layout, piece: OffsetRange, *, begun: Place | None = None
) -> Iterator[pa.RecordBatch]:
    """The records of a range, in order, as batches of ``layout.arrow_schema``.

    ``begun`` is how far a range with real offsets has been read already. Raises TaskError naming range and option;
    DataLossError if records are gone and ``failOnDataLoss`` is true.
    """
    tp = piece.topic_partition
    try:
        bound = piece if begun is not None else _bound(options, piece)
        is_planned = begun is not None or _planned_leader(piece) is not None or piece.until_offset != LATEST_OFFSET
        try:
            yield from _read(options, layout, bound, begun, is_planned=is_planned)
        except TopicRecreated:
            # The task has bound the range itself, by metadata in memory from before the topic was created again.
            yield from _read(options, layout, _bound(options, piece), None)
    except KafkaError as error:
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not options.fail_on_data_loss:
            accept_or_raise(deleted_partitions([tp]), fail=False)
            return
        raise failed(str(piece), error) from error


def bind_ranges(options: SourceOptions, pieces: Sequence[OffsetRange]) -> dict[TopicPartition, OffsetRange]:
    """Ranges with -2 and -1 replaced by what the partitions have at this moment; left out where there is none.

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
            # Whoever answered leads in this epoch, or one before it, and has the log up to the end that was found.
            planned = _planned_leader(piece)
            leader = shared_cluster(options.client).known_leader(tp) or planned
            if leader and planned and planned.topic_id != ZERO_UUID:
                leader = leader._replace(topic_id=planned.topic_id)
            bound[tp] = bound[tp]._replace(leader=leader)
        if bound[tp].size < 0 and piece.from_offset != EARLIEST_OFFSET:
            loss = not_there_yet(tp, bound[tp].until_offset, bound[tp].from_offset)
            accept_or_raise(loss, fail=options.fail_on_data_loss)
    return bound


def _planned_leader(piece: OffsetRange) -> PartitionLeader | None:
    """The leader whose topic id and epoch the start of a range belongs to; None for earliest, which the task binds."""
    return None if piece.from_offset == EARLIEST_OFFSET else piece.leader


def _bound(options: SourceOptions, piece: OffsetRange) -> OffsetRange:
    found = bind_ranges(options, [piece]).get(piece.topic_partition)
    if found is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, str(piece.topic_partition))
    return found


def _listed(source: ClusterOffsets, pieces: Sequence[OffsetRange], special: int) -> OffsetMap:
    return source.list_offsets({piece.topic_partition: special for piece in pieces}) if pieces else {}


def _read(
    options: SourceOptions, layout: Layout, piece: OffsetRange, begun: Place | None, *, is_planned: bool = True
) -> Iterator[pa.RecordBatch]:
    """A range with real offsets; where records are gone and that is accepted, on from where there are some.

    Raises TopicRecreated if nothing of a range that is not planned was read.
    """
    cluster, tp = shared_cluster(options.client), piece.topic_partition
    shaper = RowShaper(layout=layout, partition=tp)
    position, until = piece.from_offset, piece.until_offset
    leader, read_epoch = piece.leader, NO_EPOCH
    if begun is not None:
        position, leader, read_epoch = begun.position, begun.leader or leader, begun.epoch
    known_epoch = NO_EPOCH if piece.leader is None else piece.leader.leader_epoch
    while position < until:
        fetcher = Fetcher(
            cluster,
            tp,
            position,
            until,
            columns=layout.record_fields,
            leader=leader,
            known_epoch=known_epoch,
            read_epoch=read_epoch,
            timeout_ms=options.poll_timeout_ms,
            max_decompressed_bytes=options.max_decompressed_batch_bytes,
            target_rows=TARGET_ROWS,
        )
        with fetcher:
            try:
                for records in fetcher:
                    yield shaper.shape(records)
                return
            except OffsetOutOfRange as error:
                position, read_epoch = _behind_gap(options, piece, error), NO_EPOCH
            except LogTruncated as error:
                loss = replace(truncated(tp, error.diverged_at, error.position), lasting=False)
                accept_or_raise(loss, fail=options.fail_on_data_loss)
                # What took the place of the lost records was not read before, at whatever offsets it stands.
                position, known_epoch, read_epoch = max(error.diverged_at, piece.from_offset), NO_EPOCH, NO_EPOCH
            except TopicRecreated:
                if not is_planned and fetcher.position == piece.from_offset:
                    raise
                # At the end nothing is left to read, but the topic of what was read is not known (``planned_topics``).
                lost_from = piece.from_offset if fetcher.position >= until else fetcher.position
                accept_or_raise(recreated(tp, lost_from, until), fail=options.fail_on_data_loss)
                return


def _behind_gap(options: SourceOptions, piece: OffsetRange, error: OffsetOutOfRange) -> int:
    """Where to read on when the log does not have ``error.offset``."""
    tp, until = piece.topic_partition, piece.until_offset
    if error.offset < error.earliest:
        position = min(error.earliest, until)
        if not piece.from_earliest:
            accept_or_raise(aged_out(tp, error.offset, position), fail=options.fail_on_data_loss)
        return position
    accept_or_raise(not_there_yet(tp, error.latest, until), fail=options.fail_on_data_loss)
    return until


def failed(what: str, error: KafkaError) -> TaskError:
    """The error of a task whose ``what`` could not be read."""
    return TaskError(
        f"reading {what} failed: {error}. {_advice(error)} Nothing was skipped: a task that Spark runs again, or a "
        "query started again, reads the range from its first offset"
    )


def _advice(error: KafkaError) -> str:
    match error:
        case BrokerUnreachable():
            return (
                "Option 'kafka.bootstrap.servers' says where the cluster is, "
                "'kafka.default.api.timeout.ms' how long to try."
            )
        case FetchTimeout():
            return (
                "Option 'kafkaConsumer.pollTimeoutMs' says how long to wait for records, by default as long as "
                "'kafka.default.api.timeout.ms'."
            )
        case BatchTooLarge():
            return "Raise option 'maxDecompressedBatchBytes' to read a larger record batch."
        case CorruptRecords():
            return (
                "Option 'startingOffsets' of a new query can begin behind the damage; 'kafka.check.crcs' set to false "
                "reads records whose checksum alone is wrong."
            )
        case KafkaError(code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            return "Load the DataFrame again to read what is there now: its partitions were fixed when it was loaded."
        case KafkaError(retriable=True):
            return "Option 'kafka.default.api.timeout.ms' says how long errors that may pass are tried again."
        case _:
            return "Trying again does not help."
