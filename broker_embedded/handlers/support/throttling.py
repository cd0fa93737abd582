"""What a request costs its client, in time of the broker and in silence afterwards.

Quotas do not refuse: they answer, say in ``throttle_time_ms`` how long the client should be silent, and take up nothing
more of its connection until then (KIP-219). Releases before 2.0 hold the answer back for as long instead.
"""

import time
from collections.abc import Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any, Final, TypeVar

from broker_embedded.metadata.client_quotas import ClientQuotas
from broker_embedded.platform.timers import Timers
from broker_embedded.quotas.rates import LONGEST_MS

if TYPE_CHECKING:
    from broker_embedded.handlers.support.registry import RequestContext

ResultT = TypeVar("ResultT")

_NS_PER_PERCENT_SECOND: Final = 10_000_000


class Throttle:
    """The present request of one connection. A connection has one request at a time, so that it needs one of these.

    ``wait_ms``: how long the client must be silent after the answer. ``is_charged``: request_percentage has been
    looked at.
    """

    __slots__ = ("_resumed_ns", "_spent_ns", "is_charged", "wait_ms")

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """A request is taken up."""
        self.wait_ms = 0
        self.is_charged = False
        self._spent_ns = 0
        self._resumed_ns = time.perf_counter_ns()

    def at_least(self, wait_ms: int) -> None:
        """Throttle the client for ``wait_ms``, unless it is throttled for longer already; at most for `LONGEST_MS`."""
        self.wait_ms = max(self.wait_ms, min(wait_ms, LONGEST_MS))

    @property
    def spent_ns(self) -> int:
        """How long the broker has worked on the request; waiting is no work."""
        return self._spent_ns + time.perf_counter_ns() - self._resumed_ns

    async def measured(self, work: Awaitable[ResultT]) -> ResultT:
        """Do the work, without counting the time in which it waits."""
        result: ResultT = await _Measured(work, self._pause, self._resume)
        return result

    def _pause(self) -> None:
        self._spent_ns = self.spent_ns

    def _resume(self) -> None:
        self._resumed_ns = time.perf_counter_ns()


class _Measured:
    """An awaitable around another that tells when it waits and when it goes on."""

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
            except BaseException as error:  # a cancellation: the work must hear of it
                thrown = error
            self._resume()


class MutationCharge:
    """What one request may change, by its client's controller_mutation_rate (KIP-599)."""

    def __init__(self, context: "RequestContext", quotas: ClientQuotas, timers: Timers, *, strict_since: int) -> None:
        """From version ``strict_since`` on clients understand that they are refused; before, they are slowed down."""
        self._throttle = context.throttle
        self._timers = timers
        self._mutations = quotas.mutations.of(
            context.user, context.client_id, strict=context.version >= strict_since, now_ms=timers.elapsed_ms()
        )

    def take(self, partitions: int) -> None:
        """Count partitions that are about to be made or deleted. Raises KafkaError THROTTLING_QUOTA_EXCEEDED."""
        now_ms = self._timers.elapsed_ms()
        try:
            self._mutations.take(partitions, now_ms)
        finally:
            self._throttle.at_least(self._mutations.throttle_ms(now_ms))


def charge_silently(context: "RequestContext", quotas: ClientQuotas, timers: Timers, partitions: int) -> None:
    """Count partitions that are about to be made for a client that did not ask for it, and need not hear of it.

    Raises KafkaError THROTTLING_QUOTA_EXCEEDED.
    """
    now_ms = timers.elapsed_ms()
    mutations = quotas.mutations.of(context.user, context.client_id, strict=True, now_ms=now_ms)
    mutations.take(partitions, now_ms)


def charge_time(context: "RequestContext", quotas: ClientQuotas, timers: Timers) -> int:
    """Count the time that the request has taken against its client's request_percentage, once; the silence it costs."""
    throttle, quota = context.throttle, quotas.request
    if quota.enabled and not throttle.is_charged:
        throttle.is_charged = True
        percents = throttle.spent_ns / _NS_PER_PERCENT_SECOND
        throttle.at_least(quota.record(context.user, context.client_id, percents, timers.elapsed_ms()))
    return throttle.wait_ms
