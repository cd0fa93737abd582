"""Servers for tests: their data directory, start and stop, and the process of those that have one."""

import atexit
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Final, Self

from broker_embedded._platform.child_process import ChildProcess

STOP_TIMEOUT_S: Final = 60.0


class RestartableServer(ABC):
    """A server with a data directory that survives restarts. A context manager.

    Its methods may be called from any thread.
    """

    _kind: ClassVar[str]
    """What it is, as errors and the temporary directory name it."""

    def __init__(self, data_dir: str | os.PathLike[str] | None) -> None:
        """Nothing starts yet. ``data_dir`` None is a temporary directory."""
        self._temporary = data_dir is None
        self._data_dir = Path(tempfile.mkdtemp(prefix=f"{self._kind}-")) if data_dir is None else Path(data_dir)
        if self._temporary:
            weakref.finalize(self, _remove_unless_forked, self._data_dir, os.getpid())
        self._pid = os.getpid()
        self._changing = threading.RLock()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:  # also after KeyboardInterrupt the server must be stopped
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start unless it runs, and return when clients can connect. Later starts use the same port.

        Raises RuntimeError: another process, which has forked this one, has created the server.
        """
        self._check_process()
        with self._changing:
            self._start()

    def stop(self) -> None:
        """Stop cleanly. A temporary data directory is removed. A second call does nothing.

        Nor does a call in a process that the one with the server has forked.
        """
        if self._is_forked:
            return
        with self._changing:
            self._stop()
            if self._temporary:
                shutil.rmtree(self._data_dir, ignore_errors=True)

    def restart(self) -> None:
        """Stop cleanly if it runs, then start with the same data and port. Raises as ``start``."""
        self._check_process()
        with self._changing:
            self._stop()
            self.start()

    @abstractmethod
    def kill(self) -> None:
        """Stop at once, as a crash would, without responses, flushes and writes. ``start`` recovers the data.

        Raises RuntimeError: it does not run.
        """

    @property
    def _is_forked(self) -> bool:
        return os.getpid() != self._pid

    def _check_process(self) -> None:
        if self._is_forked:
            raise RuntimeError(
                f"the {self._kind} was created in process {self._pid}, which has forked this one: "
                f"create another {self._kind} here"
            )

    @abstractmethod
    def _start(self) -> None:
        """Start unless it runs. The server is then stopped when the program ends."""

    @abstractmethod
    def _stop(self) -> None:
        """Stop cleanly if it runs."""


def _remove_unless_forked(directory: Path, pid: int) -> None:
    if os.getpid() == pid:
        shutil.rmtree(directory, ignore_errors=True)


class ServerProcess:
    """The process of a server: at most one at a time. It ends with this process, also when this one is killed.

    The caller's lock guards ``start`` and ``end_with``.
    """

    def __init__(self, kind: str) -> None:
        """``kind`` is its name in errors."""
        self._kind = kind
        self._stop: Callable[[], None] | None = None
        self._child: ChildProcess | None = None
        self._last: ChildProcess | None = None
        self.is_stopping = False
        """Also after a stop that was interrupted, until the process has ended."""

    @property
    def is_running(self) -> bool:
        """Whether it was started, and ``end_with`` has not ended it."""
        return self._child is not None

    @property
    def running(self) -> ChildProcess:
        """The process. Raises RuntimeError: it was not started, or ``end_with`` has ended it."""
        if self._child is None:
            raise RuntimeError(f"the {self._kind} does not run")
        return self._child

    def check_not_ended(self) -> None:
        """Raises RuntimeError: it was not started, has ended by itself, or ``end_with`` has ended it."""
        if (status := self.running.status()) is not None:
            raise RuntimeError(f"the {self._kind} does not run: it has ended with status {status}")

    @property
    def output(self) -> str:
        """The log of the present or last process."""
        return "" if self._last is None else self._last.output

    def start(self, command: Sequence[str], stop: Callable[[], None], *, reads_stdout: bool = False) -> ChildProcess:
        """Start it. ``stop`` is called at the end of the program if it runs then. Raises OSError."""
        self._child = self._last = ChildProcess(command, reads_stdout=reads_stdout)
        self._stop = stop
        atexit.register(stop)
        return self._child

    def end_with(self, number: signal.Signals) -> int:
        """Send a signal, also to a paused process, and wait for its end; the exit status.

        Raises RuntimeError: it does not run. TimeoutError: the process had to be killed.
        """
        process = self.running
        self.is_stopping = True
        try:
            process.send_signal(number)
            process.send_signal(signal.SIGCONT)
            return process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            raise TimeoutError(f"the {self._kind} did not stop within {STOP_TIMEOUT_S} s of {number.name}") from None
        finally:
            if process.status() is not None:  # None: interrupted
                self._child = None
                self.is_stopping = False
                if self._stop is not None:
                    atexit.unregister(self._stop)
                    self._stop = None
