"""``-daemon`` of the scripts that start servers: the same command in a process and session of its own.

The server inherits the write end of a pipe and writes a byte when it serves clients. The end of the pipe without that
byte means that the server closed the pipe, in most cases because its process ended.
"""

import io
import os
import selectors
import stat
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from broker_embedded._tools.server_stop import HOME_VARIABLE
from spark_kafka_native._command_line.output import FAILED, complain, say
from spark_kafka_native._command_line.parameters import Decorator, flag

_OPTION: Final = "-daemon"
_PIPE_VARIABLE: Final = "SPARK_KAFKA_NATIVE_STARTED_PIPE"
"""Holds ``DESCRIPTOR:INODE`` of the pipe, so that a server recognizes a value that is not for it."""
_STARTED: Final = b"1"
_START_TIMEOUT_S: Final = 60.0
_LONGEST_TAIL_BYTES: Final = 65_536


def daemon_flag(output_name: str) -> Decorator:
    """The option ``-daemon``. ``output_name`` is the file that the server's output goes to."""
    text = f"run in the background; the output is in {output_name} in LOG_DIR, by default KAFKA_HOME/logs"
    return flag(_OPTION, help=text)


def start_in_background(tool: str, arguments: Sequence[str], output_name: str) -> int:
    """Start a tool without ``-daemon`` in the background; the exit status.

    0: the server serves clients, or it is still starting after 60 seconds. Otherwise the server has ended, and the
    status is its own. Raises OSError: its output cannot be written.
    """
    folder = Path(os.environ.get("LOG_DIR") or Path(os.environ.get(HOME_VARIABLE) or ".", "logs"))
    folder.mkdir(parents=True, exist_ok=True)
    path = (folder / output_name).resolve()
    with _appending(path) as output:
        begin = output.seek(0, os.SEEK_END)
        process, started = _start([sys.executable, "-m", "broker_embedded.tools", tool, *arguments], output)
        if started is None:
            complain(f"{tool}: process {process.pid} is still starting after {_START_TIMEOUT_S:g} s; see {path}")
            return 0
        if started:
            say(f"{tool}: process {process.pid} runs in the background; its output is in {path}")
            return 0
        status = process.returncode
        complain(_last_line(output, begin) or f"{tool}: ended with status {status}")
        complain(f"{tool}: the server has not started; its output is in {path}")
    return status if status > 0 else FAILED


def report_started() -> None:
    """Tell the process that started this one in the background, if one did, that the server serves clients.

    A value of the variable that names no pipe, or another one, was set by another process. It is ignored.
    """
    descriptor, _, inode = os.environ.pop(_PIPE_VARIABLE, "").partition(":")
    with suppress(OSError, ValueError, OverflowError):
        found = os.fstat(int(descriptor))
        if stat.S_ISFIFO(found.st_mode) and str(found.st_ino) == inode:
            # The other process may have given up waiting: then the pipe is broken.
            with os.fdopen(int(descriptor), "wb", buffering=0) as pipe:
                pipe.write(_STARTED)


def _appending(path: Path) -> IO[bytes]:
    """A file to append to and to read the last line from. Raises OSError naming the file."""
    try:
        return path.open("a+b")
    except io.UnsupportedOperation as error:
        raise OSError(f"{path} is not a regular file") from error


def _start(command: Sequence[str], output: IO[bytes]) -> tuple[subprocess.Popen[bytes], bool | None]:
    """Start a process; whether it has reported that it serves clients. False: it has ended. None: neither yet."""
    deadline_s = time.monotonic() + _START_TIMEOUT_S
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb", buffering=0) as reports:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(writer,),
                env={**os.environ, _PIPE_VARIABLE: f"{writer}:{os.fstat(writer).st_ino}"},
            )
        finally:
            os.close(writer)
        with selectors.DefaultSelector() as selector:
            selector.register(reports, selectors.EVENT_READ)
            if not selector.select(_START_TIMEOUT_S):
                return process, None
        if reports.read(1) == _STARTED:
            return process, True
    try:
        process.wait(deadline_s - time.monotonic())
    except subprocess.TimeoutExpired:
        return process, None
    return process, False


def _last_line(output: IO[bytes], begin: int) -> str:
    """The last line that has been written to a file since the position ``begin``."""
    end = output.seek(0, os.SEEK_END)
    output.seek(max(begin, end - _LONGEST_TAIL_BYTES))
    lines = output.read().decode(errors="replace").splitlines()
    return next((line for line in reversed(lines) if line.strip()), "")
