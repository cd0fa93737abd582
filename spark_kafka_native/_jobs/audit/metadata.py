"""Compares topics with their copies by offsets and times alone; no record is read."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from spark_kafka_native._jobs.audit.ranges import Side
from spark_kafka_native._protocol.topic import TopicPartition

MAX_COUNTS: Final = 5_000_000
"""Buckets times partitions."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCounts:
    """The offsets of a partition in one bucket of time, or in all. ``source`` and ``target`` are numbers of offsets."""

    topic: str
    partition: int | None
    """None: all partitions of the topic."""
    bucket_ms: int | None
    """When the bucket begins; None: the whole range."""
    source: int
    target: int


def compare_offsets(
    source: Side, target: Side, boundaries_ms: Sequence[int], *, across_partitions: bool
) -> Iterator[OffsetCounts]:
    """The counts of each partition, as a whole and then by bucket.

    ``boundaries_ms``: where buckets begin, ascending. A bucket ends where the next one begins, and the last one at the
    end of the range. A record is in the bucket of its timestamp if timestamps are in the order of offsets. Raises
    KafkaError.
    """
    sides = [_counts(side, boundaries_ms, across_partitions=across_partitions) for side in (source, target)]
    for place in sorted(sides[0].keys() | sides[1].keys()):
        empty = [0] * (len(boundaries_ms) + 1)
        pairs = zip(*(side.get(place, empty) for side in sides), strict=True)
        for bucket_ms, (in_source, in_target) in zip([None, *boundaries_ms], pairs, strict=True):
            topic, partition = place
            shown = None if across_partitions else partition
            yield OffsetCounts(topic=topic, partition=shown, bucket_ms=bucket_ms, source=in_source, target=in_target)


def _counts(
    side: Side, boundaries_ms: Sequence[int], *, across_partitions: bool
) -> Mapping[TopicPartition, Sequence[int]]:
    """For each partition by its name in the source, or topic: the offsets of the range, then those of each bucket."""
    found: dict[TopicPartition, list[int]] = {}
    starts = [_starts(side, at_ms) for at_ms in boundaries_ms]
    for partition, (begin, end) in side.ranges.items():
        edges = [*(min(max(of_bucket[partition], begin), end) for of_bucket in starts), end]
        counts = [end - begin, *(after - before for before, after in pairwise(edges))]
        name = side.in_source(partition)
        place = TopicPartition(name.topic, -1) if across_partitions else name
        sums = found.setdefault(place, [0] * len(counts))
        found[place] = [before + count for before, count in zip(sums, counts, strict=True)]
    return found


def _starts(side: Side, at_ms: int) -> Mapping[TopicPartition, int]:
    """The first offset of each partition with this timestamp or a later one, else its end."""
    offsets = side.offsets.list_offsets(dict.fromkeys(side.ranges, at_ms))
    return {
        partition: found if (found := offsets.get(partition, -1)) >= 0 else end
        for partition, (_, end) in side.ranges.items()
    }
