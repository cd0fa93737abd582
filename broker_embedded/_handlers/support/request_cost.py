"""The request time and the throttle time of a request.

A client over its quota gets ``throttle_time_ms`` in the response, and the broker mutes its connection for that time
(KIP-219). Releases before 2.0 delay the response instead.
"""

import time
from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeVar

from broker_embedded._quotas.rates import LONGEST_MS

ResultT = TypeVar("ResultT")


class RequestCost:
    """The cost of the present request of a connection, which has one request at a time.

    ``wait_ms``: the throttle time after the response. ``is_charged``: the request was charged to request_percentage.
    """

    __slots__ = ("_resumed_ns", "_spent_ns", "is_charged", "wait_ms")

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Start a request."""
        self.wait_ms = 0
        self.is_charged = False
        self._spent_ns = 0
        self._resumed_ns = time.perf_counter_ns()

    def throttle(self, wait_ms: int) -> None:
        """Throttle the client for ``wait_ms``, unless it is throttled for longer already; at most for `LONGEST_MS`."""
        self.wait_ms = max(self.wait_ms, min(wait_ms, LONGEST_MS))

    @property
    def spent_ns(self) -> int:
        """The time that the broker has worked on the request, without waits."""
        return self._spent_ns + time.perf_counter_ns() - self._resumed_ns

    async def measured(self, work: Awaitable[ResultT]) -> ResultT:
        """Await ``work`` without counting the time in which it waits."""
        result: ResultT = await _Measured(work, self._pause, self._resume)
        return result

    def _pause(self) -> None:
        self._spent_ns = self.spent_ns

    def _resume(self) -> None:
        self._resumed_ns = time.perf_counter_ns()


class _Measured:
    """An awaitable that calls ``pause`` when the wrapped one waits and ``resume`` when it continues."""

    def __init__(self, work: Awaitable[Any], pause: Callable[[], None], resume: Callable[[], None]) -> None:
        self._work = work
        self._pause = pause
        self._resume = resume

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = self._work.__await__()
        thrown: BaseException | None = None
        while True:
            try:
                waiting_for = next(steps) if thrown is None else steps.throw(thrown)
            except StopIteration as end:
                return end.value
            self._pause()
            try:
                yield waiting_for
                thrown = None
            except BaseException as error:  # a cancellation must be raised in the work
                thrown = error
            self._resume()
