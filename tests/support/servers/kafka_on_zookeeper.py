"""Brokers of Apache Kafka's releases with ZooKeeper, and the tools of these releases.

The ZooKeeper server is the caller's: `broker_embedded.testing.EmbeddedZooKeeper` is one.
"""

import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from kazoo.client import KazooClient

from tests.support.clients.confluent import ConfluentClient
from tests.support.scripts import DidNotStart, free_port
from tests.support.servers.apache_kafka import (
    LAST_KAFKA_WITH_ZOOKEEPER,
    START_TIMEOUT_S,
    STOP_TIMEOUT_S,
    broker_ids,
    die_with_parent,
    java_command,
    run_tool,
)
from tests.support.waiting import eventually

RELEASES: Final = ("0.8.2.2", "0.10.2.2", "1.1.1", LAST_KAFKA_WITH_ZOOKEEPER)
_LAST_LINES: Final = 40
_SETTINGS: Final = {
    "controlled.shutdown.enable": "true",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.dedupe.buffer.size": "2097152",
    "num.io.threads": "2",
    "num.network.threads": "2",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "1",
}


def run_class(release: str, class_name: str, *arguments: str, given: str = "") -> str:
    """What a main class of a release prints to its standard output; ``given`` is its standard input.

    Raises ApacheKafkaError: it failed, or did not end in time.
    """
    return run_tool(class_name, *arguments, given=given, release=release)


@contextmanager
def zookeeper_client(connect: str) -> Iterator[KazooClient]:
    """Another program's client of a chroot of one name, which it creates."""
    client = KazooClient(connect)
    assert client.start_async().wait(30), f"no session with {connect}"
    try:
        client.ensure_path("/")
        yield client
    finally:
        client.stop()
        client.close()


@dataclass(kw_only=True)
class KafkaOnZooKeeper:
    """One broker of a release. A context manager that starts it, and kills it in the end.

    ``connect`` is HOST:PORT[/CHROOT] of ZooKeeper. ``settings`` replace the small defaults here. The log directory is a
    temporary one unless it is given; the port stays the same after ``start``.
    """

    connect: str
    release: str = LAST_KAFKA_WITH_ZOOKEEPER
    node_id: int = 1
    settings: Mapping[str, str] = field(default_factory=dict)
    log_directory: Path | None = None

    def __post_init__(self) -> None:
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap_servers(self) -> str:
        """The broker's address."""
        return f"127.0.0.1:{self._port}"

    @property
    def output(self) -> str:
        """The last lines that the broker printed."""
        return "\n".join((self._directory / "output.log").read_text(errors="replace").splitlines()[-_LAST_LINES:])

    def __enter__(self) -> Self:
        self._directory = Path(tempfile.mkdtemp(prefix="kafka-on-zookeeper-"))
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end(signal.SIGKILL)
        shutil.rmtree(self._directory, ignore_errors=True)

    def start(self) -> None:
        """Start it, and wait until it is registered and serves clients. Raises DidNotStart."""
        properties = self._directory / "server.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in self._properties().items()))
        command = [*die_with_parent(), *java_command("256m", release=self.release), "kafka.Kafka", str(properties)]
        with (self._directory / "output.log").open("ab") as output:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        process = self._process

        with zookeeper_client(self.connect) as client:

            def is_registered() -> bool:
                if process.poll() is not None:
                    raise DidNotStart(f"Apache Kafka {self.release} ended while starting:\n{self.output}")
                found = all(client.exists(path) for path in (f"/brokers/ids/{self.node_id}", "/controller"))
                # 0.8 names no broker to clients before it has a topic.
                return found and (self._is_0_8 or self.node_id in broker_ids(self._port))

            try:
                eventually(is_registered, expected=True, within_s=START_TIMEOUT_S)
            except AssertionError as error:
                raise DidNotStart(f"Apache Kafka {self.release} has not registered:\n{self.output}") from error

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        """Make a topic: by the release's own tool, since 3.0 by a client, because tools do not use ZooKeeper then."""
        if self.release.startswith("3."):
            ConfluentClient().create_topic(self.bootstrap_servers, name, partitions, configs=configs)
            return
        command = ["--zookeeper", self.connect, "--create", "--topic", name]
        command += ["--partitions", str(partitions), "--replication-factor", "1"]
        for key, value in (configs or {}).items():
            command += ["--config", f"{key}={value}"]
        run_class(self.release, "kafka.admin.TopicCommand", *command)

    def stop(self) -> None:
        """End it in order (SIGTERM). Its data stays."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once (SIGKILL). Its registration ends with its session, and its data stays."""
        self._end(signal.SIGKILL)

    @property
    def _is_0_8(self) -> bool:
        return self.release.startswith("0.8.")

    def _properties(self) -> dict[str, str]:
        if self._is_0_8:
            address = {"host.name": "127.0.0.1", "port": str(self._port)}
        else:
            address = {"listeners": f"PLAINTEXT://{self.bootstrap_servers}"}
        return {
            "broker.id": str(self.node_id),
            "zookeeper.connect": self.connect,
            "log.dirs": str(self.log_directory or self._directory / "data"),
            **address,
            **_SETTINGS,
            **self.settings,
        }

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(number)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
