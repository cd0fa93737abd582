"""Cancelling work on records in a thread: the event loop sets a flag, and the thread checks it."""

from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

T = TypeVar("T")


class WorkCancelled(Exception):
    """The work was cancelled before it changed anything; ``str()`` is the reason."""


class Cancellation:
    """Whether one piece of work is cancelled. The event loop sets it, any thread may check it."""

    __slots__ = ("_reason",)

    def __init__(self) -> None:
        self._reason: str | None = None

    def cancel(self, reason: str) -> None:
        """Let the next check raise. A second call does nothing."""
        self._reason = self._reason or reason

    def check(self) -> None:
        """Raise WorkCancelled if the work is cancelled."""
        if self._reason is not None:
            raise WorkCancelled(self._reason)

    def between(self, items: Iterable[T]) -> Iterator[T]:
        """The same items, with a check before each. Raises WorkCancelled."""
        for item in items:
            self.check()
            yield item


NEVER_CANCELLED: Final = Cancellation()
"""For work that is never cancelled."""
