import asyncio
import threading
from collections.abc import Awaitable
from typing import Any, Self

import pytest

from broker_embedded._platform.cancellation import Cancellation, WorkCancelled
from broker_embedded._platform.clocks import ManualClock
from broker_embedded._platform.record_threads import ClientPresence, RecordThreads
from broker_embedded._platform.timers import timers_for
from tests.support.waiting import eventually_async


class Work:
    """Pieces of work, by name; those that are to wait do so until they are released, and check then."""

    def __init__(self, threads: int = 1) -> None:
        self.threads = RecordThreads("test", threads, timers_for(ManualClock()))
        self.begun: list[str] = []
        self._released = threading.Event()

    def piece(self, name: str, presence: ClientPresence | None = None, **how: Any) -> "asyncio.Future[str]":
        def function(cancellation: Cancellation) -> str:
            self.begun.append(name)
            assert self._released.wait(60)
            cancellation.check()
            return name

        return asyncio.ensure_future(self.threads.run(function, presence or ClientPresence(), **how))

    async def wait_for(self, *names: str) -> None:
        await eventually_async(lambda: sorted(self.begun), sorted(names))

    def release(self) -> None:
        self._released.set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.release()
        self.threads.cancel_all("the test is over")
        self.threads.join()


async def cancelled(piece: Awaitable[object]) -> str:
    with pytest.raises(WorkCancelled) as caught:
        await piece
    return str(caught.value)


async def test_results_and_errors_come_through_in_the_order_of_the_calls() -> None:
    async with Work() as work:

        def fails(_: Cancellation) -> None:
            raise ZeroDivisionError

        pieces = [work.piece(name) for name in "abc"]
        failing = asyncio.ensure_future(work.threads.run(fails, ClientPresence()))
        work.release()
        assert await asyncio.gather(*pieces) == ["a", "b", "c"]
        with pytest.raises(ZeroDivisionError):
            await failing
        assert work.begun == ["a", "b", "c"]


@pytest.mark.parametrize("closes", [False, True])
async def test_a_client_that_leaves_drops_what_has_not_begun_and_cancels_what_has(closes: bool) -> None:
    async with Work() as work:
        here, gone = ClientPresence(), ClientPresence()
        running, waiting, other = work.piece("running", gone), work.piece("waiting", gone), work.piece("other", here)
        unanswered = work.piece("acks=0", gone, is_awaited=False)
        await work.wait_for("running")
        if closes:
            gone.close("reset")
        else:
            gone.leave()
        reason = await cancelled(waiting)
        assert reason == ("reset" if closes else "the client has closed its side of the connection")
        work.release()
        assert await cancelled(running) == reason
        assert await other == "other"
        if closes:
            assert await cancelled(unanswered) == reason
        else:
            assert await unanswered == "acks=0"
        assert await cancelled(work.piece("later", gone)) == reason
        assert work.begun == ["running", "other", *(() if closes else ("acks=0",))]


async def test_work_of_waiting_clients_starts_before_acks_0_work_of_disconnected_ones() -> None:
    async with Work() as work:
        gone = [ClientPresence() for _ in range(3)]
        running = work.piece("running")
        await work.wait_for("running")
        left = [work.piece(f"left{index}", one, is_awaited=False) for index, one in enumerate(gone)]
        present = work.piece("acks=0", is_awaited=False)
        awaited = work.piece("awaited")
        await asyncio.sleep(0)
        for one in gone:
            one.leave()
        work.release()
        await asyncio.gather(running, awaited, present, *left)
        assert work.begun == ["running", "acks=0", "awaited", "left0", "left1", "left2"]


async def test_acks_0_pieces_of_clients_that_left_begin_though_pieces_that_are_awaited_keep_coming() -> None:
    async with Work() as work:
        gone = ClientPresence()
        running = work.piece("running")
        await work.wait_for("running")
        left = [work.piece(name, gone, is_awaited=False) for name in ("left0", "left1")]
        others = [work.piece(str(number)) for number in range(40)]
        await asyncio.sleep(0)
        gone.leave()
        work.release()
        await asyncio.gather(running, *left, *others)
        assert [work.begun.index(name) for name in ("left0", "left1")] == [17, 34]


async def test_acks_0_pieces_of_clients_that_left_run_in_half_of_the_threads_and_can_be_cancelled() -> None:
    async with Work(2) as work:
        presences = [ClientPresence() for _ in range(4)]
        pieces = [work.piece(f"left{index}", one, is_awaited=False) for index, one in enumerate(presences)]
        for one in presences:
            one.leave()
        await asyncio.sleep(0)
        await work.wait_for("left0")
        awaited = work.piece("awaited")
        await work.wait_for("left0", "awaited")
        presences[1].close("reset")
        assert await cancelled(pieces[1]) == "reset"
        pieces[2].cancel()
        work.release()
        await asyncio.gather(awaited, pieces[0], pieces[3])
        assert work.begun == ["left0", "awaited", "left3"]


async def test_a_broker_that_stops_cancels_acks_0_pieces_of_clients_that_left() -> None:
    async with Work(2) as work:
        gone = ClientPresence()
        pieces = [work.piece(name, gone, is_awaited=False) for name in ("running", "waiting")]
        gone.leave()
        await work.wait_for("running")
        work.threads.cancel_all("the broker stops")
        assert await cancelled(pieces[1]) == "the broker stops"


async def test_a_caller_that_is_cancelled_cancels_its_piece() -> None:
    async with Work() as work:
        running, waiting, other = (work.piece(name) for name in ("running", "waiting", "other"))
        await work.wait_for("running")
        for piece in (running, waiting):
            piece.cancel()
        work.release()
        assert await other == "other"
        assert work.begun == ["running", "other"]
        assert [running.cancelled(), waiting.cancelled()] == [True, True]


async def test_a_request_of_many_pieces_waits_for_the_other_connections_before_each() -> None:
    async with Work() as work:

        async def many() -> None:
            for number in range(3):
                await work.piece(f"many{number}")

        first = asyncio.ensure_future(many())
        await work.wait_for("many0")
        others = [work.piece(name) for name in "ab"]
        await asyncio.sleep(0)
        work.release()
        await asyncio.gather(first, *others)
        assert work.begun == ["many0", "a", "b", "many1", "many2"]


async def test_a_broker_that_stops_cancels_all_and_takes_no_more() -> None:
    async with Work() as work:
        running, waiting = work.piece("running"), work.piece("waiting")
        await work.wait_for("running")
        work.threads.cancel_all("the broker stops")
        assert await cancelled(waiting) == "the broker stops"
        assert not running.done()
        work.release()
        assert await cancelled(running) == "the broker stops"
        assert await cancelled(work.piece("later")) == "the broker stops"
        assert work.begun == ["running"]


def test_memory_is_released_when_the_last_work_has_ended() -> None:
    presence, released = ClientPresence(), list[int]()
    with presence.holding(is_awaited=True):
        with presence.holding(is_awaited=True):
            presence.when_released(lambda: released.append(1))
        assert released == []
    assert released == [1]
    presence.when_released(lambda: released.append(2))
    assert released == [1, 2]
