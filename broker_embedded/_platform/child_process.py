"""A child process that ends with this one, also when this one is killed.

Two shells are children of this process. Each reads from a pipe:

1. The watcher reads the program's process id, and then waits for a line on its pipe, the lifeline. Only this process
   has the lifeline's write end. If the lifeline ends without a line, this process has ended, and the watcher sends
   SIGKILL to the program.
2. The program's shell waits for a line on the second pipe, the gate, and then replaces itself by the program. The
   watcher writes the line when it has the process id. If the gate ends without a line, the shell exits.

So the program never runs without its watcher, and a kill of this process at any moment of the start leaves neither.
When the program has ended, this process writes the line to the lifeline and waits for the watcher's end. It is the
watcher's parent because process 1 may not wait for orphans, as in a container without an init: they stay as zombies.
"""

import os
import subprocess
import tempfile
import weakref
from collections.abc import Sequence
from contextlib import suppress
from io import FileIO
from typing import IO, Final

_WATCHER: Final = """\
trap "" HUP INT QUIT TERM TSTP
read -r pid || exit
echo
read -r line || kill -9 "$pid"
"""
_PROGRAM: Final = """\
read -r _gate || exit
exec "$@" </dev/null
"""
_LINE: Final = b"\n"


class ChildProcess:
    """A running program. Its stdout and stderr are kept in a temporary file, unless it is started otherwise."""

    def __init__(self, command: Sequence[str], *, reads_stdout: bool = False, inherits_output: bool = False) -> None:
        """Start it. ``reads_stdout`` makes ``stdout`` a pipe. With ``inherits_output`` it writes where this one does.

        Raises OSError: a shell cannot be started.
        """
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # open for as long as the process runs
        self._last_output = b""
        lifeline_reader, self._lifeline = _pipe()
        gate_reader, gate = _pipe()
        started: list[subprocess.Popen[bytes]] = []
        try:
            with lifeline_reader, gate_reader, gate:
                started.append(
                    subprocess.Popen(
                        ["/bin/sh", "-c", _WATCHER, "sh", *command],  # the command is for readers of ps
                        stdin=lifeline_reader,
                        stdout=gate,
                        stderr=subprocess.DEVNULL,
                    )
                )
                started.append(
                    subprocess.Popen(
                        ["/bin/sh", "-c", _PROGRAM, "sh", *command],
                        stdin=gate_reader,
                        stdout=subprocess.PIPE if reads_stdout else None if inherits_output else self._log,
                        stderr=None if inherits_output else self._log,
                    )
                )
                self._watcher, self._process = started
                self._lifeline.write(b"%d\n" % self.pid)
        except BaseException:  # an interrupt may come before Popen returns: then the ends of the pipes end the process
            self._lifeline.close()
            for process in started:
                with process:
                    process.kill()
            self._log.close()
            raise

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
        if self.status() is None:
            self._process.send_signal(number)
            self.status()  # Popen.send_signal may have waited for a program that has just ended

    def wait(self, timeout_s: float | None = None) -> int:
        """Wait for the end of the program; the exit status. Raises `subprocess.TimeoutExpired`."""
        status = self._process.wait(timeout_s)
        self._release()
        return status

    def wait_until_stopped(self) -> None:
        """Wait until SIGSTOP has stopped the program, or it has ended. Without effect on a system that cannot wait."""
        if self.status() is None and hasattr(os, "waitid"):
            os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def _release(self) -> None:
        """End the watcher, and close the files. The program has ended."""
        _ = self.output
        # Closed: by a signal handler's call during this one, or in a forked process, whose child the watcher is not.
        if not self._lifeline.closed:
            with suppress(BrokenPipeError, ValueError):  # the watcher was killed, or a handler has closed the pipe
                self._lifeline.write(_LINE)
            self._lifeline.close()
            self._watcher.wait()
        self._log.close()
        if self._process.stdout is not None:
            self._process.stdout.close()


_ends_of_pipes: Final[weakref.WeakSet[FileIO]] = weakref.WeakSet()


def _pipe() -> tuple[FileIO, FileIO]:
    """A pipe's read end and write end. Forked processes close them: a copy would keep the program alive."""
    reader, writer = os.pipe()
    ends = FileIO(reader, "rb"), FileIO(writer, "wb")
    _ends_of_pipes.update(ends)
    return ends


def _after_fork_in_child() -> None:
    for end in list(_ends_of_pipes):
        end.close()


os.register_at_fork(after_in_child=_after_fork_in_child)
