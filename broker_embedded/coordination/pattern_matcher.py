"""Clients' regular expressions are matched in a thread of their own, so that no expression delays the event loop."""

import asyncio
import functools
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from broker_embedded.coordinator.pattern import Pattern
from broker_embedded.timers import Timers
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError

_NAMES_AT_ONCE: Final = 256
"""The matcher takes the pending expressions in turn, this many names of each."""


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
            part = functools.partial(self._matching, pattern, remaining[-_NAMES_AT_ONCE:])
            del remaining[-_NAMES_AT_ONCE:]
            with self._timers.working():
                found.update(await asyncio.get_running_loop().run_in_executor(self._executor, part))
        return frozenset(found)

    def stop(self) -> None:
        """Make every ``matching`` fail soon, after the name that is being matched."""
        self._stopped = True
        self._executor.shutdown(wait=False)

    def _matching(self, pattern: Pattern, names: list[str]) -> list[str]:
        found = []
        for name in names:
            self._check_stopped()
            if pattern.fullmatch(name):
                found.append(name)
        return found

    def _check_stopped(self) -> None:
        if self._stopped:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the broker stops")
