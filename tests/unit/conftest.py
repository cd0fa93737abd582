"""Unit tests use no network, start no process and wait for no clock.

A test that does is refused; it belongs to `tests/system`.
"""

import sys
import threading
from collections.abc import Iterator
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
        "time.sleep",
    }
)
"""Audit events of what leads out of a test's process and time. (Sockets as such are not: event loops have a pair.)"""


class Guard:
    """Refuses what is outside, on the thread of a unit test while it runs. Servers of other tests go on beside it."""

    def __init__(self) -> None:
        self.test_thread: int | None = None

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in OUTSIDE and threading.get_ident() == self.test_thread:
            raise AssertionError(f"{event}{arguments!r:.100} in a unit test: it belongs to tests/system")


GUARD = Guard()
sys.addaudithook(GUARD)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    GUARD.test_thread = threading.get_ident() if UNIT in item.path.parents else None
    try:
        return (yield)
    finally:
        GUARD.test_thread = None
