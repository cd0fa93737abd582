"""Work goes on to its end although whoever wanted it has left."""

import asyncio

import pytest

from broker_embedded.platform.finishing import Finishing


def test_results_and_errors_come_through() -> None:
    async def good() -> int:
        return 5

    async def bad() -> int:
        raise ZeroDivisionError

    async def story() -> None:
        finishing = Finishing()
        assert await finishing.finish(good()) == 5
        with pytest.raises(ZeroDivisionError):
            await finishing.finish(bad())
        await finishing.settle()

    asyncio.run(story())


@pytest.mark.parametrize("fails", [False, True])
def test_a_cancelled_caller_does_not_stop_the_work(fails: bool) -> None:
    async def story() -> None:
        finishing, gate = Finishing(), asyncio.Event()
        done: list[str] = []

        async def work() -> None:
            await gate.wait()
            done.append("to its end")
            if fails:
                raise ZeroDivisionError  # nobody hears it, and nobody complains that nobody did

        caller = asyncio.create_task(finishing.finish(work()))
        await asyncio.sleep(0)
        caller.cancel()
        await asyncio.gather(caller, return_exceptions=True)
        settling = asyncio.create_task(finishing.settle())
        await asyncio.sleep(0)
        assert (done, settling.done()) == ([], False)
        gate.set()
        await asyncio.wait_for(settling, 10)
        assert done == ["to its end"]

    asyncio.run(story())


def test_abandoned_work_stops_where_it_is() -> None:
    async def story() -> None:
        finishing = Finishing()
        done: list[str] = []

        async def work() -> None:
            await asyncio.sleep(0)
            done.append("nothing of this")

        task = finishing.begin(work())
        finishing.abandon()
        await asyncio.gather(task, return_exceptions=True)
        await finishing.settle()
        assert task.cancelled()
        assert done == []

    asyncio.run(story())
