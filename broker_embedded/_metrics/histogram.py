"""Histograms of times, with buckets that grow by a fifth."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Final

_PER_OCTAVE: Final = 4
_SHORTEST_NS: Final = 2**13  # 8 microseconds
_OCTAVES: Final = 23  # up to 69 seconds
BOUNDS_NS: Final[tuple[int, ...]] = tuple(
    round(_SHORTEST_NS * 2 ** (step / _PER_OCTAVE)) for step in range(_OCTAVES * _PER_OCTAVE + 1)
)
"""The largest time of each bucket except the last, which counts all longer ones."""
_NS: Final = 1e9


class Histogram:
    """Counts of times. Not safe to add to from two threads."""

    __slots__ = ("_counts", "_total_ns")

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_NS) + 1)
        self._total_ns = 0

    def add(self, ns: int) -> None:
        """Count a time in nanoseconds."""
        self._counts[bisect_left(BOUNDS_NS, ns)] += 1
        self._total_ns += ns

    @property
    def count(self) -> int:
        """The number of counted times."""
        return sum(self._counts)

    @property
    def total_s(self) -> float:
        """The sum of all times, in seconds."""
        return self._total_ns / _NS

    def percentile_s(self, percent: float) -> float:
        """A percentile in seconds, within a tenth; 0.0 if there are no times."""
        wanted = self.count * percent / 100
        if not wanted:
            return 0.0
        edges = [0, *BOUNDS_NS, BOUNDS_NS[-1]]
        before = 0
        for (low, high), count in zip(pairwise(edges), self._counts, strict=True):
            if before + count >= wanted:
                return (low + (high - low) * (wanted - before) / count) / _NS
            before += count
        raise AssertionError("the counts are fewer than their sum")

    def cumulative(self) -> Sequence[tuple[float, int]]:
        """The bound of each octave in seconds, and the number of times up to it."""
        sums = list(accumulate(self._counts))
        return [(BOUNDS_NS[index] / _NS, sums[index]) for index in range(0, len(BOUNDS_NS), _PER_OCTAVE)]
