"""Threads for work that decompresses batches or reads each record, which may take seconds.

A piece of work belongs to the client of one connection. It waits until a thread is free. A piece that has not begun is
dropped if its client disconnects or the broker stops. One that has begun is cancelled, and ends at its next check
(`Cancellation`), except that an append that has begun to write is completed.

A piece of a disconnected client with acks=0 is completed, as in Apache Kafka, but begins after pieces of other clients,
at most `_MAX_OVERTAKING` of them. Such pieces use at most half of the threads.

Bounds: a connection has one request at a time, and a request has one piece at a time, which is one partition of a
Produce or a Fetch, or one batch of a lookup. So there are never more pieces than connections, and pieces of all
connections alternate.
"""

import asyncio
import contextlib
import functools
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, Generic, TypeVar

from broker_embedded._platform.cancellation import Cancellation, WorkCancelled
from broker_embedded._platform.timers import Timers

ResultT = TypeVar("ResultT")

_LEFT: Final = "the client has closed its side of the connection"
_MAX_OVERTAKING: Final = 16
"""The number of pieces of other clients that begin before the next one of a disconnected client."""


class ClientPresence:
    """Whether the client of one connection is still connected. Belongs to the event loop.

    Work for a client that has closed its side of the connection is cancelled, except work without a response (acks=0):
    that is cancelled only when the connection is closed, and `is_waited_for` keeps the connection open.
    """

    __slots__ = ("_closed", "_holders", "_on_released", "_unanswered", "_works", "has_left")

    def __init__(self) -> None:
        self._closed: str | None = None
        self.has_left = False
        """Whether the client has closed its side of the connection."""
        self._works: dict[Callable[[str], object], bool] = {}
        """Cancels each piece of work; whether the client waits for its result."""
        self._holders = self._unanswered = 0
        self._on_released: Callable[[], object] | None = None

    @property
    def is_waited_for(self) -> bool:
        """Whether the connection stays open until its present request is served, although it is idle.

        True if the client is connected, or if the request is a Produce with acks=0.
        """
        return not self.has_left or self._unanswered > 0

    def leave(self) -> None:
        """The client has disconnected: cancel the work with a response."""
        self.has_left = True
        for cancel, is_awaited in list(self._works.items()):
            if is_awaited:
                cancel(_LEFT)

    def close(self, reason: str) -> None:
        """The connection is closed: cancel all work for it."""
        self._closed = reason
        for cancel in list(self._works):
            cancel(reason)

    def check(self, *, is_awaited: bool) -> None:
        """Raise WorkCancelled if work for the client should not begin."""
        if self._closed is not None:
            raise WorkCancelled(self._closed)
        if self.has_left and is_awaited:
            raise WorkCancelled(_LEFT)

    @contextlib.contextmanager
    def cancelling(self, cancel: Callable[[str], object], *, is_awaited: bool) -> Iterator[None]:
        """Call ``cancel`` with the reason if the client leaves within the block. Raises as ``check``."""
        self.check(is_awaited=is_awaited)
        self._works[cancel] = is_awaited
        try:
            yield
        finally:
            del self._works[cancel]

    @contextlib.contextmanager
    def holding(self, *, is_awaited: bool) -> Iterator[None]:
        """Keep the memory of the present request reserved within the block, even if the connection is closed.

        ``is_awaited``: the client waits for a response.
        """
        self._holders += 1
        self._unanswered += not is_awaited
        try:
            yield
        finally:
            self._holders -= 1
            self._unanswered -= not is_awaited
            if not self._holders and self._on_released is not None:
                on_released, self._on_released = self._on_released, None
                on_released()

    def when_released(self, release: Callable[[], object]) -> None:
        """Call ``release`` once no work holds the memory of the request: now, if none does."""
        if self._holders:
            self._on_released = release
        else:
            release()


