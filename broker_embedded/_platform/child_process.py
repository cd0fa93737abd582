"""A child process that ends with this one, also when this one is killed.

A shell starts it: it forks a watcher, a second shell that waits for a line on a pipe, and then replaces itself by the
program. This process has the only write end of the pipe, and writes the line when the program has ended. If the pipe
ends without a line, this process has ended, and the watcher sends SIGKILL to the program.
"""

import os
import subprocess
import tempfile
import weakref
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, Final

_SCRIPT: Final = """\
exec 3<&0 </dev/null
(trap "" HUP INT TERM; read -r line || kill -9 $$) <&3 3<&- >/dev/null 2>&1 &
exec "$@" 3<&-
"""
_LINE: Final = b"\n"


class ChildProcess:
    """A running program. Its stdout and stderr are kept in a temporary file, unless it is started otherwise."""

    def __init__(self, command: Sequence[str], *, reads_stdout: bool = False, inherits_output: bool = False) -> None:
        """Start it. ``reads_stdout`` makes ``stdout`` a pipe. With ``inherits_output`` it writes where this one does.

        Raises OSError: there is no shell.
        """
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # open for as long as the process runs
        self._last_output = b""
        reader, writer = os.pipe()
        self._lifeline = os.fdopen(writer, "wb", buffering=0)
        _running.add(self)
        try:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT, "sh", *command],
                stdin=reader,
                stdout=subprocess.PIPE if reads_stdout else None if inherits_output else self._log,
                stderr=None if inherits_output else self._log,
            )
        except BaseException:  # an interrupt may come when the process runs already: the watcher ends it
            self._lifeline.close()
            self._log.close()
            raise
        finally:
            os.close(reader)

    @property
    def pid(self) -> int:
        """The process id of the program."""
        return self._process.pid

    @property
    def stdout(self) -> IO[bytes]:
        """The pipe of ``reads_stdout``."""
        assert self._process.stdout is not None
        return self._process.stdout

    @property
    def output(self) -> str:
        """The kept output up to now, also after the end."""
        if not self._log.closed:
            # Not with seek and read, because the process writes at the position of this descriptor.
            self._last_output = os.pread(self._log.fileno(), os.fstat(self._log.fileno()).st_size, 0)
        return self._last_output.decode(errors="replace")

    def status(self) -> int | None:
        """The exit status, as `subprocess.Popen.returncode`; None while the program runs."""
        if self._process.poll() is not None:
            self._release()
        return self._process.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the program has ended."""
        self._process.send_signal(number)

    def wait(self, timeout_s: float | None = None) -> int:
        """Wait for the end of the program; the exit status. Raises `subprocess.TimeoutExpired`."""
        status = self._process.wait(timeout_s)
        self._release()
        return status

    def wait_until_stopped(self) -> None:
        """Wait until SIGSTOP has stopped the program, or it has ended. Without effect on a system that cannot wait."""
        if hasattr(os, "waitid"):
            os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def _release(self) -> None:
        """End the watcher, and close the files. The program has ended."""
        _ = self.output
        with suppress(BrokenPipeError):  # the watcher was killed
            if not self._lifeline.closed:
                self._lifeline.write(_LINE)
        self._lifeline.close()
        self._log.close()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _close_copy(self) -> None:
        """Close the write end that a forked process has inherited: it must not keep the program alive."""
        self._lifeline.close()


_running: Final[weakref.WeakSet[ChildProcess]] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for child in list(_running):
        child._close_copy()  # noqa: SLF001  # of this module


os.register_at_fork(after_in_child=_after_fork_in_child)
