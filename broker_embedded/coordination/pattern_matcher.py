"""Clients' regular expressions are matched in a thread of their own, so that no expression delays the event loop.

They are compiled on the event loop: google-re2 lets no other thread run meanwhile. `Pattern` bounds how long it takes.
"""

import asyncio
import functools
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from broker_embedded.coordinator.pattern import Pattern
from broker_embedded.timers import Timers
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError

_SLICE_NS: Final = 50_000_000
"""The matcher takes the pending expressions in turn, for so long each, or for one name.

A large expression takes up to 20 ms for the name of a topic, and up to 3 s for a transactional id of 32,767 characters.
"""


class PatternMatcher:
    """One thread that matches names with regular expressions. Belongs to one event loop."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="broker-pattern")
        self._stopped = False

    async def matching(self, expression: str, names: Iterable[str]) -> frozenset[str]:
        """The names that the expression matches as a whole.

        Raises PatternError; KafkaError COORDINATOR_NOT_AVAILABLE: the broker stops.
        """
        pattern, remaining, found = Pattern(expression), list(names), set[str]()
        while remaining:
            self._check_stopped()
            part = functools.partial(self._match_some, pattern, remaining, found)
            with self._timers.working():
                await asyncio.get_running_loop().run_in_executor(self._executor, part)
        return frozenset(found)

    def stop(self) -> None:
        """Make every pending ``matching`` raise once the name in progress is matched."""
        self._stopped = True
        self._executor.shutdown(wait=False)

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
