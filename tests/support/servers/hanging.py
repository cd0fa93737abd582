"""A server to which no connection can be made: packets to it are dropped."""

import contextlib
import socket
from collections.abc import Iterator

from spark_kafka_native._net.address import HostPort

_MAX_QUEUED = 10


@contextlib.contextmanager
def hanging_server() -> Iterator[HostPort]:
    """A listener that accepts no connection and whose queue of connections is full."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server, contextlib.ExitStack() as queued:
        address = HostPort(*server.getsockname())
        try:
            for _ in range(_MAX_QUEUED):
                queued.enter_context(socket.create_connection((address.host, address.port), timeout=0.05))
        except TimeoutError:
            yield address
        else:
            raise AssertionError(f"{_MAX_QUEUED} connections fit into the queue")
