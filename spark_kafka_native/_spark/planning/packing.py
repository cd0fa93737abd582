"""Assigns ranges to tasks: one range each, or, with option ``maxPartitions``, several whole ranges. Pure.

Ranges are sorted by leader, and the sequence is cut into tasks of about the same number of offsets, so that most tasks
read from one broker. If leaders have changed when a batch is planned again, other tasks read the same ranges.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.planning.ranges import EMPTY_BOUNDS, OffsetRange, PlainRange, bind_range

Task: TypeAlias = tuple[OffsetRange, ...]
"""The ranges of one task; at most one range of each partition."""
PlainTask: TypeAlias = tuple[PlainRange, ...]
"""The value of its ``InputPartition``."""

_NO_LEADER: Final = -1


class _Sized(NamedTuple):
    """A range and its number of offsets."""

    piece: OffsetRange
    size: int


def pack(
    ranges: Sequence[OffsetRange],
    bounds: Mapping[TopicPartition, tuple[int, int]],
    *,
    max_partitions: int | None = None,
    max_records_per_partition: int | None = None,
) -> list[Task]:
    """Assign every range to one task; ranges of one partition are adjacent in ``ranges`` and keep their order.

    There are at most ``max_partitions`` tasks, or as many as ``max_records_per_partition`` requires if they are filled
    one after the other; a single range may exceed that. Without that limit no task has more offsets than an equal share
    plus the largest range. ``bounds`` are the present first and end offsets, for the size of ranges that start at -2 or
    end at -1, which are kept. Adjacent ranges of a partition in one task are joined.
    """
    if max_partitions is None or len(ranges) <= max_partitions:
        return [(piece,) for piece in ranges]
    sized = [_Sized(piece, _size(piece, bounds)) for piece in ranges]
    sized.sort(key=_leader_id)
    filled = None if max_records_per_partition is None else _fill(sized, max_records_per_partition)
    count = max_partitions if filled is None else max(max_partitions, len(filled))
    tasks = _share_out(sized, count, max_records_per_partition)
    if filled is not None and len(tasks) > count:
        tasks = filled
    return [_joined(task) for task in tasks]


def to_plain(task: Task) -> PlainTask:
    """A task in Python's own types."""
    return tuple([piece.to_plain() for piece in task])


def from_plain(plain: PlainTask) -> Task:
    """The task of `to_plain`."""
    return tuple([OffsetRange.from_plain(piece) for piece in plain])


def _leader_id(sized: _Sized) -> int:
    leader = sized.piece.leader
    return _NO_LEADER if leader is None else leader.node.node_id


def _size(piece: OffsetRange, bounds: Mapping[TopicPartition, tuple[int, int]]) -> int:
    if bounds and min(piece.from_offset, piece.until_offset) < 0:
        piece = bind_range(piece, *bounds.get(piece.topic_partition, EMPTY_BOUNDS))
    return max(piece.size, 0)


def _share_out(sized: Sequence[_Sized], count: int, most: int | None) -> list[list[OffsetRange]]:
    """``count`` tasks of equal size, or more if ``most`` offsets per task require that.

    The share is computed again after every task, and each task leaves at least one range for each later one.
    """
    left = sum(_weight(size) for _, size in sized)
    tasks: list[list[OffsetRange]] = []
    weight = offsets = 0
    share = 0
    for number, (piece, size) in enumerate(sized):
        to_come = count - len(tasks)
        is_over = weight >= share or len(sized) - number <= to_come or (most is not None and offsets + size > most)
        if not tasks or is_over:
            share = -(-left // max(to_come, 1))
            tasks.append([])
            weight = offsets = 0
        tasks[-1].append(piece)
        weight += _weight(size)
        offsets += size
        left -= _weight(size)
    return tasks


def _weight(size: int) -> int:
    """At least 1: an empty range also costs a request, and may have records when it is read."""
    return max(size, 1)


def _fill(sized: Iterable[_Sized], most: int) -> list[list[OffsetRange]]:
    """As many ranges in each task as ``most`` offsets allow, one task after the other."""
    tasks: list[list[OffsetRange]] = []
    offsets = 0
    for piece, size in sized:
        if not tasks or offsets + size > most:
            tasks.append([])
            offsets = 0
        tasks[-1].append(piece)
        offsets += size
    return tasks


def _joined(pieces: Iterable[OffsetRange]) -> Task:
    joined: list[OffsetRange] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        if (
            last is not None
            and last.until_offset == piece.from_offset
            and (last.partition, last.topic) == (piece.partition, piece.topic)
        ):
            joined[-1] = last._replace(until_offset=piece.until_offset)
        else:
            joined.append(piece)
    return tuple(joined)
