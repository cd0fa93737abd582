"""The ranges that a run loads, and the entries of the last version that it replaces. Pure.

A run without ``--from`` begins, in each partition, at the position of the last version. A run from a point begins at
the last file boundary at or before the point, so that whole files are kept or replaced. It ends at ``--until``, or, if
there are files after that, at the first file boundary at or after it; later files are kept.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spark_kafka_native._jobs.batch_reload.errors import ReloadError, UsageError
from spark_kafka_native._jobs.batch_reload.manifest import Entry, Manifest, by_partition
from spark_kafka_native._jobs.points import ClusterState
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.planning.ranges import OffsetRange, range_of, split_ranges


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The requested limits, as offsets."""

    points: Mapping[TopicPartition, int]
    """Where to begin; a partition that is not named continues at its position."""
    ends: Mapping[TopicPartition, int]
    """Where to end; by default at the end."""
    accept_loss: bool = False
    """Whether deleted records are skipped, and named in the manifest."""
    start_option: str = "--from"
    """The option that names ``points``, for errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPlan:
    """The plan for one partition."""

    partition: TopicPartition
    from_offset: int
    """Entries of the last version that end here or before are kept."""
    until_offset: int
    """Entries that begin here or later are kept."""
    lost: tuple[int, int] | None
    """Offsets at the beginning whose records were deleted."""
    replaced: tuple[Entry, ...]
    starts_over: bool = False
    """The topic was recreated: no entry of the old topic is kept."""

    @property
    def read_from(self) -> int:
        """The first offset to read."""
        return self.lost[1] if self.lost else self.from_offset

    @property
    def records(self) -> int:
        """Offsets to read; there may be fewer records."""
        return self.until_offset - self.read_from


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A run: the plan of each partition, and one range for each task.

    A range has the leader that returned its end, so its task refuses a recreated topic and a truncated log.
    """

    partitions: tuple[PartitionPlan, ...]
    pieces: tuple[OffsetRange, ...]
    topic_ids: Mapping[str, str]

    @property
    def records(self) -> int:
        """Offsets to read, in all."""
        return sum(part.records for part in self.partitions)

    @property
    def replaces(self) -> bool:
        """Whether files of the last version are replaced."""
        return any(part.replaced or part.starts_over for part in self.partitions)

    def changes(self, base: Manifest | None) -> bool:
        """Whether there is anything to publish: files, ranges without records, new positions."""
        known = base.positions if base else {}
        return any(
            part.until_offset > part.from_offset or part.starts_over or part.partition not in known
            for part in self.partitions
        )


def make_plan(
    base: Manifest | None,
    state: ClusterState,
    wanted: Wanted,
    *,
    min_tasks: int | None = None,
    max_records_per_task: int | None = None,
) -> Plan:
    """Plan a run over the partitions of ``state``.

    A plan from points needs all entries of ``base`` in it (``versions.with_all_entries``), another needs none.
    Raises ReloadError: records were deleted, or a partition ends before its position; UsageError: invalid limits.
    """
    assert not (wanted.points and base and base.parts)
    entries = by_partition(base.entries if base else ())
    parts = tuple(
        _partition_plan(base, entries.get(tp, []), state, wanted, tp)
        for tp in sorted(state.first.keys() & state.end.keys())
    )
    ranges = [
        range_of(part.partition, part.read_from, part.until_offset)._replace(leader=state.leaders.get(part.partition))
        for part in parts
    ]
    pieces = split_ranges(ranges, min_partitions=min_tasks, max_records_per_partition=max_records_per_task)
    return Plan(partitions=parts, pieces=tuple(pieces), topic_ids=dict(state.topic_ids))


