"""Times in buckets: percentiles to within a tenth, of anything that can happen."""

import random

import pytest

from broker_embedded.metrics.histogram import BOUNDS_NS, Histogram

MS = 1_000_000


def of(*times_ns: int) -> Histogram:
    found = Histogram()
    for ns in times_ns:
        found.add(ns)
    return found


def test_nothing_took_no_time() -> None:
    assert (of().count, of().total_s, of().percentile_s(99)) == (0, 0.0, 0.0)


def test_counts_and_sums() -> None:
    found = of(1 * MS, 2 * MS, 3 * MS)
    assert found.count == 3
    assert found.total_s == pytest.approx(0.006)


@pytest.mark.parametrize("scale_ns", [20_000, 3 * MS, 500 * MS])
def test_percentiles(scale_ns: int) -> None:
    rng = random.Random(1)
    times = [int(rng.expovariate(1) * scale_ns) for _ in range(20_000)]
    found, ordered = of(*times), sorted(times)
    for percent in (50, 90, 99, 99.9):
        exact = ordered[int(len(times) * percent / 100)] / 1e9
        assert found.percentile_s(percent) == pytest.approx(exact, rel=0.1)


@pytest.mark.parametrize("ns", [0, 1, BOUNDS_NS[0], BOUNDS_NS[-1], BOUNDS_NS[-1] + 1, 10**15])
def test_the_shortest_and_the_longest(ns: int) -> None:
    found = of(ns)
    assert found.count == 1
    assert 0 <= found.percentile_s(100) <= BOUNDS_NS[-1] / 1e9


def test_a_time_at_a_bound_is_in_the_bucket_that_ends_there() -> None:
    for bound in BOUNDS_NS:
        assert of(bound).percentile_s(100) == pytest.approx(bound / 1e9)


def test_cumulative_counts_never_fall_and_leave_out_the_longest_alone() -> None:
    found = of(5_000, 20_000, 1 * MS, 10**15)
    buckets = found.cumulative()
    counts = [count for _, count in buckets]
    assert counts == sorted(counts)
    assert (counts[0], counts[-1]) == (1, 3)
    assert [bound for bound, _ in buckets] == sorted(bound for bound, _ in buckets)
    assert dict(buckets)[BOUNDS_NS[4] / 1e9] == 1
