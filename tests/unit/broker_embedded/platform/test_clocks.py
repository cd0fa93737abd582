import time

import pytest

from broker_embedded._platform.clocks import ManualClock, MovableClock, ShiftedClock, SystemClock


def test_the_system_clock_returns_milliseconds() -> None:
    before = int(time.time() * 1000)
    assert before <= SystemClock().now_ms() <= int(time.time() * 1000) + 1


def test_elapsed_time_is_that_of_the_machine_since_it_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic_ns", lambda: 5_999_999)
    monkeypatch.setattr(time, "time_ns", lambda: pytest.fail("the wall clock is read"))
    assert SystemClock().elapsed_ms() == 5


def test_manual_clock_moves_by_advance_only() -> None:
    clock = ManualClock(1000)
    clock.advance(5)
    assert clock.now_ms() == 1005
    clock.advance(-10)
    assert (clock.now_ms(), clock.elapsed_ms()) == (995, 1005), "no time passes when the clock is set back"
    clock.advance(7)
    assert (clock.now_ms(), clock.elapsed_ms()) == (1002, 1012)


def test_a_shifted_clock_runs_ahead_of_the_machines() -> None:
    clock, machine = ShiftedClock(5000), SystemClock()
    before = machine.now_ms()
    assert before + 5000 <= clock.now_ms() <= machine.now_ms() + 5000
    elapsed_ms = clock.elapsed_ms()
    clock.advance(3_600_000)
    assert clock.now_ms() >= before + 3_605_000
    assert clock.elapsed_ms() >= elapsed_ms + 3_600_000
    assert clock.ahead_ms == 3_605_000


@pytest.mark.parametrize(("clock", "flows"), [(ManualClock(), False), (ShiftedClock(), True)])
def test_clocks_of_tests_can_be_moved(clock: MovableClock, flows: bool) -> None:
    assert isinstance(clock, MovableClock)
    assert clock.flows is flows
    assert not isinstance(SystemClock(), MovableClock)
