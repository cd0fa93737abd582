import math
import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker_embedded._quotas.rates import SampledRate, TokenBucket

START_MS = 50_000
AMOUNTS = st.floats(0, 2**63)


def rate(samples: int = 11, window_ms: int = 1000) -> SampledRate:
    return SampledRate(samples, window_ms)


def test_windows_that_have_not_been_yet_count_as_over() -> None:
    measured = rate()
    measured.record(1000, START_MS)
    assert measured.elapsed_ms(START_MS) == 10_000
    assert measured.per_second(START_MS) == 100
    assert measured.elapsed_ms(START_MS + 700) == 10_700
    assert measured.elapsed_ms(START_MS + 10_000) == 10_000


def test_a_rate_without_samples_is_0() -> None:
    assert rate().per_second(START_MS) == 0
    assert SampledRate(1, 1000).per_second(START_MS) == 0


def test_samples_older_than_all_windows_are_dropped() -> None:
    measured = rate(samples=2)
    measured.record(300, START_MS)
    measured.record(500, START_MS + 1000)
    assert measured.per_second(START_MS + 1000) == 800
    assert measured.per_second(START_MS + 1999) == pytest.approx(800 / 1.999)
    assert measured.per_second(START_MS + 2000) == 500
    assert measured.per_second(START_MS + 3000) == 0


def test_a_sample_that_lies_across_the_edge_counts_with_its_time() -> None:
    measured = rate(samples=2)
    measured.record(100, START_MS)
    measured.record(100, START_MS + 900)
    measured.record(100, START_MS + 1500)
    measured.record(100, START_MS + 2600)
    # The first sample was last used at 900, so that it is looked at until 2,900, all of it, from its start on.
    assert measured.elapsed_ms(START_MS + 2800) == 2800
    assert measured.per_second(START_MS + 2800) == pytest.approx(400 / 2.8)
    assert measured.per_second(START_MS + 2900) == pytest.approx(200 / 1.4)


def test_recorded_amounts_can_be_taken_back() -> None:
    measured = rate()
    measured.record(5000, START_MS)
    measured.record(-5000, START_MS)
    assert measured.per_second(START_MS) == 0


def test_the_silence_brings_the_rate_down_to_the_limit() -> None:
    measured = rate()
    measured.record(1_500, START_MS)
    assert measured.excess_ms(100, START_MS) == 5000
    assert measured.excess_ms(150, START_MS) == 0
    assert measured.excess_ms(1000, START_MS) == 0


@pytest.mark.parametrize("seed", range(5))
def test_waiting_for_the_throttle_time_keeps_the_rate_at_the_quota(seed: int) -> None:
    rng = random.Random(seed)
    measured, now_ms, total = rate(), START_MS, 0
    for _ in range(400):
        amount = rng.randrange(1, 3000)
        measured.record(amount, now_ms)
        total += amount
        now_ms += measured.excess_ms(1000, now_ms) + rng.choice([0, 1, 30])
    seconds = (now_ms - START_MS) / 1000
    # The first windows are given on credit, and what is forgotten sample by sample is forgotten a little early.
    assert 800 <= total / (seconds + 10) <= 1100


def test_a_bucket_is_full_at_first_and_never_fuller() -> None:
    bucket = TokenBucket(11, 1000)
    assert bucket.left(5, START_MS) == 55
    assert bucket.left(5, START_MS + 60_000) == 55
    bucket.take(15, 5, START_MS + 60_000)
    assert bucket.left(5, START_MS + 60_000) == 40
    assert bucket.left(5, START_MS + 61_000) == 45
    bucket.take(-100, 5, START_MS + 61_000)
    assert bucket.left(5, START_MS + 61_000) == 55


def test_a_burst_is_forgiven_after_the_time_that_it_was_too_large_for() -> None:
    bucket = TokenBucket(100, 1000)
    bucket.take(560, 5, START_MS)
    assert bucket.left(5, START_MS) == -60
    assert bucket.owed_ms(5, START_MS) == 12_000
    assert bucket.owed_ms(5, START_MS + 11_999) == 1
    assert bucket.owed_ms(5, START_MS + 12_000) == 0


def test_a_limit_that_changes_changes_what_comes_back() -> None:
    bucket = TokenBucket(10, 1000)
    bucket.take(100, 10, START_MS)
    assert bucket.left(20, START_MS + 1000) == 20
    assert bucket.left(1, START_MS + 1000) == 10


@given(limit=st.floats(min_value=0, exclude_min=True, allow_nan=False), amounts=st.lists(AMOUNTS, max_size=5))
@example(limit=5e-324, amounts=[1.0])
@example(limit=1.7e308, amounts=[1.0])
@example(limit=math.inf, amounts=[1.0])
def test_a_wait_fits_its_field_whatever_the_limit(limit: float, amounts: list[float]) -> None:
    measured, bucket = rate(), TokenBucket(11, 1000)
    for second, amount in enumerate(amounts):
        now_ms = START_MS + 1000 * second
        measured.record(amount, now_ms)
        bucket.take(amount, limit, now_ms)
        for wait_ms in (measured.excess_ms(limit, now_ms), bucket.owed_ms(limit, now_ms)):
            assert 0 <= wait_ms <= 2**31 - 1
            assert isinstance(wait_ms, int)
