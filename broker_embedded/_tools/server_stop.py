"""``kafka-server-stop.sh``: stop the brokers that scripts of this KAFKA_HOME have started, and no other process.

A server that a script of the home has started keeps a lock on its file ``run/kafka-server.NODE_ID.PID``. The system
releases the lock when the process ends. So the process that holds the lock is a server of this home, whatever its
command line is. A file without a lock was left by a server that was killed.

Several hosts or containers may share a home. Process ids of one mean other processes in another, so a server is stopped
only if the holder of its lock is here the process that its file names.
"""

import fcntl
import logging
import os
import signal
import struct
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Final

import click

from spark_kafka_native._command_line.output import FAILED, complain, say
from spark_kafka_native._command_line.parameters import INT32, option
from spark_kafka_native._tools.options import command

logger = logging.getLogger(__name__)

HOME_VARIABLE: Final = "SPARK_KAFKA_NATIVE_HOME"
"""The environment variable in which the scripts name their KAFKA_HOME."""
_FOLDER: Final = "run"
_TRIES: Final = 10
"""How often in a row stop scripts may remove the file of a server that is starting."""
_FLOCK: Final = (
    ("qqihh", ("start", "len", "pid", "type", "whence"))
    if sys.platform == "darwin"
    else ("hhqqi0q", ("type", "whence", "start", "len", "pid"))
)
"""``struct flock`` of 64-bit systems: its layout, padded as C does, and its fields."""


@command("kafka-server-stop", "Stop the brokers that scripts of this KAFKA_HOME have started.")
@option("--node-id", type=INT32, metavar="ID", help="node.id of the broker to stop; by default all")
@option(
    "--process-role",
    type=click.Choice(["broker", "controller"]),
    expose_value=False,
    help="accepted without effect: a broker has both roles",
)
def server_stop(node_id: int | None) -> int:
    """Send SIGTERM. Fails if no broker of this KAFKA_HOME runs."""
    return stop_servers(f"kafka-server.{'*' if node_id is None else node_id}", "kafka server")


def stop_servers(pattern: str, what: str) -> int:
    """Stop the servers with names of a glob pattern; the exit status. ``what`` is their name in the output.

    Raises OSError: a file or a process is another user's.
    """
    pids, elsewhere = _stop(pattern)
    for pid in pids:
        say(f"Stopping {what} {pid}")
    for path in elsewhere:
        complain(
            f"A {what} holds {path}, but not as process {_pid(path)} of this machine. It runs on another host or in "
            "another container: stop it there"
        )
    if not pids and not elsewhere:
        complain(f"No {what} to stop")
    return 0 if pids and not elsewhere else FAILED


@contextmanager
def registered(name: str) -> Iterator[None]:
    """Let ``kafka-server-stop.sh`` find this process as a server of the KAFKA_HOME whose script has started it.

    ``name`` is ``kafka-server`` and the node id, or ``zookeeper``.
    """
    home = os.environ.get(HOME_VARIABLE)
    if not home:
        yield
        return
    path = Path(home, _FOLDER, f"{name}.{os.getpid()}")
    with ExitStack() as stack:
        try:
            path.parent.mkdir(exist_ok=True)
            stack.callback(path.unlink, missing_ok=True)
            for _ in range(_TRIES):
                file = stack.enter_context(path.open("w"))
                fcntl.lockf(file, fcntl.LOCK_EX)
                if _has_name(file, path):
                    break
            else:
                raise OSError(f"{path} was removed {_TRIES} times before it was locked")
        except OSError as error:
            logger.warning("no script of %s can stop this server: %s", home, error)
        yield


def _has_name(file: IO[str], path: Path) -> bool:
    """Whether an open file has this name still: a stop script may have removed it before it was locked."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _stop(pattern: str) -> tuple[list[int], list[Path]]:
    """Send SIGTERM to the servers of the home whose names match a glob ``pattern``.

    Returns their process ids, and the files of servers that run elsewhere.
    Raises OSError: a file or a process is another user's.
    """
    home = os.environ.get(HOME_VARIABLE)
    found = sorted(Path(home, _FOLDER).glob(f"{pattern}.*")) if home else []
    pids: list[int] = []
    elsewhere: list[Path] = []
    for path in found:
        pid = _pid(path)
        holder = None if pid is None else _holder(path)
        if holder is None:
            continue
        if holder != pid:
            elsewhere.append(path)
            continue
        with suppress(ProcessLookupError):  # it ended after its lock was read
            os.kill(holder, signal.SIGTERM)
        pids.append(holder)
    return pids, elsewhere


def _pid(path: Path) -> int | None:
    text = path.suffix[1:]
    return int(text) if text.isdecimal() else None


def _holder(path: Path) -> int | None:
    """The process that holds the lock on a file, 0 if it runs elsewhere. Removes a file without a lock: None."""
    try:
        with path.open() as file:
            try:
                fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: several kafka-server-stop.sh can run
            except BlockingIOError:
                return _lock_holder(file.fileno())
            if _has_name(file, path):  # otherwise the file of a later server has it
                path.unlink(missing_ok=True)
    except FileNotFoundError:
        pass  # the server has ended
    return None


def _lock_holder(descriptor: int) -> int | None:
    """The process that keeps this one from a shared lock (F_GETLK); 0: one of another pid namespace or host."""
    layout, order = _FLOCK
    asked = {"type": fcntl.F_RDLCK, "whence": os.SEEK_SET, "start": 0, "len": 0, "pid": 0}
    response = fcntl.fcntl(descriptor, fcntl.F_GETLK, struct.pack(layout, *(asked[name] for name in order)))
    found = dict(zip(order, struct.unpack(layout, response), strict=True))
    return None if found["type"] == fcntl.F_UNLCK else max(found["pid"], 0)
