"""A ZooKeeper of one node, from the jars that Apache Kafka 3.9 comes with: for programs that will not start without."""

import socket
import subprocess
import tempfile
from typing import Self

from dirty_equals import Contains

from tests.support.java import QUICK_START
from tests.support.scripts import DidNotStart, free_port
from tests.support.servers.apache_kafka import java_command
from tests.support.waiting import eventually

LAST_KAFKA_WITH_ZOOKEEPER = "3.9.1"
START_TIMEOUT_S = 60.0


class ZooKeeper:
    """A context manager that starts it on a free port and removes its files. Raises maven.MavenError."""

    def __enter__(self) -> Self:
        self._directory = tempfile.TemporaryDirectory(prefix="zookeeper-")
        port = free_port()
        self.address = f"127.0.0.1:{port}"
        # Its own little web server would take a fixed port.
        java = java_command("64m", [*QUICK_START, "-Dzookeeper.admin.enableServer=false"], LAST_KAFKA_WITH_ZOOKEEPER)
        self._process = subprocess.Popen(
            [*java, "org.apache.zookeeper.server.ZooKeeperServerMain", str(port), self._directory.name],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            self._wait_until_ready(port)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._directory.cleanup()

    def _wait_until_ready(self, port: int) -> None:
        def ask() -> bytes:
            assert self._process.poll() is None, f"it ended with {self._process.returncode}"
            with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
                connection.sendall(b"srvr")
                return connection.makefile("rb").read()

        try:
            eventually(ask, Contains(b"Mode: standalone"), within_s=START_TIMEOUT_S, retrying=(OSError,))
        except AssertionError as error:
            raise DidNotStart(f"ZooKeeper: {error}") from error
