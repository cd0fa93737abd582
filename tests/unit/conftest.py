"""Unit tests use no network, start no process and wait for no clock.

A test that does is refused; it belongs to `tests/system`.
"""

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

UNIT = Path(__file__).parent
OUTSIDE = frozenset(
    {
        "os.exec",
        "os.fork",
        "os.forkpty",
        "os.posix_spawn",
        "os.system",
        "socket.bind",
        "socket.connect",
        "socket.sendto",
        "subprocess.Popen",
    }
)
"""Audit events of what leads out of a test's process and time. (Sockets as such are not: event loops have a pair.)"""


class Guard:
    """Refuses what is outside, on the thread of a unit test while it runs. Servers of other tests may run meanwhile."""

    def __init__(self) -> None:
        self.test_thread: int | None = None
        self.fired: list[str] = []
        """Timers of event loops that a unit test has waited for."""

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in OUTSIDE and threading.get_ident() == self.test_thread:
            raise AssertionError(f"{event}{arguments!r:.100} in a unit test: it belongs to tests/system")

    def watched(self, callback: Callable[..., object]) -> Callable[..., object]:
        """The callback of a timer; it is noted when the timer fires. A deadline that does not pass is cancelled."""

        def fire(*arguments: object) -> None:
            self.fired.append(f"{callback!r:.200}")
            callback(*arguments)

        return fire if threading.get_ident() == self.test_thread else callback


GUARD = Guard()
sys.addaudithook(GUARD)
CALL_AT = asyncio.BaseEventLoop.call_at


def call_at(
    loop: asyncio.BaseEventLoop, when: float, callback: Callable[..., object], *arguments: Any, **how: Any
) -> asyncio.TimerHandle:
    """In place of every event loop's; timers without a delay are as good as `call_soon`."""
    return CALL_AT(loop, when, GUARD.watched(callback) if when > loop.time() else callback, *arguments, **how)


asyncio.BaseEventLoop.call_at = call_at  # type: ignore[assignment,method-assign]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    GUARD.test_thread = threading.get_ident() if UNIT in item.path.parents else None
    try:
        return (yield)
    finally:
        GUARD.test_thread = None


@pytest.fixture(autouse=True)
def _no_real_timer() -> Iterator[None]:
    GUARD.fired.clear()
    yield
    assert GUARD.fired == [], "a unit test waited for a timer of its event loop: it belongs to tests/system"
