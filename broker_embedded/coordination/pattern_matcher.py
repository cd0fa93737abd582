"""Clients' regular expressions are matched in a thread of their own, so that no expression delays the event loop.

They are compiled on the event loop: google-re2 lets no other thread run meanwhile. `Pattern` bounds how long it takes.
Other tasks of the event loop run between two compilations. The expressions that a group subscribes to are looked up
again and again, and therefore kept compiled.
"""

import asyncio
import functools
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from broker_embedded.coordinator.pattern import Pattern, PatternError
from broker_embedded.timers import Timers
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError

_SLICE_NS: Final = 50_000_000
"""The matcher takes the pending expressions in turn, for so long each, or for one name.

A large expression takes up to 20 ms for the name of a topic, and up to 3 s for a transactional id of 32,767 characters.
"""

MAX_KEPT_BYTES: Final = 64 * 1024 * 1024
"""Upper bound of the memory of kept expressions, all groups together: 512 expressions, or 64 of many names."""


class PatternMatcher:
    """One thread that matches names with regular expressions. Belongs to one event loop."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="broker-pattern")
        self._stopped = False
        self._kept: dict[str, dict[str, Pattern]] = {}
        """By group, the compiled expressions of its last lookup. They take `MAX_KEPT_BYTES` at most."""
        self._kept_bytes = 0

    async def matching(self, expression: str, names: Iterable[str]) -> frozenset[str]:
        """The names that the expression matches as a whole.

        Raises PatternError; KafkaError COORDINATOR_NOT_AVAILABLE: the broker stops.
        """
        return await self._match(await self._compile(expression), names)

    async def matching_each(
        self, group_id: str, expressions: Iterable[str], names: Iterable[str]
    ) -> Mapping[str, frozenset[str]]:
        """By expression the names that it matches as a whole; none if it is malformed or too large.

        Keeps the compiled expressions for the next lookup of the group, in place of those of its last one. A group has
        one lookup at a time. Raises KafkaError COORDINATOR_NOT_AVAILABLE: the broker stops.
        """
        before, compiled, found = self._kept.get(group_id, {}), dict[str, Pattern](), dict[str, frozenset[str]]()
        names = tuple(names)
        for expression in expressions:
            try:
                pattern = before.get(expression) or await self._compile(expression)
            except PatternError:  # written by a broker with another regular expression library
                found[expression] = frozenset()
            else:
                compiled[expression] = pattern
                found[expression] = await self._match(pattern, names)
        self._keep(group_id, compiled)
        return found

    def keeps(self, group_id: str) -> bool:
        """Whether an expression of a group is kept."""
        return group_id in self._kept

    def forget(self, group_id: str) -> None:
        """Keep no expression of a group any more."""
        self._kept_bytes -= sum(pattern.max_bytes for pattern in self._kept.pop(group_id, {}).values())

    @property
    def kept_bytes(self) -> int:
        """Upper bound of the memory that the kept expressions take."""
        return self._kept_bytes

    def stop(self) -> None:
        """Make every pending ``matching`` raise once the name in progress is matched."""
        self._stopped = True
        self._executor.shutdown(wait=False)

    def _keep(self, group_id: str, compiled: Mapping[str, Pattern]) -> None:
        """Keep expressions of a group in place of those of its last lookup, as many as there is memory for."""
        self.forget(group_id)
        kept = dict[str, Pattern]()
        for expression, pattern in compiled.items():
            if self._kept_bytes + pattern.max_bytes <= MAX_KEPT_BYTES:
                self._kept_bytes += pattern.max_bytes
                kept[expression] = pattern
        if kept:
            self._kept[group_id] = kept

    async def _compile(self, expression: str) -> Pattern:
        """Compile an expression, then let other tasks of the event loop run. Raises PatternError, KafkaError."""
        self._check_stopped()
        try:
            return Pattern(expression)
        finally:
            await asyncio.sleep(0)

    async def _match(self, pattern: Pattern, names: Iterable[str]) -> frozenset[str]:
        remaining, found = list(names), set[str]()
        while remaining:
            self._check_stopped()
            part = functools.partial(self._match_some, pattern, remaining, found)
            with self._timers.working():
                await asyncio.get_running_loop().run_in_executor(self._executor, part)
        return frozenset(found)

    def _match_some(self, pattern: Pattern, remaining: list[str], found: set[str]) -> None:
        """Take names off ``remaining`` for a slice of time, one at least; add those that match to ``found``."""
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
