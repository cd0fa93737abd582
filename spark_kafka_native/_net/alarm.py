"""Ends a thread's wait for sockets from other threads."""

import contextlib
import socket
from typing import Final

_READ_AT_ONCE: Final = 4096


class Alarm:
    """A descriptor that is readable after ``ring``, until ``clear``. ``ring`` is for any thread and signal handler."""

    def __init__(self) -> None:
        """Raises OSError: the process has no descriptors left."""
        self._receiver, self._sender = socket.socketpair()
        self._receiver.setblocking(False)
        self._sender.setblocking(False)

    def fileno(self) -> int:
        """The descriptor to poll; -1 once closed."""
        return self._receiver.fileno()

    def ring(self) -> None:
        """End the present wait, or the next one. Nothing happens once the alarm is closed."""
        with contextlib.suppress(OSError):  # full: it is readable already
            self._sender.send(b"\0")

    def clear(self) -> None:
        """Let the next wait wait again."""
        with contextlib.suppress(BlockingIOError):
            self._receiver.recv(_READ_AT_ONCE)

    def close(self) -> None:
        """Close the descriptors. No thread may be waiting."""
        self._receiver.close()
        self._sender.close()
