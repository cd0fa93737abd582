import asyncio

import pytest

from broker_embedded._platform.platform import ManualClock
from broker_embedded._platform.timers import VirtualTimers
from broker_embedded._replica.delayed import DelayedOperations
from spark_kafka_native._protocol.topic import TopicPartition

A, B, C = (TopicPartition("t", index) for index in range(3))
LONG_MS = 60_000


def operations() -> DelayedOperations:
    return DelayedOperations(VirtualTimers(ManualClock()))


async def settle() -> None:
    """Let every task run as far as it can."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_change_that_is_enough_ends_the_wait() -> None:
    delayed, seen = operations(), list[TopicPartition]()

    def is_done(partition: TopicPartition) -> bool:
        seen.append(partition)
        return len(seen) == 2

    task = asyncio.ensure_future(delayed.wait([A, B], LONG_MS, is_done))
    await settle()
    for partition in (C, A):
        delayed.changed(partition)
    await settle()
    assert not task.done()
    delayed.changed(B)
    delayed.changed(B)
    await task
    assert seen == [A, B]
    await settle()
    assert delayed.count == 0


async def test_a_change_before_the_wait_is_awaited_is_not_missed() -> None:
    delayed = operations()
    waiting = delayed.wait([A], LONG_MS, lambda _: True)
    delayed.changed(A)
    await asyncio.wait_for(waiting, 10)
    await settle()
    assert delayed.count == 0


async def test_an_error_of_one_waiting_request_is_its_own() -> None:
    delayed = operations()

    def fails(_: TopicPartition) -> bool:
        raise OSError("the disk of the waiting request")

    failing, other = delayed.wait([A], LONG_MS, fails), delayed.wait([A], LONG_MS, lambda _: True)
    delayed.changed(A)
    await asyncio.wait_for(other, 10)
    with pytest.raises(OSError, match="the disk of the waiting request"):
        await failing
    await settle()
    assert delayed.count == 0


async def test_the_timeout_ends_the_wait() -> None:
    timers = VirtualTimers(ManualClock())
    delayed = DelayedOperations(timers)
    task = asyncio.ensure_future(delayed.wait([A], 500, lambda _: False))
    await timers.advance(499)
    assert not task.done()
    assert delayed.count == 1
    await timers.advance(1)
    assert task.done()
    await settle()
    assert delayed.count == 0


async def test_a_pause_lasts_its_time_or_until_the_stop() -> None:
    timers = VirtualTimers(ManualClock())
    delayed = DelayedOperations(timers)
    first, second = (asyncio.ensure_future(delayed.pause(ms)) for ms in (10, 1000))
    await timers.advance(10)
    assert (first.done(), second.done()) == (True, False)
    delayed.release()
    await second
    await settle()
    assert delayed.count == 0


async def test_a_change_wakes_all_its_waiters() -> None:
    delayed = operations()
    tasks = [asyncio.ensure_future(delayed.wait(parts, LONG_MS, lambda _: True)) for parts in ([A], [A, B], [B])]
    await settle()
    delayed.changed(A)
    await settle()
    assert [task.done() for task in tasks] == [True, True, False]
    delayed.changed(B)
    await asyncio.gather(*tasks)


async def test_a_stop_ends_all_waits_now_and_later() -> None:
    delayed = operations()
    task = asyncio.ensure_future(delayed.wait([A], LONG_MS, lambda _: False))
    await settle()
    delayed.release()
    await task
    await delayed.wait([A], LONG_MS, lambda _: False)


async def test_a_cancelled_wait_is_removed() -> None:
    delayed = operations()
    task = asyncio.ensure_future(delayed.wait([A, B], LONG_MS, lambda _: False))
    await settle()
    assert delayed.count == 1
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await settle()
    assert delayed.count == 0
