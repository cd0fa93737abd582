"""Offset ranges, and how large ones are split. Pure and deterministic: a replayed batch has the same ranges."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from spark_kafka_native._client.cluster.metadata import Node, PartitionLeader
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.offsets import EARLIEST_OFFSET, LATEST_OFFSET

PlainLeader: TypeAlias = tuple[tuple[int, str, int, str | None], int, bytes]
PlainRange: TypeAlias = tuple[str, int, int, int, bool, PlainLeader | None]

EMPTY_BOUNDS: Final = (0, 0)
"""The first and end offset of a partition without known ones."""


class OffsetRange(NamedTuple):
    """Offsets ``[from_offset, until_offset)`` of a partition.

    In a batch query ``from_offset`` may be -2 and ``until_offset`` -1: the task looks up the first and the end offset
    when it runs.
    """

    topic: str
    partition: int
    from_offset: int
    until_offset: int
    from_earliest: bool = False
    """Whether the partition is read from its first record: records that are deleted before that are no loss then."""
    leader: PartitionLeader | None = None
    """The leader of the plan, with the topic id, so that the task detects another topic of the same name."""

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition of the range."""
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        """Number of offsets; not valid if a limit is -1 or -2."""
        return self.until_offset - self.from_offset

    def to_plain(self) -> PlainRange:
        """The same in Python's own types. Spark pickles each task, and takes at least twice as long for other types."""
        topic, partition, from_offset, until_offset, from_earliest, leader = self
        plain = None if leader is None else ((*leader.node,), leader.leader_epoch, leader.topic_id.bytes)
        return topic, partition, from_offset, until_offset, from_earliest, plain

    @classmethod
    def from_plain(cls, plain: PlainRange) -> "OffsetRange":
        """The range of `to_plain`."""
        topic, partition, from_offset, until_offset, from_earliest, leader = plain
        if leader is None:
            return cls(topic, partition, from_offset, until_offset, from_earliest)
        node, epoch, topic_id = leader
        found = PartitionLeader(Node(*node), epoch, UUID(bytes=topic_id))
        return cls(topic, partition, from_offset, until_offset, from_earliest, found)

    def __str__(self) -> str:
        names = {EARLIEST_OFFSET: "earliest", LATEST_OFFSET: "latest"}
        first = names.get(self.from_offset, self.from_offset)
        return f"{self.topic}-{self.partition} offsets [{first}, {names.get(self.until_offset, self.until_offset)})"


def range_of(
    tp: TopicPartition, from_offset: int, until_offset: int, leader: PartitionLeader | None = None
) -> OffsetRange:
    """The range of one partition."""
    return OffsetRange(tp.topic, tp.partition, from_offset, until_offset, False, leader)


def split_ranges(
    ranges: Iterable[OffsetRange], *, min_partitions: int | None = None, max_records_per_partition: int | None = None
) -> list[OffsetRange]:
    """Ranges with real offsets -> non-empty ranges of equal size, in the same order.

    First ranges are split to at most ``max_records_per_partition`` offsets. If there are still fewer than
    ``min_partitions`` ranges, large ones are split further, in proportion to their size. Rounding may give another
    count. The rules are those of Spark's JVM connector (``KafkaOffsetRangeCalculator``).
    """
    return [piece for pieces in _split(ranges, min_partitions, max_records_per_partition) for piece in pieces]


def split_unbound_ranges(
    ranges: Iterable[OffsetRange],
    bounds: Mapping[TopicPartition, tuple[int, int]],
    *,
    min_partitions: int | None = None,
    max_records_per_partition: int | None = None,
) -> list[OffsetRange]:
    """As ``split_ranges``, for ranges that start at -2 or end at -1; ``bounds`` are the present first and end offsets.

    The first range of a partition keeps its -2 and the last its -1, so that later records are also read. For the same
    reason an empty range up to -1 is kept. Offsets between them are real.
    """
    unbound = list(ranges)
    bound = (bind_range(piece, *bounds.get(piece.topic_partition, EMPTY_BOUNDS)) for piece in unbound)
    split = _split(bound, min_partitions, max_records_per_partition)
    return [piece for whole, pieces in zip(unbound, split, strict=True) for piece in _loosen_ends(whole, pieces)]


