"""``kafka-server-stop.sh``: stop the brokers that scripts of this KAFKA_HOME have started, and no other process.

A server that a script of the home has started keeps a lock on its file ``run/kafka-server.NODE_ID.PID``. The system
ends the lock with the process. So a locked file names a process that is a server of this home, whatever its command
line is. A file without a lock was left by a server that was killed.
"""

import fcntl
import logging
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from spark_kafka_native.tools.connection import FAILED, ToolParser, complain, refuse, say

logger = logging.getLogger(__name__)

HOME_VARIABLE: Final = "SPARK_KAFKA_NATIVE_HOME"
"""The environment variable in which the scripts name their KAFKA_HOME."""
_FOLDER: Final = "run"
_TOOL: Final = "kafka-server-stop"


def main(arguments: Sequence[str]) -> int:
    """Send SIGTERM; the exit status. 0: done. 1: no broker of this KAFKA_HOME runs. 2: a bad option."""
    parser = ToolParser(_TOOL, "Stop the brokers that scripts of this KAFKA_HOME have started.")
    parser.add_argument("--node-id", type=int, help="of the broker to stop; all of them by default")
    parser.add_argument("--process-role", choices=("broker", "controller"), help="accepted: a broker is both")
    options = parser.parse_args(arguments)
    return stop_servers(_TOOL, f"kafka-server.{'*' if options.node_id is None else options.node_id}", "kafka server")


def stop_servers(tool: str, pattern: str, what: str) -> int:
    """Stop the servers with names of a glob pattern; the exit status. ``what`` is their name in the output."""
    try:
        pids = _stop(pattern)
    except OSError as error:
        return refuse(tool, error)
    for pid in pids:
        say(f"Stopping {what} {pid}")
    if not pids:
        complain(f"No {what} to stop")
    return 0 if pids else FAILED


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
            file = stack.enter_context(path.open("w"))
            stack.callback(path.unlink, missing_ok=True)
            fcntl.lockf(file, fcntl.LOCK_EX)
        except OSError as error:
            logger.warning("no script of %s can stop this server: %s", home, error)
        yield


def _stop(pattern: str) -> list[int]:
    """Send SIGTERM to the servers of the home whose names match a glob ``pattern``; their process ids.

    Raises OSError: a file or a process is another user's.
    """
    home = os.environ.get(HOME_VARIABLE)
    found = sorted(Path(home, _FOLDER).glob(f"{pattern}.*")) if home else []
    pids = [int(path.suffix[1:]) for path in found if path.suffix[1:].isdecimal() and _is_locked(path)]
    for pid in pids:
        with suppress(ProcessLookupError):  # it has ended meanwhile
            os.kill(pid, signal.SIGTERM)
    return pids


def _is_locked(path: Path) -> bool:
    """Whether the server of a file runs. The file of one that does not is removed."""
    try:
        with path.open() as file:
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: another kafka-server-stop.sh is no server
            path.unlink(missing_ok=True)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        pass  # the server has ended meanwhile
    return False
