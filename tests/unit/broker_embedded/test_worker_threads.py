"""Work in threads: one kind does not wait for the other, and stopping waits for what has begun."""

import asyncio
import threading

from broker_embedded.clocks import ManualClock
from broker_embedded.timers import timers_for
from broker_embedded.worker_threads import WorkerThreads
from tests.support.waiting import eventually_async


def test_the_disk_does_not_wait_for_records() -> None:
    async def story() -> None:
        threads = WorkerThreads(timers_for(ManualClock()))
        may_go_on = threading.Event()
        busy = [asyncio.ensure_future(threads.on_records(lambda: may_go_on.wait(30))) for _ in range(20)]
        assert await asyncio.wait_for(threads.on_disk(lambda: "written"), 30) == "written"
        assert not any(each.done() for each in busy)
        may_go_on.set()
        assert all(await asyncio.gather(*busy))
        threads.stop()

    asyncio.run(story())


def test_stopping_waits_for_what_has_begun_and_can_drop_the_rest() -> None:
    async def story() -> None:
        threads = WorkerThreads(timers_for(ManualClock()))
        begun, may_go_on = threading.Semaphore(0), threading.Event()

        def work() -> bool:
            begun.release()
            return may_go_on.wait(30)

        running = [asyncio.ensure_future(threads.on_records(work)) for _ in range(20)]
        await asyncio.sleep(0)
        for _ in range(2):
            assert await asyncio.to_thread(begun.acquire, timeout=30)
        stopping = asyncio.create_task(asyncio.to_thread(threads.stop, cancel=True))
        await eventually_async(lambda: sum(each.cancelled() for each in running), 18)
        assert not stopping.done()
        may_go_on.set()
        await stopping
        done = await asyncio.gather(*running, return_exceptions=True)
        assert done.count(True) == 2

    asyncio.run(story())
