import asyncio
import threading

import pytest

from broker_embedded._platform.cancellation import WorkCancelled
from broker_embedded._platform.clocks import ManualClock
from broker_embedded._platform.record_threads import ClientPresence
from broker_embedded._platform.timers import timers_for
from broker_embedded._platform.worker_threads import WorkerThreads
from tests.support.waiting import eventually_async


async def test_the_disk_does_not_wait_for_records() -> None:
    threads = WorkerThreads(timers_for(ManualClock()))
    released = threading.Event()
    busy = [
        asyncio.ensure_future(kind.run(lambda _: released.wait(30), ClientPresence()))
        for kind in (threads.appends, threads.reads)
        for _ in range(20)
    ]
    assert await asyncio.wait_for(threads.on_disk(lambda: "written"), 30) == "written"
    assert not any(each.done() for each in busy)
    released.set()
    assert all(await asyncio.gather(*busy))
    threads.stop()


@pytest.mark.parametrize("appends_wait", [True, False])
async def test_reads_and_appends_do_not_wait_for_each_other(appends_wait: bool) -> None:
    threads = WorkerThreads(timers_for(ManualClock()))
    busy, idle = (threads.reads, threads.appends) if appends_wait else (threads.appends, threads.reads)
    released = threading.Event()
    held = [asyncio.ensure_future(busy.run(lambda _: released.wait(30), ClientPresence())) for _ in range(20)]
    assert await asyncio.wait_for(idle.run(lambda _: "done", ClientPresence()), 30) == "done"
    assert not any(each.done() for each in held)
    released.set()
    assert all(await asyncio.gather(*held))
    threads.stop()


async def test_stopping_waits_for_what_has_begun_and_drops_the_rest() -> None:
    threads = WorkerThreads(timers_for(ManualClock()))
    begun, released = threading.Semaphore(0), threading.Event()

    def work(_: object = None) -> bool:
        begun.release()
        return released.wait(30)

    on_records = [
        asyncio.ensure_future(kind.run(work, ClientPresence()))
        for kind in (threads.appends, threads.reads)
        for _ in range(20)
    ]
    on_disk = [asyncio.ensure_future(threads.on_disk(work)) for _ in range(20)]
    await asyncio.sleep(0)
    for _ in range(2 + 2 + 4):
        assert await asyncio.to_thread(begun.acquire, timeout=30)
    threads.cancel_records("the broker stops")
    stopping = asyncio.create_task(asyncio.to_thread(threads.stop, cancel=True))
    await eventually_async(lambda: sum(each.done() for each in on_records), 36)
    await eventually_async(lambda: sum(each.cancelled() for each in on_disk), 16)
    assert not stopping.done()
    released.set()
    await stopping
    done = await asyncio.gather(*on_records, *on_disk, return_exceptions=True)
    assert done.count(True) == 2 + 2 + 4
    assert sum(isinstance(each, WorkCancelled) for each in done) == 36
