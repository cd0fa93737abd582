"""A rate that holds on average, in virtual time."""

import pytest

from broker_embedded.log.cleaner.log_cleaner import Throttler


class Time:
    def __init__(self) -> None:
        self.now = 100.0
        self.waits: list[float] = []
        self.throttle = Throttler(lambda: self.now, self.wait)

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


def test_what_is_spent_takes_its_time() -> None:
    time = Time()
    for _ in range(10):
        time.throttle.spend(500, 1000.0)
    assert time.now == pytest.approx(105.0)
    assert time.waits == [pytest.approx(0.5)] * 10


def test_time_that_passes_otherwise_counts_but_is_not_saved_up() -> None:
    time = Time()
    time.throttle.spend(500, 1000.0)
    time.now += 60
    time.throttle.spend(500, 1000.0)
    assert time.waits == [pytest.approx(0.5)] * 2


def test_small_debts_are_paid_together() -> None:
    time = Time()
    for _ in range(100):
        time.throttle.spend(1, 10_000.0)
    assert len(time.waits) == pytest.approx(10, abs=1)
    assert time.now == pytest.approx(100.01, abs=0.001)


@pytest.mark.parametrize("rate", [float("inf"), 1.7e308])
def test_without_a_limit_nobody_waits(rate: float) -> None:
    time = Time()
    time.throttle.spend(10**12, rate)
    assert time.waits == []