class RecordThreads:
    """The threads for one kind of work on records. Belongs to one event loop."""

    def __init__(self, name: str, count: int, timers: Timers) -> None:
        """``name`` is the threads' name, ``count`` their number."""
        self._count = count
        self._timers = timers
        self._executor = ThreadPoolExecutor(count, thread_name_prefix=name)
        self._waiting: dict[_Piece[Any], None] = {}
        """In the order of ``run``; with those in `_postponed` never more than connections."""
        self._postponed: dict[_Piece[Any], None] = {}
        """Pieces whose clients had disconnected when a thread was free."""
        self._overtaking = 0
        """Pieces that began since the last one of `_postponed` began, while one waited there."""
        self._running: dict[_Piece[Any], None] = {}
        self._stopped: str | None = None

    async def run(
        self,
        function: Callable[[Cancellation], ResultT],
        presence: ClientPresence,
        *,
        is_awaited: bool = True,
    ) -> ResultT:
        """Run a function in a thread; its result or exception. It must not use objects of the event loop.

        ``is_awaited``: the client waits for the result. A caller that is cancelled cancels the piece.

        Raises WorkCancelled: the client has disconnected, or the broker stops.
        """
        if self._stopped is not None:
            raise WorkCancelled(self._stopped)
        piece = _Piece(function, presence, asyncio.get_running_loop())
        cancel = functools.partial(self._cancel, piece)
        with self._timers.working(), presence.cancelling(cancel, is_awaited=is_awaited):
            self._waiting[piece] = None
            self._dispatch()
            try:
                return await piece.ended
            finally:
                if not piece.ended.done() or piece.ended.cancelled():
                    cancel("the request was cancelled")

    def cancel_all(self, reason: str) -> None:
        """Cancel every piece, now and later."""
        self._stopped = reason
        for piece in [*self._waiting, *self._postponed, *self._running]:
            self._cancel(piece, reason)

    def join(self) -> None:
        """Wait for the pieces that have begun. Blocks; call ``cancel_all`` before."""
        self._executor.shutdown()

    def _cancel(self, piece: "_Piece[Any]", reason: str) -> None:
        piece.cancellation.cancel(reason)
        for queue in (self._waiting, self._postponed):
            if piece in queue:
                del queue[piece]
                piece.fail(WorkCancelled(reason))

    def _dispatch(self) -> None:
        while len(self._running) < self._count and (piece := self._take_next()) is not None:
            self._running[piece] = None
            future = self._executor.submit(piece.function, piece.cancellation)
            future.add_done_callback(functools.partial(self._hand_over, piece))

    def _take_next(self) -> "_Piece[Any] | None":
        """Remove the next piece from its queue; None if none may begin."""
        left = sum(piece.presence.has_left for piece in self._running)
        may_begin_postponed = left < max(1, self._count // 2)
        while self._waiting and not (self._postponed and may_begin_postponed and self._overtaking >= _MAX_OVERTAKING):
            piece = _take_first(self._waiting)
            if not piece.presence.has_left:
                self._overtaking += bool(self._postponed)
                return piece
            self._postponed[piece] = None
        if not self._postponed or not may_begin_postponed:
            return None
        self._overtaking = 0
        return _take_first(self._postponed)

    def _hand_over(self, piece: "_Piece[ResultT]", future: "Future[ResultT]") -> None:
        """Called in the thread, or in the event loop if the function has returned already."""
        piece.loop.call_soon_threadsafe(self._on_done, piece, future)

    def _on_done(self, piece: "_Piece[ResultT]", future: "Future[ResultT]") -> None:
        del self._running[piece]
        piece.finish(future)
        self._dispatch()


class _Piece(Generic[ResultT]):
    """One piece of work, from when it is queued."""

    __slots__ = ("cancellation", "ended", "function", "loop", "presence")

    def __init__(
        self,
        function: Callable[[Cancellation], ResultT],
        presence: ClientPresence,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.function = function
        self.presence = presence
        self.loop = loop
        self.cancellation = Cancellation()
        self.ended: asyncio.Future[ResultT] = loop.create_future()

    def fail(self, error: BaseException) -> None:
        """End with an error, unless the caller was cancelled."""
        if not self.ended.done():
            self.ended.set_exception(error)

    def finish(self, future: "Future[ResultT]") -> None:
        """End with the result of the function, unless the caller was cancelled."""
        if self.ended.done():
            return
        error = future.exception()
        if error is None:
            self.ended.set_result(future.result())
        else:
            self.ended.set_exception(error)


def _take_first(queue: dict[_Piece[Any], None]) -> _Piece[Any]:
    piece = next(iter(queue))
    del queue[piece]
    return piece
