import asyncio
import logging
import threading
from collections.abc import Awaitable
from typing import Any

import pytest
from dirty_equals import HasLen

from broker_embedded._platform.clocks import ManualClock, ShiftedClock, SystemClock
from broker_embedded._platform.timers import Timers, VirtualTimers, timers_for
from tests.support.waiting import eventually_async

HOUR_MS = 3_600_000
ONE_DAY_MS = 24 * HOUR_MS


class Diary:
    """The events and their times in ms since the start of the clock."""

    def __init__(self, timers: Timers) -> None:
        self.timers = timers
        self.begun_ms = timers.now_ms()
        self.entries: list[tuple[str, int]] = []

    def write(self, what: str) -> None:
        self.entries.append((what, self.timers.now_ms() - self.begun_ms))

    def plan(self, what: str, in_ms: int) -> Any:
        return self.timers.at(self.begun_ms + in_ms, lambda: self.write(what))

    @property
    def events(self) -> list[str]:
        return [what for what, _ in self.entries]


@pytest.fixture
def timers() -> VirtualTimers:
    return VirtualTimers(ManualClock())


def test_a_clock_that_can_be_moved_has_timers_that_go_by_it() -> None:
    assert type(timers_for(SystemClock())) is Timers
    assert type(timers_for(ManualClock())) is VirtualTimers
    assert type(timers_for(ShiftedClock())) is VirtualTimers


async def test_timers_fire_in_the_order_of_their_times(timers: VirtualTimers) -> None:
    diary = Diary(timers)
    for what, in_ms in (("c", 30), ("a", 10), ("b", 20), ("b again", 20), ("d", 31)):
        diary.plan(what, in_ms)
    diary.plan("cancelled", 15).cancel()
    await timers.advance(9)
    assert diary.entries == []
    await timers.advance(21)
    assert diary.entries == [("a", 10), ("b", 20), ("b again", 20), ("c", 30)]
    await timers.advance(ONE_DAY_MS)
    assert diary.entries[-1] == ("d", 31)
    assert timers.now_ms() - diary.begun_ms == 30 + ONE_DAY_MS
    assert timers.elapsed_ms() == 30 + ONE_DAY_MS


async def test_no_timer_fires_while_the_clock_stands(timers: VirtualTimers) -> None:
    task = asyncio.create_task(timers.sleep(1))
    await timers.advance(0)
    assert not task.done()
    assert timers._alarm is None, "the event loop's own clock counts"
    await timers.advance(1)
    assert task.done()


async def test_a_timer_that_is_due_already_fires_in_the_next_iteration() -> None:
    diary = Diary(VirtualTimers(ManualClock()))
    diary.plan("now", 0)
    diary.plan("long ago", -HOUR_MS)
    assert diary.entries == []
    assert await eventually_async(lambda: diary.events, HasLen(2)) == ["long ago", "now"]


async def test_tasks_of_a_timer_run_before_the_clock_advances_further(timers: VirtualTimers) -> None:
    diary, woken = Diary(timers), asyncio.Event()

    async def sleeper() -> None:
        for number in range(3):
            await timers.sleep(10)
            diary.write(f"round {number}")
        woken.set()

    async def after_many_others() -> None:
        await woken.wait()
        for _ in range(40):
            await asyncio.sleep(0)
        diary.write("followed")

    tasks = [asyncio.create_task(sleeper()), asyncio.create_task(after_many_others())]
    await timers.advance(HOUR_MS)
    assert diary.entries == [("round 0", 10), ("round 1", 20), ("round 2", 30), ("followed", 30)]
    await asyncio.gather(*tasks)


async def test_the_clock_waits_for_work_in_threads(timers: VirtualTimers) -> None:
    diary, may_end = Diary(timers), threading.Event()

    async def worker() -> None:
        await timers.sleep(10)
        with timers.working():
            assert await asyncio.to_thread(may_end.wait, 30)
        diary.write("worked")
        await timers.sleep(10)
        diary.write("and slept")

    task = asyncio.create_task(worker())
    moving = asyncio.create_task(timers.advance(HOUR_MS))
    await eventually_async(lambda: timers._working, 1)
    assert timers.now_ms() - diary.begun_ms == 10
    may_end.set()
    await moving
    assert diary.entries == [("worked", 10), ("and slept", 20)]
    await task


async def test_chores_are_done_a_few_times_in_a_long_advance_and_at_its_end(timers: VirtualTimers) -> None:
    diary = Diary(timers)

    async def chore(interval_ms: int) -> None:
        while True:
            await timers.pause(interval_ms)
            diary.write("chore")

    task = asyncio.create_task(chore(1000))
    await timers.advance(3500)
    assert diary.entries == [("chore", 1000), ("chore", 2000), ("chore", 3000)]
    diary.entries.clear()
    await timers.advance(7 * ONE_DAY_MS)
    times = [ms for _, ms in diary.entries]
    assert times[0] == 4000
    assert times[-1] == 7 * ONE_DAY_MS + 3500
    assert 10 < len(times) < 20
    diary.entries.clear()
    await timers.advance(999)
    assert diary.entries == []
    await timers.advance(1)
    assert len(diary.entries) == 1
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_concurrent_advances_are_serialized(timers: VirtualTimers) -> None:
    diary = Diary(timers)
    diary.plan("a", 10)
    diary.plan("b", 20)
    await asyncio.gather(timers.advance(10), timers.advance(10))
    assert diary.entries == [("a", 10), ("b", 20)]
    assert timers.now_ms() - diary.begun_ms == 20


async def test_the_clock_is_not_put_back(timers: VirtualTimers) -> None:
    with pytest.raises(ValueError, match="by -1 ms"):
        await timers.advance(-1)


async def test_a_callback_that_raises_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        timers = VirtualTimers(ManualClock())
        diary = Diary(timers)

        def breaks() -> None:
            raise OSError("broken")

        timers.at(diary.begun_ms + 10, breaks)
        diary.plan("after it", 11)
        await timers.advance(20)
        assert diary.events == ["after it"]
    assert "broken" in caplog.text


async def test_cancelling_twice_or_late_or_in_thousands(timers: VirtualTimers) -> None:
    diary = Diary(timers)
    done = diary.plan("done", 1)
    many = [diary.plan(f"{number}", 10) for number in range(5000)]
    await timers.advance(1)
    done.cancel()
    for timer in many[1:]:
        timer.cancel()
        timer.cancel()
    assert len(timers._queue) < 100
    await timers.advance(10)
    assert diary.events == ["done", "0"]
    assert not timers._queue


async def test_a_callback_may_cancel_another_of_the_same_time(timers: VirtualTimers) -> None:
    diary = Diary(timers)
    timers.at(diary.begun_ms + 5, lambda: victims.pop().cancel())
    victims = [diary.plan("second", 5)]
    await timers.advance(5)
    assert diary.entries == []


async def test_a_cancelled_sleep_leaves_no_timer(timers: VirtualTimers) -> None:
    task = asyncio.create_task(timers.sleep(HOUR_MS))
    await timers.advance(0)
    assert len(timers._queue) == 1
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await timers.advance(HOUR_MS)
    assert not timers._queue


async def test_a_loop_that_never_rests_does_not_stop_the_clock(timers: VirtualTimers) -> None:

    async def busy() -> None:
        while True:
            await asyncio.sleep(0)

    task: Awaitable[None] = asyncio.create_task(busy())
    diary = Diary(timers)
    diary.plan("done", 10)
    await timers.advance(10)
    assert diary.events == ["done"]
    assert isinstance(task, asyncio.Task)
    task.cancel()
