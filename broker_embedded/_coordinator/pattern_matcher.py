"""Matching names with clients' regular expressions in separate threads, so that no expression delays the event loop.

Expressions are compiled on the event loop, because google-re2 holds the interpreter lock anyway. `Pattern` bounds the
time. Other tasks of the event loop run between two compilations. The expressions of groups are matched periodically,
and therefore stay compiled.
"""

import asyncio
import functools
import time
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from broker_embedded._groups.pattern import Pattern, PatternError
from broker_embedded._platform.timers import Timers
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError

_SLICE_NS: Final = 50_000_000
"""A thread matches its pending expressions round-robin, for this time each, at least one name.

A large expression takes up to 20 ms for the name of a topic, and up to 3 s for a transactional id of 32,767 characters.
"""

MAX_KEPT_BYTES: Final = 64 * 1024 * 1024
"""Upper bound of the memory of kept expressions, all groups together: 512 expressions, or 64 of many names."""
_MAX_PENDING: Final = 64
"""Upper bound of the compiled expressions of a thread that are not kept. Further ones wait."""


class _Worker:
    """A thread, and a semaphore that bounds its compiled expressions."""

    def __init__(self, name: str) -> None:
        self.thread = ThreadPoolExecutor(1, thread_name_prefix=f"broker-pattern-{name}")
        self.pending = asyncio.Semaphore(_MAX_PENDING)


class PatternMatcher:
    """Two threads that match names with regular expressions. Belongs to one event loop.

    One is for requests and one for groups' lookups, because the longest transactional ids take seconds each.
    """

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._requests, self._lookups = _Worker("requests"), _Worker("lookups")
        self._stopped = False
        self._kept: dict[str, dict[str, Pattern]] = {}
        """The compiled expressions of each group, `MAX_KEPT_BYTES` at most."""
        self._kept_bytes = 0

    async def matching(self, expression: str, names: Iterable[str]) -> frozenset[str]:
        """The names that the expression matches as a whole.

        Raises PatternError; KafkaError COORDINATOR_NOT_AVAILABLE: the broker stops.
        """
        return await self._match_once(expression, names, None)

    async def matching_each(
        self, group_id: str, expressions: Collection[str], names: Iterable[str]
    ) -> Mapping[str, frozenset[str]]:
        """The names that each expression matches as a whole; none if it is malformed or too large.

        Keeps the compiled expressions within `MAX_KEPT_BYTES`, and drops those of the group's last lookup. A group has
        one lookup at a time. Raises KafkaError COORDINATOR_NOT_AVAILABLE: the broker stops.
        """
        names, found = tuple(names), dict[str, frozenset[str]]()
        self._drop(group_id, self._kept.get(group_id, {}).keys() - set(expressions))
        for expression in expressions:
            kept = self._kept.get(group_id, {}).get(expression)
            try:
                found[expression] = await (
                    self._match_once(expression, names, group_id)
                    if kept is None
                    else self._match(kept, names, self._lookups)
                )
            except PatternError:  # written by a broker with another regular expression library
                found[expression] = frozenset()
        return found

    def keeps(self, group_id: str) -> bool:
        """Whether an expression of a group is kept."""
        return group_id in self._kept

    def forget(self, group_id: str) -> None:
        """Drop the expressions of a group."""
        self._drop(group_id, set(self._kept.get(group_id, {})))

    def stop(self) -> None:
        """Make every pending ``matching`` raise after the present name."""
        self._stopped = True
        for worker in (self._requests, self._lookups):
            worker.thread.shutdown(wait=False)

    def _keep(self, group_id: str, expression: str, pattern: Pattern) -> bool:
        """Keep an expression of a group if it fits into `MAX_KEPT_BYTES`; whether it does."""
        if self._kept_bytes + pattern.max_bytes > MAX_KEPT_BYTES:
            return False
        self._kept_bytes += pattern.max_bytes
        self._kept.setdefault(group_id, {})[expression] = pattern
        return True

    def _drop(self, group_id: str, expressions: Iterable[str]) -> None:
        kept = self._kept.get(group_id, {})
        for expression in expressions:
            self._kept_bytes -= kept.pop(expression).max_bytes
        if not kept:
            self._kept.pop(group_id, None)

    async def _match_once(self, expression: str, names: Iterable[str], group_id: str | None) -> frozenset[str]:
        """Compile an expression, and match names; keep it for the group, if one is given. Raises PatternError."""
        worker = self._requests if group_id is None else self._lookups
        async with worker.pending:
            pattern = await self._compile(expression)
            if group_id is None or not self._keep(group_id, expression, pattern):
                return await self._match(pattern, names, worker)
        return await self._match(pattern, names, worker)

    async def _compile(self, expression: str) -> Pattern:
        """Compile an expression, then let other tasks of the event loop run. Raises PatternError, KafkaError."""
        self._check_stopped()
        try:
            return Pattern(expression)
        finally:
            await asyncio.sleep(0)

    async def _match(self, pattern: Pattern, names: Iterable[str], worker: _Worker) -> frozenset[str]:
        remaining, found = list(names), set[str]()
        while remaining:
            self._check_stopped()
            part = functools.partial(self._match_some, pattern, remaining, found)
            with self._timers.working():
                await asyncio.get_running_loop().run_in_executor(worker.thread, part)
        return frozenset(found)

    def _match_some(self, pattern: Pattern, remaining: list[str], found: set[str]) -> None:
        """Remove names from ``remaining`` for a time slice, at least one, and add matching ones to ``found``."""
        end_ns = time.perf_counter_ns() + _SLICE_NS
        while remaining:
            self._check_stopped()
            name = remaining.pop()
            if pattern.fullmatch(name):
                found.add(name)
            if time.perf_counter_ns() >= end_ns:
                return

    def _check_stopped(self) -> None:
        if self._stopped:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the broker stops")
