"""Polling, with a deadline, for what a server does after its response.

A condition that is more than equality is an object of the package dirty-equals, so that every failure shows what was
expected and what was read last: ``eventually(lambda: broker.requests("Fetch"), HasLen(2, ...))``.
"""

import asyncio
import time
import traceback
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")

WITHIN_S: Final = 30.0
_PAUSE_S: Final = 0.02
_MAX_CHARACTERS: Final = 4000
"""Of each value in an error message."""


def eventually(
    read: Callable[[], T], expected: object, *, within_s: float = WITHIN_S, retrying: tuple[type[Exception], ...] = ()
) -> T:
    """Poll until ``read()`` equals ``expected``; the value that did. Raises AssertionError after ``within_s`` seconds.

    An exception of ``read`` ends the wait, unless its class is among ``retrying``.
    """
    __tracebackhide__ = True
    polling = _Polling(read, expected, within_s, retrying)
    while not polling.is_met():
        time.sleep(_PAUSE_S)
    return polling.value


async def eventually_async(
    read: Callable[[], T], expected: object, *, within_s: float = WITHIN_S, retrying: tuple[type[Exception], ...] = ()
) -> T:
    """As `eventually`, on an event loop: one poll in each of its iterations, so that no timer is needed."""
    __tracebackhide__ = True
    polling = _Polling(read, expected, within_s, retrying)
    while not polling.is_met():
        await asyncio.sleep(0)
    return polling.value


def last_of(read: Callable[[], T], until: Callable[[T], bool], *, within_s: float = WITHIN_S) -> T:
    """Poll until ``until`` is true of ``read()``; that value, or after ``within_s`` seconds the last one.

    For a value that the caller compares with that of another server, whatever it is.
    """
    deadline = time.monotonic() + within_s
    while not until(value := read()) and time.monotonic() < deadline:
        time.sleep(_PAUSE_S)
    return value


class _Polling(Generic[T]):
    """One wait of a test: the value that is expected, and the value or the exception that was read last."""

    value: T

    def __init__(
        self, read: Callable[[], T], expected: object, within_s: float, retrying: tuple[type[Exception], ...]
    ) -> None:
        self._read, self._expected, self._within_s, self._retrying = read, expected, within_s, retrying
        self._deadline = time.monotonic() + within_s

    def is_met(self) -> bool:
        """Read once. Raises AssertionError when the deadline has passed and the value is not the expected one."""
        __tracebackhide__ = True
        is_late = time.monotonic() > self._deadline  # before reading: a slow read is not the last one
        try:
            found: Any = self._read()
        except self._retrying as error:
            found = error
        else:
            if found == self._expected:
                self.value = found
                return True
        if is_late:
            raise AssertionError(self._failure(found))
        return False

    def _failure(self, found: object) -> str:
        caller = traceback.extract_stack(limit=4)[0]
        return (
            f"not within {self._within_s:g} s: {caller.line}\n"
            f"expected: {_shown(self._expected)}\n"
            f"    last: {_shown(found)}"
        )


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}... ({len(text)} characters)"
