"""Waits of a member's thread, which other threads end."""

import select
from typing import Final

from spark_kafka_native._net.alarm import Alarm

_LONGEST_MS: Final = 60_000


class Interrupted(Exception):
    """The member is to leave its group."""


class MemberWaits:
    """``wake`` and ``stop`` are for other threads."""

    def __init__(self) -> None:
        self.alarm = Alarm()
        self._is_stopped = self._is_resumed = False

    @property
    def is_stopping(self) -> bool:
        """Whether the member is to leave its group, and has not begun to."""
        return self._is_stopped and not self._is_resumed

    def wake(self) -> None:
        """End a ``pause``."""
        self.alarm.ring()

    def stop(self) -> None:
        """Let each wait raise Interrupted from now on, until ``resume``. A handler of a signal may call it."""
        self._is_stopped = True
        self.wake()

    def resume(self) -> None:
        """Wait again, for the last requests of a member that leaves."""
        self._is_resumed = True

    def check(self) -> None:
        """Raise Interrupted if the member is to leave its group."""
        if self.is_stopping:
            raise Interrupted

    def pause(self, duration_ms: float) -> None:
        """Wait so long, ``math.inf`` included, or until ``wake``; a minute at most. Raises Interrupted."""
        self.check()
        poll = select.poll()
        poll.register(self.alarm, select.POLLIN)
        poll.poll(min(max(duration_ms, 0), _LONGEST_MS))
        self.alarm.clear()
        self.check()

    def close(self) -> None:
        """Close the descriptors, after the member's thread has ended."""
        self.alarm.close()
