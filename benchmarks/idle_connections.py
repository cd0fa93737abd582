"""What a connection costs that does nothing: memory of the broker per connection, and Apache Kafka's with an option.

    python -m benchmarks.idle_connections [--connections 10000] [--apache]

Each connection asks for ApiVersions once, as clients do, and then rests. The kernel's own memory for sockets is no part
of a process and not counted. This process needs one descriptor per connection, and so does the broker.
"""

import contextlib
import resource
import socket
import struct
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.support.report import Report, arguments, parse
from broker_embedded.testing import BrokerProcess
from tests.support.servers.apache_kafka import ApacheKafka

_API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)
_SETTLE_S = 8.0
"""After so long buffers that are not used have been given back."""


def resident_bytes(pid: int) -> int:
    """Memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


def connect(address: str) -> socket.socket:
    """A connection that has asked one thing and had its response."""
    host, _, port = address.rpartition(":")
    sock = socket.create_connection((host, int(port)), timeout=60)
    sock.sendall(_API_VERSIONS)
    (size,) = struct.unpack(">i", sock.recv(4, socket.MSG_WAITALL))
    sock.recv(size, socket.MSG_WAITALL)
    return sock


def cost_of_connections(pid: int, address: str, connections: int) -> dict[str, float]:
    """Bytes per connection, and what it took to open them."""
    for _ in range(50):  # what is needed once, for the first
        connect(address).close()
    time.sleep(1)
    before = resident_bytes(pid)
    begun = time.monotonic()
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(connect(address)) for _ in range(connections)]
        seconds = time.monotonic() - begun
        time.sleep(_SETTLE_S)
        after = resident_bytes(pid)
        begun = time.monotonic()
        held[-1].sendall(_API_VERSIONS)
        held[-1].recv(4, socket.MSG_WAITALL)
        answered = time.monotonic() - begun
    return {
        "connections": connections,
        "KiB per connection": round((after - before) / connections / 1024, 2),
        "connections per second": round(connections / seconds),
        "answer among them, ms": round(answered * 1000, 2),
    }


def raise_limit(connections: int) -> None:
    """Let this process, and those that it starts, have descriptors enough."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + 500
    if hard != resource.RLIM_INFINITY and hard < wanted:
        sys.exit(f"{wanted} descriptors are needed; the hard limit is {hard} (ulimit -Hn)")
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def main() -> None:
    """Measure each broker and report."""
    parser = arguments(__doc__, rounds=None)
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--apache", action="store_true", help="Apache Kafka too, from Maven Central")
    options = parse(parser, connections=100)
    raise_limit(options.connections)
    report = Report("idle_connections", "What a connection costs that does nothing", options)
    found = {}
    with (
        tempfile.TemporaryDirectory() as directory,
        BrokerProcess(directory, settings={"socket.listen.backlog.size": 1000}) as broker,
    ):
        found["bundled"] = cost_of_connections(broker.pid, broker.bootstrap_servers, options.connections)
    if options.apache:
        with ApacheKafka(settings={"socket.listen.backlog.size": "1000"}, jvm_options=()) as kafka:
            found["Apache Kafka"] = cost_of_connections(kafka.pid(), kafka.bootstrap_servers, options.connections)
    report.table(("broker", *found["bundled"]), [[name, *costs.values()] for name, costs in found.items()])
    report.save()


if __name__ == "__main__":
    main()
