import asyncio
import time

import pytest

from broker_embedded._config.settings import LONG_MAX
from broker_embedded._platform.clocks import ShiftedClock, SystemClock
from broker_embedded._platform.timers import VirtualTimers, timers_for

HOUR_MS = 3_600_000


@pytest.mark.parametrize("clock", [SystemClock, ShiftedClock])
async def test_timers_of_a_flowing_clock_fall_due_by_themselves_in_order(
    clock: type[SystemClock | ShiftedClock],
) -> None:
    timers = timers_for(clock())
    begun, begun_ms = time.monotonic(), timers.now_ms()
    fired: list[tuple[str, float]] = []
    done = asyncio.Event()

    def plan(what: str, in_ms: int) -> None:
        timers.at(begun_ms + in_ms, lambda: fired.append((what, (time.monotonic() - begun) * 1000)))

    plan("second", 20)
    timers.at(begun_ms + 30, done.set)
    timers.at(begun_ms + LONG_MAX, lambda: fired.append(("never", 0)))
    timers.at(begun_ms + 10, lambda: fired.append(("cancelled", 0))).cancel()
    plan("first", 10)
    plan("overdue", -1000)
    assert fired == []
    await done.wait()
    assert [what for what, _ in fired] == ["overdue", "first", "second"]
    assert all(ms >= least for (_, ms), least in zip(fired, (0, 9, 19), strict=True))


@pytest.mark.parametrize("clock", [SystemClock, ShiftedClock])
async def test_sleeping_takes_real_time(clock: type[SystemClock | ShiftedClock]) -> None:
    timers = timers_for(clock())
    begun, begun_ms = time.monotonic(), timers.elapsed_ms()
    await timers.sleep(10)  # the system's time is what is tested: both waits must last 10 ms of it
    await timers.pause(10)
    assert time.monotonic() - begun >= 0.019
    assert timers.elapsed_ms() - begun_ms >= 19


async def test_a_flowing_clock_can_be_moved_too() -> None:
    timers = VirtualTimers(ShiftedClock())
    begun_ms, in_an_hour, done = timers.elapsed_ms(), asyncio.Event(), asyncio.Event()
    timers.at(timers.now_ms() + HOUR_MS, in_an_hour.set)
    await timers.advance(HOUR_MS)
    assert in_an_hour.is_set()
    assert timers.elapsed_ms() - begun_ms >= HOUR_MS
    timers.at(timers.now_ms() + 5, done.set)
    await done.wait()
