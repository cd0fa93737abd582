import asyncio

import pytest

from broker_embedded._platform.cancellation import NEVER_CANCELLED, Cancellation, WorkCancelled
from broker_embedded._platform.shielded_tasks import ShieldedTasks


async def test_results_and_errors_come_through() -> None:
    async def good() -> int:
        return 5

    async def bad() -> int:
        raise ZeroDivisionError

    shielded_tasks = ShieldedTasks()
    assert await shielded_tasks.run(good()) == 5
    with pytest.raises(ZeroDivisionError):
        await shielded_tasks.run(bad())
    await shielded_tasks.wait()


@pytest.mark.parametrize("fails", [False, True])
async def test_a_cancelled_caller_does_not_stop_the_work(fails: bool) -> None:
    shielded_tasks, gate = ShieldedTasks(), asyncio.Event()
    done: list[str] = []

    async def work() -> None:
        await gate.wait()
        done.append("to its end")
        if fails:
            raise ZeroDivisionError  # neither raised nor logged

    caller = asyncio.create_task(shielded_tasks.run(work()))
    await asyncio.sleep(0)
    caller.cancel()
    await asyncio.gather(caller, return_exceptions=True)
    settling = asyncio.create_task(shielded_tasks.wait())
    await asyncio.sleep(0)
    assert (done, settling.done()) == ([], False)
    gate.set()
    await asyncio.wait_for(settling, 10)
    assert done == ["to its end"]


async def test_abandoned_work_stops_where_it_is() -> None:
    shielded_tasks = ShieldedTasks()
    done: list[str] = []

    async def work() -> None:
        await asyncio.sleep(0)
        done.append("nothing of this")

    task = shielded_tasks.start(work())
    shielded_tasks.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await shielded_tasks.wait()
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
