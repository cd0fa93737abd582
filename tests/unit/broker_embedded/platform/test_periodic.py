import asyncio
import logging

import pytest

from broker_embedded._platform.periodic import PeriodicTask, PeriodicTasks
from broker_embedded._platform.platform import ManualClock
from broker_embedded._platform.timers import VirtualTimers


async def test_a_function_is_called_again_and_again_until_the_stop() -> None:
    timers = VirtualTimers(ManualClock())
    periodic, calls = PeriodicTasks(timers), list[int]()
    periodic.start(PeriodicTask("plain", 1000, lambda: calls.append(timers.now_ms())))
    began = timers.now_ms()
    for _ in range(3):
        await timers.advance(1000)
    assert [call - began for call in calls] == [1000, 2000, 3000]
    await periodic.stop()
    await timers.advance(10_000)
    assert len(calls) == 3


async def test_an_interval_that_changes_holds_from_the_next_wait_on() -> None:
    timers = VirtualTimers(ManualClock())
    periodic, calls, intervals = PeriodicTasks(timers), list[int](), [1000]
    periodic.start(PeriodicTask("plain", lambda: intervals[-1], lambda: calls.append(timers.now_ms())))
    began = timers.now_ms()
    await timers.advance(500)
    intervals.append(3000)
    for _ in range(19):
        await timers.advance(500)
    await periodic.stop()
    assert [call - began for call in calls] == [1000, 4000, 7000, 10_000]


async def test_a_failure_is_logged_and_does_not_end_it(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        timers = VirtualTimers(ManualClock())
        periodic, calls = PeriodicTasks(timers), list[int]()

        async def failing() -> None:
            calls.append(1)
            if len(calls) == 1:
                raise OSError("disk on fire")

        periodic.start(PeriodicTask("retention", 10, failing))
        for _ in range(2):
            await timers.advance(10)
        assert len(calls) == 2
        await periodic.stop()
    (record,) = caplog.records
    assert record.getMessage() == "retention failed, will be retried"
    assert "disk on fire" in str(record.exc_info)


async def test_kafkas_never_is_no_overflow() -> None:
    timers = VirtualTimers(ManualClock())
    periodic, calls = PeriodicTasks(timers), list[int]()
    periodic.start(PeriodicTask("never", 2**63 - 1, lambda: calls.append(1)))
    for _ in range(3):
        await timers.advance(86_400_000)
    await periodic.stop()
    assert calls == []


async def test_a_function_at_work_is_waited_for() -> None:
    timers = VirtualTimers(ManualClock())
    periodic, begun, gate = PeriodicTasks(timers), asyncio.Event(), asyncio.Event()
    done: list[str] = []

    async def long_work() -> None:
        begun.set()
        await gate.wait()
        done.append("whole")

    periodic.start(PeriodicTask("long work", 1, long_work))
    await timers.advance(1)
    assert begun.is_set()
    stopping = asyncio.create_task(periodic.stop())
    for _ in range(10):
        await asyncio.sleep(0)
    assert not stopping.done()
    gate.set()
    await asyncio.wait_for(stopping, 10)
    assert done == ["whole"]


async def test_abandoned_functions_end_where_they_are() -> None:
    timers = VirtualTimers(ManualClock())
    periodic = PeriodicTasks(timers)
    done: list[str] = []

    async def long_work() -> None:
        done.append("begun")
        await asyncio.Event().wait()
        done.append("ended")

    periodic.start(PeriodicTask("long work", 1, long_work))
    periodic.start(PeriodicTask("not yet", 2, lambda: done.append("not yet")))
    await timers.advance(1)
    periodic.abandon()
    await timers.advance(10)
    assert done == ["begun"]
    assert asyncio.all_tasks() == {asyncio.current_task()}