def bind_range(piece: OffsetRange, first: int, end: int) -> OffsetRange:
    """A range with -2 replaced by ``first`` and -1 by ``end``."""
    from_offset = first if piece.from_offset == EARLIEST_OFFSET else piece.from_offset
    until_offset = end if piece.until_offset == LATEST_OFFSET else piece.until_offset
    return _between(piece, from_offset, until_offset)


def _between(piece: OffsetRange, from_offset: int, until_offset: int) -> OffsetRange:
    """The range with other limits. ``_replace`` takes three times as long, which counts with 100,000 partitions."""
    if from_offset == piece.from_offset and until_offset == piece.until_offset:
        return piece
    return OffsetRange(piece.topic, piece.partition, from_offset, until_offset, piece.from_earliest, piece.leader)


def _loosen_ends(whole: OffsetRange, pieces: list[OffsetRange]) -> list[OffsetRange]:
    """The split ranges, the first and the last with the limits of the whole range."""
    if not pieces and whole.until_offset != LATEST_OFFSET:
        return []
    topic, partition, from_offset, until_offset, from_earliest, leader = whole
    if from_offset == EARLIEST_OFFSET and not from_earliest:
        whole = OffsetRange(topic, partition, from_offset, until_offset, True, leader)
    if len(pieces) <= 1:
        return [whole]
    froms = [whole.from_offset, *(piece.from_offset for piece in pieces[1:])]
    return [_between(whole, *ends) for ends in zip(froms, [*froms[1:], whole.until_offset], strict=True)]


def _split(
    ranges: Iterable[OffsetRange], min_partitions: int | None, max_records_per_partition: int | None
) -> list[list[OffsetRange]]:
    """The pieces of each range, none of an empty one."""
    split = [[piece] if piece.size > 0 else [] for piece in ranges]
    if max_records_per_partition is not None:
        split = _cut_each(split, lambda piece: -(-piece.size // max_records_per_partition))
    if min_partitions is not None and min_partitions > sum(map(len, split)):
        split = _cut_in_proportion(split, min_partitions)
    return split


def _cut_in_proportion(split: Sequence[Sequence[OffsetRange]], min_partitions: int) -> list[list[OffsetRange]]:
    sizes = [piece.size for pieces in split for piece in pieces]
    total = sum(sizes)
    small = [size for size in sizes if _share(size, total, min_partitions) == 1]
    large_total = total - sum(small)
    for_large = max(min_partitions - len(small), 1)

    def parts(piece: OffsetRange) -> int:
        is_small = _share(piece.size, total, min_partitions) == 1
        return 1 if is_small else _share(piece.size, large_total, for_large)

    return _cut_each(split, parts)


def _cut_each(split: Iterable[Iterable[OffsetRange]], parts: Callable[[OffsetRange], int]) -> list[list[OffsetRange]]:
    return [[cut for piece in pieces for cut in _cut(piece, parts(piece))] for pieces in split]


def _share(size: int, total: int, parts: int) -> int:
    """``size / total`` of ``parts``, rounded half up, at least 1."""
    return max((2 * size * parts + total) // (2 * total), 1)


def _cut(piece: OffsetRange, parts: int) -> list[OffsetRange]:
    """``parts`` ranges, the longer ones last; fewer if there are fewer offsets."""
    if parts == 1:
        return [piece]
    cut: list[OffsetRange] = []
    position = piece.from_offset
    for left in range(min(parts, piece.size), 0, -1):
        until = position + (piece.until_offset - position) // left
        cut.append(piece._replace(from_offset=position, until_offset=until))
        position = until
    return cut
