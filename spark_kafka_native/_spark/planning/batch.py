"""The ranges of a batch query, planned once and bound to real offsets when its tasks run.

Spark calls ``partitions`` of a Python source once per ``load()`` and uses the result for every action on the DataFrame.
To let a second action read later records, ranges keep -2 (earliest) and -1 (latest) of the options. With option
``bindOffsets=load``, ``bind_batch_query`` is called once, and all plans use its ranges.

A range whose offsets were looked up has the leader that returned them. So a task detects a topic that was deleted and
created again, and a log that was truncated before the end of the range.
"""

import logging

from spark_kafka_native._protocol.topic import TopicPartition, listed
from spark_kafka_native._spark.errors import PlanError
from spark_kafka_native._spark.offsets import EARLIEST_OFFSET, LATEST_OFFSET, OffsetMap
from spark_kafka_native._spark.options.parsed import SourceOptions
from spark_kafka_native._spark.planning.assignment import select_existing
from spark_kafka_native._spark.planning.bounds import Bounds, Clock, Edge, OffsetSource, bind_limit, look_up_bounds
from spark_kafka_native._spark.planning.data_loss import accept_or_raise, beyond_end, deleted_before_read
from spark_kafka_native._spark.planning.narrowing import EVERYTHING, Narrowing, narrow
from spark_kafka_native._spark.planning.packing import Task, pack
from spark_kafka_native._spark.planning.ranges import OffsetRange, bind_range, range_of, split_unbound_ranges

_log = logging.getLogger(__name__)

_NO_BOUNDS = Bounds(earliest={}, latest={}, leaders={})


def bind_batch_query(options: SourceOptions, source: OffsetSource, clock: Clock) -> tuple[OffsetRange, ...]:
    """The ranges that a batch query reads now, with real offsets; sorted by partition.

    Raises as ``plan_batch_query``.
    """
    start, end = _limits(options, source, clock)
    bounds = look_up_bounds(source, _in_both(start, end))
    ranges = _ranges(options, start, end, bounds)
    return tuple(bind_range(piece, *bounds.of(piece.topic_partition)) for piece in ranges if piece.leader is not None)


def plan_batch_query(
    options: SourceOptions,
    source: OffsetSource,
    clock: Clock,
    narrowing: Narrowing = EVERYTHING,
    bound: tuple[OffsetRange, ...] | None = None,
) -> list[Task]:
    """The tasks of a batch query, their ranges sorted by partition and narrowed by ``narrowing``.

    ``bound``: the result of ``bind_batch_query`` for the query's DataFrame; None: the ranges are not bound.
    Raises PlanError: unknown topics, or limits that do not fit together; DataLossError: records at the requested
    offsets do not exist and ``failOnDataLoss`` is true.
    """
    bounds, ranges = _NO_BOUNDS, list(bound or ())
    if bound is None:
        start, end = _limits(options, source, clock)
        if _needs_bounds(options, start, end):
            bounds = look_up_bounds(source, _in_both(start, end))
        ranges = _ranges(options, start, end, bounds)
    spans = {tp: bounds.of(tp) for tp in bounds.leaders}
    pieces = split_unbound_ranges(
        narrow(ranges, narrowing, source),
        spans,
        min_partitions=options.min_partitions,
        max_records_per_partition=options.max_records_per_partition,
    )
    return pack(
        pieces,
        spans,
        max_partitions=options.max_partitions,
        max_records_per_partition=options.max_records_per_partition,
    )


def _limits(options: SourceOptions, source: OffsetSource, clock: Clock) -> tuple[OffsetMap, OffsetMap]:
    """The start and the end of each partition; -2 and -1 are not looked up."""
    selection = select_existing(options, source, clock)
    if selection.missing_partitions:
        _log.warning("assigned partitions that do not exist are not read: %s", listed(selection.missing_partitions))
    start = bind_limit(options.starting, selection.partitions, source, clock, Edge.STARTING)
    end = bind_limit(options.ending, selection.partitions, source, clock, Edge.ENDING)
    return start, end


def _needs_bounds(options: SourceOptions, start: OffsetMap, end: OffsetMap) -> bool:
    """Whether a plan needs offsets; not for all partitions from earliest to latest in any number of tasks."""
    sizes = (options.min_partitions, options.max_partitions, options.max_records_per_partition)
    is_sized = sizes != (None, None, None)
    return is_sized or bool(set(start.values()) - {EARLIEST_OFFSET} or set(end.values()) - {LATEST_OFFSET})


def _in_both(start: OffsetMap, end: OffsetMap) -> list[TopicPartition]:
    """The partitions that have both limits, sorted. They mostly are already, and a set would lose that order."""
    return sorted(tp for tp in start if tp in end)


def _ranges(options: SourceOptions, start: OffsetMap, end: OffsetMap, bounds: Bounds) -> list[OffsetRange]:
    """The range of each partition, validated if its bounds are known."""
    ranges: list[OffsetRange] = []
    for tp in _in_both(start, end):
        leader = bounds.leaders.get(tp)
        limits = start[tp], end[tp]
        if leader is not None:
            limits = _checked(options, tp, *limits, *bounds.of(tp))
        ranges.append(range_of(tp, *limits, leader))
    return ranges


def _checked(
    options: SourceOptions, tp: TopicPartition, start: int, end: int, first: int, last: int
) -> tuple[int, int]:
    """The validated limits of a partition that has the offsets ``[first, last)``."""
    from_offset = last if start == LATEST_OFFSET else start
    known_from = first if from_offset == EARLIEST_OFFSET else from_offset
    known_until = last if end == LATEST_OFFSET else end
    if known_from > known_until:
        raise PlanError(
            "KAFKA_RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET",
            f"the resolved start offset {known_from} is greater than the resolved end offset {known_until} for {tp}",
        )
    if 0 <= from_offset < first:
        accept_or_raise(deleted_before_read(tp, from_offset, min(first, known_until)), fail=options.fail_on_data_loss)
        from_offset = min(first, known_until)
    if end > last:
        accept_or_raise(beyond_end(tp, last, end), fail=options.fail_on_data_loss)
        end = max(last, from_offset)
    return from_offset, end
