"""From the offsets of a micro-batch to the ranges to read, and to the records that are lost.

Planning is pure; ``accept_or_raise`` applies ``failOnDataLoss``.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from spark_kafka_native._protocol.ids import format_id
from spark_kafka_native._protocol.topic import TopicPartition, listed
from spark_kafka_native._spark.errors import AfterRestart, DataLossError, DataLossKind
from spark_kafka_native._spark.offsets import OffsetMap
from spark_kafka_native._spark.planning.ranges import OffsetRange, range_of
from spark_kafka_native._spark.planning.topic_ids import Recreated

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataLoss:
    """Records that a query cannot read any more; ``reason`` is a clause that names partitions and offsets."""

    kind: DataLossKind
    reason: str
    restart: AfterRestart = AfterRestart.FINDS_IT


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    """Non-empty ranges to read, sorted by partition, and the losses of the batch."""

    ranges: tuple[OffsetRange, ...]
    losses: tuple[DataLoss, ...]


def plan_batch(
    start: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    earliest: Mapping[TopicPartition, int],
    *,
    new_topics_start_at_zero: bool,
) -> BatchPlan:
    """The micro-batch from ``start`` to ``end``, given the first offsets that the cluster has now.

    A partition that is not in ``start`` is read from its first offset. ``earliest`` must have every partition to be
    read that still exists. ``new_topics_start_at_zero``: a topic that is not in ``start`` was created during the query,
    so a first offset above 0 means that records were deleted unread; otherwise the user has added the topic.
    """
    losses: list[DataLoss] = []
    ranges: list[OffsetRange] = []
    deleted_since = {tp for tp, at in start.items() if end.get(tp, at) > at and tp not in earliest}
    if deleted := (start.keys() - end.keys()) | deleted_since:
        losses.append(deleted_partitions(deleted))
    _report_unknown(start, end, earliest, losses)
    known_topics = {tp.topic for tp in start}
    for tp in sorted(tp for tp in end if tp in earliest or tp in start):
        first = earliest.get(tp)
        if tp not in start:
            assert first is not None
            if first != 0 and (new_topics_start_at_zero or tp.topic in known_topics):
                losses.append(_starts_late(tp, first))
            from_offset = first
        elif end[tp] < start[tp]:
            losses.append(_end_decreased(tp, start[tp], end[tp]))
            continue
        elif end[tp] == start[tp] or first is None:
            continue
        else:
            from_offset = max(start[tp], first)
            if from_offset > start[tp]:
                losses.append(deleted_before_read(tp, start[tp], min(first, end[tp])))
        if from_offset < end[tp]:
            ranges.append(range_of(tp, from_offset, end[tp]))
    return BatchPlan(ranges=tuple(ranges), losses=tuple(losses))


def plan_replayed_first_batch(
    looked_up_again: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    earliest: Mapping[TopicPartition, int],
    may_have_moved: Callable[[TopicPartition], bool],
) -> BatchPlan:
    """The first batch of a query that failed before finishing it; Spark has stored its ``end``, not its start.

    The start was looked up again. Partitions for which that may return another offset (``latest``) were empty in the
    first batch, and are empty again. The start of other partitions is the same, unless records were deleted. Partitions
    that only the second lookup found belong to the next batch.
    """
    start = {tp: offset for tp, offset in looked_up_again.items() if tp in end}
    steady_start = {tp: offset for tp, offset in start.items() if not may_have_moved(tp)}
    steady_end = {tp: offset for tp, offset in end.items() if tp in steady_start}
    plan = plan_batch(steady_start, steady_end, earliest, new_topics_start_at_zero=False)
    deleted = [tp for tp in end if tp not in looked_up_again and not may_have_moved(tp)]
    losses = (*plan.losses, *([deleted_partitions(deleted)] if deleted else []))
    return BatchPlan(ranges=plan.ranges, losses=losses)


def accept_or_raise(loss: DataLoss, *, fail: bool) -> None:
    """Raise a loss as DataLossError if ``fail`` (``failOnDataLoss``) is set; otherwise log it."""
    if fail:
        raise DataLossError.of(loss.kind, loss.reason, loss.restart)
    _log.warning(
        "[KAFKA_DATA_LOSS.%s] %s; failOnDataLoss is false, so the query continues", loss.kind.value, loss.reason
    )


def deleted_before_read(tp: TopicPartition, from_offset: int, first: int) -> DataLoss:
    """Offsets ``[from_offset, first)`` of a partition were deleted before they were read."""
    return DataLoss(
        kind=DataLossKind.COULD_NOT_READ,
        reason=f"offsets [{from_offset}, {first}) of {tp} were deleted before they were read (retention is too short)",
    )


def beyond_end(tp: TopicPartition, last: int, until_offset: int) -> DataLoss:
    """Offsets ``[last, until_offset)`` of a partition were requested and do not exist."""
    return DataLoss(
        kind=DataLossKind.COULD_NOT_READ,
        reason=f"offsets [{last}, {until_offset}) of {tp} do not exist: the partition ends at offset {last}",
    )


def truncated(tp: TopicPartition, diverged_at: int, known_until: int) -> DataLoss:
    """The log was truncated at ``diverged_at``, below ``known_until``; other records may have these offsets now."""
    return DataLoss(
        kind=DataLossKind.OFFSET_CHANGED,
        reason=f"the log of {tp} was truncated at offset {diverged_at} by a leader that lacked the records from there "
        f"to offset {known_until}; other records have these offsets now",
    )


def range_recreated(tp: TopicPartition, from_offset: int, until_offset: int, *, commits_ids: bool) -> DataLoss:
    """The topic of the planned offsets ``[from_offset, until_offset)`` was deleted and created again."""
    return DataLoss(
        kind=DataLossKind.TOPIC_RECREATED,
        reason=f"offsets [{from_offset}, {until_offset}) of {tp} are gone: the topic was deleted and created again",
        restart=AfterRestart.FINDS_IT if commits_ids else AfterRestart.READS_OLD_OFFSETS,
    )


def topic_recreated(
    change: Recreated,
    start: Mapping[TopicPartition, int],
    latest: Mapping[TopicPartition, int],
    *,
    commits_ids: bool,
) -> DataLoss:
    """A topic that was read up to ``start`` was created again; it ends at ``latest``.

    If it ends before ``start``, the kind of loss is the same as without topic ids. ``commits_ids``: a restarted query
    knows the ids of the topics that it has read.
    """
    shorter = [tp for tp in change.partitions if latest.get(tp, start[tp]) < start[tp]]
    ends = "".join(f"; the end of {tp} was changed from {start[tp]} to {latest[tp]}" for tp in shorter[:1])
    return DataLoss(
        kind=DataLossKind.OFFSET_CHANGED if shorter else DataLossKind.TOPIC_RECREATED,
        reason=f"topic {change.topic} was deleted and created again (its id was {format_id(change.old_id)}, it is "
        f"{format_id(change.new_id)} now){ends}. Unread records of the old topic are lost. The new topic is read from "
        "its first offset, because offsets of the old topic are not valid in it",
        restart=AfterRestart.FINDS_IT if shorter or commits_ids else AfterRestart.READS_OLD_OFFSETS,
    )


def _report_unknown(
    start: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    earliest: Mapping[TopicPartition, int],
    losses: list[DataLoss],
) -> None:
    if unknown := end.keys() - start.keys() - earliest.keys():
        losses.append(
            DataLoss(
                kind=DataLossKind.INITIAL_OFFSET_NOT_FOUND,
                reason=f"partitions {listed(unknown)} appeared and were gone before their first offset was known",
            )
        )


def deleted_partitions(partitions: Iterable[TopicPartition]) -> DataLoss:
    """Partitions of the query that the cluster no longer has."""
    return DataLoss(
        kind=DataLossKind.PARTITIONS_DELETED,
        reason=f"partitions {listed(partitions)} were read before; now the cluster does not have them",
    )


def _starts_late(tp: TopicPartition, first: int) -> DataLoss:
    return DataLoss(
        kind=DataLossKind.ADDED_PARTITION_STARTS_LATE,
        reason=f"{tp} is new to the query, yet it starts at offset {first}: earlier records were deleted unread, or "
        "the partition is older than the pattern that matches it now",
    )


def _end_decreased(tp: TopicPartition, start: int, end: int) -> DataLoss:
    return DataLoss(
        kind=DataLossKind.OFFSET_CHANGED,
        reason=f"{tp} is to be read from offset {start} on, but its end was changed from {start} to {end}: "
        "the topic was created again, its log truncated, or a starting offset is greater than the end",
    )


def lagging_partitions(known: OffsetMap, latest: Mapping[TopicPartition, int]) -> list[TopicPartition]:
    """Partitions of ``known`` that ``latest`` lacks or has at a smaller offset: deleted, or stale metadata."""
    return [tp for tp, offset in known.items() if latest.get(tp, -1) < offset]
