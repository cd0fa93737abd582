"""`pyspark.daemon` for `make coverage`: a worker saves its coverage after each task.

Spark ends idle workers with SIGHUP, and a process that a signal ends saves nothing.
"""

import socket

from coverage import Coverage
from pyspark import daemon

run_task = daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    """As pyspark's."""
    try:
        return int(run_task(sock, authenticated))
    finally:
        if (measured := Coverage.current()) is not None:
            measured.save()


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