def _partition_plan(
    base: Manifest | None, entries: Sequence[Entry], state: ClusterState, wanted: Wanted, tp: TopicPartition
) -> PartitionPlan:
    position = base.positions.get(tp) if base else None
    point, first, end = wanted.points.get(tp), state.first[tp], state.end[tp]
    starts_over = base is not None and _is_another_topic(base, state, tp.topic)
    if starts_over or (position is not None and end < position):
        if point is None:
            raise _not_the_same(tp, position, end, another=starts_over)
        if starts_over:
            position, entries = None, ()
    if point is not None and point > max(end, position or 0):
        raise UsageError(f"{wanted.start_option}: {tp} ends at offset {end}, before offset {point}")
    known = None if position is None else min(position, end)
    start = _start(tp, known, entries, point, state, wanted.start_option)
    until = min(wanted.ends.get(tp, end), end)
    if point is not None and tp in wanted.ends and until < (begins := min(_begins(point, known, first), end)):
        raise UsageError(f"--until: ends before the load begins in {tp}: offset {until} is before {begins}")
    until = max(_until(entries, until) if position == known else end, start)
    kept_beyond = until if position == known else None
    replaced = tuple(
        entry
        for entry in entries
        if start < entry.until_offset and (kept_beyond is None or entry.from_offset < kept_beyond)
    )
    return PartitionPlan(
        partition=tp,
        from_offset=start,
        until_offset=until,
        lost=_lost(tp, start, until, first, wanted),
        replaced=replaced,
        starts_over=starts_over,
    )


def _is_another_topic(base: Manifest, state: ClusterState, topic: str) -> bool:
    before, now = base.topic_ids.get(topic), state.topic_ids.get(topic)
    return before is not None and now is not None and before != now


def _not_the_same(tp: TopicPartition, position: int | None, end: int, *, another: bool) -> ReloadError:
    ways = "Load it into another target, or give --from to replace this target's records from there"
    if another:
        return ReloadError(
            f"topic {tp.topic} was deleted and created again since the last load; its offsets are not valid. {ways}"
        )
    return ReloadError(
        f"{tp} ends at offset {end}, before the position {position} that the last load has reached: the topic was "
        f"created again, or its log truncated. {ways}"
    )


def _begins(point: int, position: int | None, first: int) -> int:
    """``point``, or the topic's first offset if the records between them were loaded before they were deleted."""
    return point if position is None or point >= position else min(max(point, first), position)


def _start(
    tp: TopicPartition,
    position: int | None,
    entries: Sequence[Entry],
    point: int | None,
    state: ClusterState,
    option: str,
) -> int:
    """Where a partition begins: a boundary of its files, or its position."""
    first = state.first[tp]
    if position is None:
        return first if point is None else point
    if point is None:
        return position
    point = min(point, position)
    if point <= first and point < position:
        # All records that the topic still has; a file that began earlier is kept.
        begun = (entry.until_offset for entry in entries if entry.from_offset < first < entry.until_offset)
        return min(next(begun, first), position)
    around = next((entry for entry in entries if entry.from_offset < point < entry.until_offset), None)
    if around is None:
        return point
    if around.from_offset < first:
        raise UsageError(
            f"{option}: offset {point} of {tp} is within the file of {around}, and the topic begins at offset {first}: "
            f"the file cannot be made again. Begin at offset {around.until_offset}, where the next file begins"
        )
    return around.from_offset


def _until(entries: Sequence[Entry], limit: int) -> int:
    """``limit``, or the end of the file that it would cut, or the beginning of the first file if it lies before."""
    edges = [entry.from_offset for entry in entries[:1]] + [entry.until_offset for entry in entries]
    return next((edge for edge in edges if edge >= limit), limit)


def _lost(tp: TopicPartition, start: int, until: int, first: int, wanted: Wanted) -> tuple[int, int] | None:
    if start >= min(first, until):
        return None
    gone = (start, min(first, until))
    if not wanted.accept_loss:
        raise ReloadError(
            f"offsets [{gone[0]}, {gone[1]}) of {tp} were deleted before they were loaded. --accept-data-loss "
            "continues after them, and the manifest names the gap"
        )
    return gone
