import asyncio

import pytest

from broker_embedded.platform.cancellation import NEVER_CANCELLED, Cancellation, WorkCancelled
from broker_embedded.platform.finishing import Finishing


async def test_results_and_errors_come_through() -> None:
    async def good() -> int:
        return 5

    async def bad() -> int:
        raise ZeroDivisionError

    finishing = Finishing()
    assert await finishing.finish(good()) == 5
    with pytest.raises(ZeroDivisionError):
        await finishing.finish(bad())
    await finishing.settle()


@pytest.mark.parametrize("fails", [False, True])
async def test_a_cancelled_caller_does_not_stop_the_work(fails: bool) -> None:
    finishing, gate = Finishing(), asyncio.Event()
    done: list[str] = []

    async def work() -> None:
        await gate.wait()
        done.append("to its end")
        if fails:
            raise ZeroDivisionError  # neither raised nor logged

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


async def test_abandoned_work_stops_where_it_is() -> None:
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


def test_work_runs_until_it_is_cancelled_and_raises_the_first_reason() -> None:
    cancellation = Cancellation()
    items = cancellation.between(range(10))
    assert [next(items), next(items)] == [0, 1]
    cancellation.cancel("the first")
    cancellation.cancel("another")
    with pytest.raises(WorkCancelled, match="the first"):
        next(items)
    with pytest.raises(WorkCancelled):
        cancellation.check()


def test_work_that_is_not_cancelled_runs_to_its_end() -> None:
    NEVER_CANCELLED.check()
    assert list(NEVER_CANCELLED.between("abc")) == ["a", "b", "c"]
