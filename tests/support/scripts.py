"""Commands that run until they are stopped, their ports, and the error of a server that `DidNotStart`."""

import re
import socket
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

PATIENCE_S = 60.0


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [sock.getsockname()[1] for sock in sockets]
    for sock in sockets:
        sock.close()
    return ports


def free_port() -> int:
    """A port that was free a moment ago."""
    (port,) = free_ports(1)
    return port


def listens(port: int) -> bool:
    """Whether a server listens at a port of this machine."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def started(command: Sequence[str], *, until: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command that has printed a line that `until` matches; it is terminated at the end if it still runs then."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert process.stdout is not None
    # A process that stays silent would never let the lines end.
    alarm = threading.Timer(PATIENCE_S, process.kill)
    alarm.start()
    try:
        seen = []
        for line in process.stdout:
            seen.append(line.decode())
            if re.search(until, seen[-1]):
                break
        else:
            raise AssertionError(f"{command} ended, or was silent for too long, before {until!r}: {seen}")
        alarm.cancel()
        rest = threading.Thread(target=process.stdout.read)  # so that the process never waits for a reader
        rest.start()
        yield process
    finally:
        alarm.cancel()
        if process.poll() is None:
            process.terminate()
        process.wait(PATIENCE_S)
        if "rest" in locals():
            rest.join()
        process.stdout.close()


class DidNotStart(Exception):
    """A server that is not ours ended while it started, or was not ready in time; the message has what it printed.

    The only failure of an interop test that is tried again: two cores start several JVMs at once.
    """
