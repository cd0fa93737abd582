"""What a batch query reads: decided once, when its plan is made, and bound to real offsets when its tasks run.

Spark asks a Python source for its partitions once per ``load()`` and uses them for every action on the DataFrame. So
that a second action sees what has arrived since, ranges keep -2 (earliest) and -1 (latest) where the options say so.
"""

import logging
from collections.abc import Mapping

from spark_kafka_native.protocol.topic import TopicPartition
from spark_kafka_native.spark.errors import PlanError, listed
from spark_kafka_native.spark.offsets import EARLIEST_OFFSET, LATEST_OFFSET, OffsetMap
from spark_kafka_native.spark.options.parsing import SourceOptions
from spark_kafka_native.spark.planning.assignment import select_existing
from spark_kafka_native.spark.planning.bounds import Edge, OffsetSource, bind_limit
from spark_kafka_native.spark.planning.data_loss import accept_or_raise, aged_out, not_there_yet
from spark_kafka_native.spark.planning.narrowing import EVERYTHING, Narrowing, narrow
from spark_kafka_native.spark.planning.pacing import Clock
from spark_kafka_native.spark.planning.packing import Task, pack
from spark_kafka_native.spark.planning.ranges import OffsetRange, range_of, split_unbound_ranges

_log = logging.getLogger(__name__)

Bounds = Mapping[TopicPartition, tuple[int, int]]
"""First and end offset of each partition."""


def plan_batch_query(
    options: SourceOptions, source: OffsetSource, clock: Clock, narrowing: Narrowing = EVERYTHING
) -> list[Task]:
    """The tasks of a batch query, their ranges sorted by partition; without what ``narrowing`` does not want.

    Raises PlanError: unknown topics, or limits that do not fit together; DataLossError: records asked for by offset do
    not exist and ``failOnDataLoss`` is true.
    """
    selection = select_existing(options, source, clock)
    if selection.missing_partitions:
        _log.warning("assigned partitions that do not exist are not read: %s", listed(selection.missing_partitions))
    start = bind_limit(options.starting, selection.partitions, source, clock, Edge.STARTING)
    end = bind_limit(options.ending, selection.partitions, source, clock, Edge.ENDING)
    bounds = _bounds(source, start.keys() & end.keys()) if _needs_bounds(options, start, end) else {}
    ranges = [_range(options, tp, start[tp], end[tp], bounds) for tp in sorted(start.keys() & end.keys())]
    pieces = split_unbound_ranges(
        narrow(ranges, narrowing, source),
        bounds,
        min_partitions=options.min_partitions,
        max_records_per_partition=options.max_records_per_partition,
    )
    leaders = {} if options.max_partitions is None or not bounds else source.leaders(bounds)
    return pack(
        pieces,
        leaders,
        bounds,
        max_partitions=options.max_partitions,
        max_records_per_partition=options.max_records_per_partition,
    )


def _needs_bounds(options: SourceOptions, start: OffsetMap, end: OffsetMap) -> bool:
    """Whether the query is more than all of every partition, whatever that is when the tasks run."""
    sizes = (options.min_partitions, options.max_partitions, options.max_records_per_partition)
    is_sized = sizes != (None, None, None)
    return is_sized or bool(set(start.values()) - {EARLIEST_OFFSET} or set(end.values()) - {LATEST_OFFSET})


def _bounds(source: OffsetSource, partitions: set[TopicPartition]) -> Bounds:
    earliest = source.list_offsets(dict.fromkeys(sorted(partitions), EARLIEST_OFFSET))
    latest = source.list_offsets(dict.fromkeys(sorted(partitions), LATEST_OFFSET))
    return {tp: (earliest[tp], latest[tp]) for tp in earliest.keys() & latest.keys()}


def _range(options: SourceOptions, tp: TopicPartition, start: int, end: int, bounds: Bounds) -> OffsetRange:
    """The range of one partition, checked against the partition where it names offsets."""
    if tp not in bounds:
        return range_of(tp, start, end)
    first, last = bounds[tp]
    from_offset = last if start == LATEST_OFFSET else start
    known_from = first if from_offset == EARLIEST_OFFSET else from_offset
    known_until = last if end == LATEST_OFFSET else end
    if known_from > known_until:
        raise PlanError(
            "KAFKA_RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET",
            f"the resolved start offset {known_from} is greater than the resolved end offset {known_until} for {tp}",
        )
    if 0 <= from_offset < first:
        accept_or_raise(aged_out(tp, from_offset, min(first, known_until)), fail=options.fail_on_data_loss)
        from_offset = min(first, known_until)
    if end > last:
        accept_or_raise(not_there_yet(tp, last, end), fail=options.fail_on_data_loss)
        end = max(last, from_offset)
    return range_of(tp, from_offset, end)
