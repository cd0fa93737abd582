"""The broker's side of the worker: its start, one request at a time, and its end."""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from http import HTTPStatus
from typing import IO, Final

from broker_embedded._server.status.query import StatusError
from broker_embedded._server.status.worker_protocol import OUT_OF_MEMORY, READY, SIZE

CPU_S: Final = 5.0
"""Processor time of one request, after which the kernel ends the worker."""
MEMORY_BYTES: Final = 1024 * 1024 * 1024
_MAX_RESPONSE_BYTES: Final = 64 * 1024 * 1024
_READ_BYTES: Final = 1024 * 1024
_STEP_MS: Final = 200
_MODULE: Final = "broker_embedded._server.status.worker"
_FROM_OUTSIDE: Final = {0, -signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP}


class WorkerFailed(Exception):
    """The worker cannot answer a request; ``str()`` says why."""


class WorkerLost(Exception):
    """A signal ended the worker, perhaps the OOM killer's. The request is sent once more to a new one."""


class WorkerLate(Exception):
    """The worker has not started or not answered by the deadline."""


class _Ended(Exception):
    """The other end of a pipe is closed."""


class WorkerProcess:
    """One worker. Belongs to one thread, apart from ``kill``."""

    def __init__(self) -> None:
        """Start it. Raises StatusError."""
        if getattr(sys, "frozen", False):
            raise _unavailable("a frozen application cannot start it")
        folders = []
        for folder in sys.path:
            with contextlib.suppress(OSError, TypeError):  # the working directory is deleted; no path
                folders.append(os.path.abspath(os.fsdecode(folder)))
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", _MODULE, str(CPU_S), str(MEMORY_BYTES)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)},
                process_group=0,
            )
        except (OSError, TypeError, ValueError) as error:
            raise _unavailable(str(error)) from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        for pipe in (self._stdin, self._stdout):
            os.set_blocking(pipe.fileno(), False)
        self._killed = False

    def wait_until_ready(self, deadline: float) -> None:
        """Wait for the end of its imports. ``deadline`` is of ``time.monotonic``. Raises WorkerLate, StatusError."""
        try:
            printed = self._receive(len(READY), deadline)
        except _Ended:
            raise _unavailable(f"it ended with status {self._status()}") from None
        if printed != READY:
            raise _unavailable(f"it printed {bytes(printed)!r}")

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended."""
        return self._process.poll() is not None

    def ask(self, request: bytes, stored: bytes, deadline: float) -> bytes:
        """Send a request and its batches; the response. Raises WorkerFailed, WorkerLost, WorkerLate.

        After an exception the worker must be closed.
        """
        try:
            for sized in (request, stored):
                self._send(SIZE.pack(len(sized)), deadline)
                self._send(sized, deadline)
            (size,) = SIZE.unpack(self._receive(SIZE.size, deadline))
            if not 0 < size <= _MAX_RESPONSE_BYTES:
                raise WorkerFailed(f"its process sent a response of {size} bytes")
            return bytes(self._receive(size, deadline))
        except _Ended:
            status = self._status()
        if status in _FROM_OUTSIDE:
            raise WorkerLost(f"its process ended with status {status}")
        if status == -signal.SIGPROF:
            raise WorkerFailed(f"it cannot be read within {CPU_S:g} s of processor time")
        if status == OUT_OF_MEMORY:
            raise WorkerFailed(f"it cannot be read within {MEMORY_BYTES // 2**20} MiB of memory")
        raise WorkerFailed(f"its process failed with status {status}")

    def kill(self) -> None:
        """End the process, and the request in progress. Safe to call from any thread."""
        self._killed = True
        self._process.kill()

    def close(self) -> None:
        """End the process, and wait for its end."""
        self.kill()
        for pipe in (self._stdin, self._stdout):
            with contextlib.suppress(OSError):
                pipe.close()
        self._process.wait()

    def _send(self, data: bytes, deadline: float) -> None:
        view = memoryview(data)
        while view:
            self._wait_for(self._stdin, select.POLLOUT, deadline)
            try:
                view = view[os.write(self._stdin.fileno(), view) :]
            except BrokenPipeError:
                raise _Ended from None

    def _receive(self, size: int, deadline: float) -> bytearray:
        data = bytearray()
        while len(data) < size:
            self._wait_for(self._stdout, select.POLLIN, deadline)
            piece = os.read(self._stdout.fileno(), min(size - len(data), _READ_BYTES))
            if not piece:
                raise _Ended
            data += piece
        return data

    def _wait_for(self, pipe: IO[bytes], event: int, deadline: float) -> None:
        """Wait in steps: another program of this process may have inherited the pipe, which then stays open."""
        poller = select.poll()
        poller.register(pipe, event)
        while not poller.poll(_STEP_MS):
            if self._killed or self.has_ended:
                raise _Ended
            if time.monotonic() >= deadline:
                raise WorkerLate

    def _status(self) -> int:
        """The exit status of a process whose pipe is closed."""
        try:
            return self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


def _unavailable(reason: str) -> StatusError:
    problem = f"the process that reads records does not start: {reason}"
    return StatusError(HTTPStatus.SERVICE_UNAVAILABLE, problem)
