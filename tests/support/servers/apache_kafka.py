"""A real Apache Kafka for tests: KRaft mode, every node broker and controller, loopback, a temporary directory.

The jars come from Maven (see `tests.support.programs.maven`), nothing is installed. Start-up takes some seconds, so
share one cluster between the tests of a session where they can bear it.
"""

import functools
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from dirty_equals import HasLen

from tests.support.clients.confluent import ConfluentClient
from tests.support.java import QUICK_START
from tests.support.programs import maven
from tests.support.scripts import DidNotStart, free_ports
from tests.support.waiting import eventually

KAFKA_VERSION = "4.3.1"
LAST_KAFKA_WITH_ZOOKEEPER = "3.9.1"
START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 20.0
TOOL_TIMEOUT_S = 60.0

LOG4J_FILE = Path(__file__).with_name("log4j.properties")
QUIET = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    f"-Dlog4j.configuration=file:{LOG4J_FILE}",  # of releases before 4.0
)

SMALL_SETTINGS: Mapping[str, str] = {
    "background.threads": "2",
    # A killed node is let back in when its old session has ended: soon, but not so soon that a busy machine ends it.
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.dedupe.buffer.size": "2097152",
    "num.io.threads": "2",
    "num.network.threads": "2",
    "offsets.topic.num.partitions": "3",
    "share.coordinator.state.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
}


class ApacheKafkaError(Exception):
    """A node or a tool did not do what was asked; the message ends with what it printed."""


@functools.cache
def apache_kafka_unavailable(release: str = KAFKA_VERSION) -> str | None:
    """Why Apache Kafka cannot be run here (the reason to skip a test), or None when it can."""
    try:
        maven.java()
        kafka_jars(release)
    except maven.MavenError as error:
        return f"Apache Kafka {release} is not available: {error}"
    return None


@functools.cache
def kafka_jars(release: str = KAFKA_VERSION) -> tuple[Path, ...]:
    """The class path of Kafka's server and command line tools. Raises maven.MavenError."""
    major, minor = (int(part) for part in release.split(".")[:2])
    if major >= 3:
        coordinates = [f"org.apache.kafka:kafka_2.13:{release}", f"org.apache.kafka:kafka-tools:{release}"]
    else:
        scala = "2.10" if (major, minor) < (0, 9) else "2.11" if major < 2 else "2.12"
        coordinates = [f"org.apache.kafka:kafka_{scala}:{release}", "javax.xml.bind:jaxb-api:2.3.1"]
    if (major, minor) >= (1, 1):  # earlier ones depend on log4j
        coordinates.append("org.slf4j:slf4j-simple:1.7.36")
    return maven.resolve(f"kafka-{release}", coordinates, excluded=("org.apache.kafka:connect-runtime",))


@dataclass(kw_only=True)
class _Node:
    """One broker-and-controller: its ports, its directory and, while it runs, its process."""

    node_id: int
    directory: Path
    port: int = 0
    controller_port: int = 0
    more_ports: dict[str, int] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    @property
    def settings_file(self) -> Path:
        return self.directory / "server.properties"

    @property
    def output_file(self) -> Path:
        return self.directory / "output.log"

    def output(self, lines: int = 40) -> str:
        """The last lines that the node printed."""
        if not self.output_file.exists():
            return "(no output)"
        return "\n".join(self.output_file.read_text(errors="replace").splitlines()[-lines:])


@dataclass(kw_only=True)
class ApacheKafka:
    """A cluster of `brokers` nodes, numbered from 1; a context manager that starts it and removes its files.

    `settings` are server.properties entries over the small defaults here. The ports stay the same for the life of the
    object, so clients find the nodes again after `kill` and `restart`. `start_seconds` tells how long the last start
    took. Who measures Kafka should give `jvm_options=()`: the default ones start quickly and run slower. 3.9.1 is the
    last `release` that serves the oldest clients. `listeners` are more of them, by name, with their security protocols;
    `format_options` go to the tool that formats the storage.
    """

    brokers: int = 1
    release: str = KAFKA_VERSION
    settings: Mapping[str, str] = field(default_factory=dict)
    heap: str = "512m"
    jvm_options: Sequence[str] = QUICK_START
    listeners: Mapping[str, str] = field(default_factory=dict)
    format_options: Sequence[str] = ()
    start_seconds: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="apache-kafka-"))
        self._cluster_id = _kafka_uuid()
        self._nodes = {
            node_id: _Node(node_id=node_id, directory=self._directory / f"node-{node_id}")
            for node_id in range(1, self.brokers + 1)
        }

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of every node, running or not, comma separated."""
        return ",".join(f"127.0.0.1:{node.port}" for node in self._nodes.values())

    def servers_of(self, listener: str) -> str:
        """`host:port` of every node's listener of a name in `listeners`, comma separated."""
        return ",".join(f"127.0.0.1:{node.more_ports[listener]}" for node in self._nodes.values())

    @property
    def node_ids(self) -> tuple[int, ...]:
        """The numbers of the nodes, as `kill` and `restart` take them and as clients see them."""
        return tuple(self._nodes)

    def pid(self, node_id: int = 1) -> int:
        """The process id of a node that runs."""
        process = self._nodes[node_id].process
        assert process is not None, f"node {node_id} does not run"
        return process.pid

    @property
    def log_directory(self) -> Path:
        """Where the first node keeps its partitions."""
        return self._nodes[1].directory / "data"

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        """Make a topic with all nodes (at most 3) as replicas, through confluent-kafka; a JVM takes too long for it."""
        client = ConfluentClient()
        client.create_topic(self.bootstrap_servers, name, partitions, replication=min(3, self.brokers), configs=configs)
        eventually(lambda: client.partitions(self.bootstrap_servers, name), HasLen(partitions), within_s=TOOL_TIMEOUT_S)

    def start(self) -> None:
        """Format the storage and start all nodes. Raises DidNotStart, ApacheKafkaError or maven.MavenError."""
        try:
            for attempt in range(3):
                self._choose_ports()
                for node in self._nodes.values():
                    shutil.rmtree(node.directory, ignore_errors=True)
                    node.directory.mkdir()
                    node.settings_file.write_text(self._server_properties(node))
                    self._format(node)
                try:
                    self._run(list(self._nodes.values()))
                except DidNotStart as error:
                    self.kill()
                    # Another process took a port between our choice of it and the node's use.
                    if attempt == 2 or "Address already in use" not in str(error):
                        raise
                else:
                    return
        except BaseException:
            self.close()
            raise

    def stop(self, node_id: int | None = None) -> None:
        """End one node, or all, in the orderly way (SIGTERM); one that has not ended in time is killed."""
        self._end(node_id, signal.SIGTERM)

    def kill(self, node_id: int | None = None) -> None:
        """End one node, or all, at once (SIGKILL). The data stays."""
        self._end(node_id, signal.SIGKILL)

    def restart(self, node_id: int | None = None) -> None:
        """Start one node, or all, again on the data and ports they had; those that still run are stopped first."""
        self._end(node_id, signal.SIGTERM)
        self._run(self._chosen(node_id))

    def close(self) -> None:
        """Kill what runs and delete the data."""
        self.kill()
        shutil.rmtree(self._directory, ignore_errors=True)

    def move_leader(self, topic: str, partition: int, node_id: int) -> None:
        """Make a node the leader of a partition that all nodes replicate. Takes some seconds."""
        others = [other for other in self.node_ids if other != node_id]
        plan = {"topic": topic, "partition": partition, "replicas": [node_id, *others]}
        plan_file = self._directory / "reassignment.json"
        plan_file.write_text(json.dumps({"version": 1, "partitions": [plan]}))
        reassign = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
        self.tool(reassign, "--reassignment-json-file", str(plan_file), "--execute")
        elect = ("--election-type", "preferred", "--topic", topic, "--partition", str(partition))
        self.tool("org.apache.kafka.tools.LeaderElectionCommand", *elect)

    def tool(self, class_name: str, *arguments: str) -> str:
        """As `run_tool`, with `--bootstrap-server` given."""
        return run_tool(class_name, "--bootstrap-server", self.bootstrap_servers, *arguments)

    def _chosen(self, node_id: int | None) -> list[_Node]:
        return list(self._nodes.values()) if node_id is None else [self._nodes[node_id]]

    def _choose_ports(self) -> None:
        ports = free_ports((2 + len(self.listeners)) * self.brokers)
        for node in self._nodes.values():
            node.port, node.controller_port = ports.pop(), ports.pop()
            node.more_ports = {name: ports.pop() for name in self.listeners}

    def _server_properties(self, node: _Node) -> str:
        replicas = str(min(3, self.brokers))
        more = "".join(f",{name}://127.0.0.1:{port}" for name, port in node.more_ports.items())
        protocols = "".join(f",{name}:{protocol}" for name, protocol in self.listeners.items())
        voters = ",".join(f"{other.node_id}@127.0.0.1:{other.controller_port}" for other in self._nodes.values())
        properties = {
            "process.roles": "broker,controller",
            "node.id": str(node.node_id),
            "controller.quorum.voters": voters,
            "listeners": f"PLAINTEXT://127.0.0.1:{node.port},CONTROLLER://127.0.0.1:{node.controller_port}{more}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{node.port}{more}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT{protocols}",
            "log.dirs": str(node.directory / "data"),
            "default.replication.factor": replicas,
            "offsets.topic.replication.factor": replicas,
            "share.coordinator.state.topic.replication.factor": replicas,
            "share.coordinator.state.topic.min.isr": "1",
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": "1",
            **SMALL_SETTINGS,
            **self.settings,
        }
        return "".join(f"{key}={value}\n" for key, value in properties.items())

    def _format(self, node: _Node) -> None:
        options = ("-t", self._cluster_id, "-c", str(node.settings_file), *self.format_options)
        run_tool("kafka.tools.StorageTool", "format", *options, release=self.release)

    def _run(self, nodes: Sequence[_Node]) -> None:
        """Start these nodes and wait until each of them names all running nodes as brokers."""
        began = time.monotonic()
        for node in nodes:
            with node.output_file.open("ab") as output:
                node.process = subprocess.Popen(
                    [
                        *die_with_parent(),
                        *java_command(self.heap, self.jvm_options, self.release),
                        "kafka.Kafka",
                        str(node.settings_file),
                    ],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        processes = [(node.node_id, node.process) for node in self._nodes.values()]
        running = {node_id for node_id, process in processes if process is not None and process.poll() is None}
        for node in nodes:
            self._wait_until_ready(node, running, began + START_TIMEOUT_S)
        self.start_seconds = time.monotonic() - began

    def _wait_until_ready(self, node: _Node, expected: set[int], deadline: float) -> None:
        assert node.process is not None
        process = node.process

        def is_ready() -> bool:
            if (code := process.poll()) is not None:
                raise DidNotStart(f"node {node.node_id} ended with {code} while starting:\n{node.output()}")
            return expected <= broker_ids(node.port)

        try:
            eventually(is_ready, True, within_s=deadline - time.monotonic())
        except AssertionError as error:
            message = f"node {node.node_id} was not ready in {START_TIMEOUT_S:.0f} s:\n{node.output()}"
            raise DidNotStart(message) from error

    def _end(self, node_id: int | None, how: signal.Signals) -> None:
        processes = [(node, node.process) for node in self._chosen(node_id) if node.process is not None]
        for _, process in processes:
            process.send_signal(how)
        deadline = time.monotonic() + STOP_TIMEOUT_S
        for node, process in processes:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            node.process = None


def run_tool(
    class_name: str,
    *arguments: str,
    given: str = "",
    timeout_s: float = TOOL_TIMEOUT_S,
    release: str = KAFKA_VERSION,
    heap: str = "256m",
    jvm_options: Sequence[str] = QUICK_START,
) -> str:
    """Run one of Kafka's Java tools and return what it printed to its standard output.

    `class_name` is the main class, such as `org.apache.kafka.tools.TopicCommand`; `--bootstrap-server` is the
    caller's to give, and `given` is its standard input. `heap` and `jvm_options` are as `ApacheKafka`'s. Raises
    ApacheKafkaError when it fails or takes longer than `timeout_s`.
    """
    command = [*java_command(heap, jvm_options, release), class_name, *arguments]
    try:
        done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired as error:
        raise ApacheKafkaError(f"{class_name} did not end within {timeout_s:.0f} s") from error
    if done.returncode != 0:
        raise ApacheKafkaError(f"{class_name} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def dump_log(files: Iterable[Path], *options: str) -> str:
    """What Kafka's DumpLogSegments says about log files."""
    return run_tool("org.apache.kafka.tools.DumpLogSegments", *options, "--files", ",".join(map(str, files)))


def java_command(
    heap: str, options: Sequence[str] = QUICK_START, release: str = KAFKA_VERSION, *, more: Sequence[Path] = ()
) -> list[str]:
    """How to run a class of a release's jars, or of the directories ``more``: what comes before its name."""
    class_path = os.pathsep.join(map(str, (*more, *kafka_jars(release))))
    return [maven.java(), f"-Xmx{heap}", f"-Xms{heap}", *options, *QUIET, "-cp", class_path]


@functools.cache
def die_with_parent() -> tuple[str, ...]:
    """A command prefix that ends the server with the thread that starts it, even when we are killed.

    Empty where the system has no such thing.
    """
    setpriv = shutil.which("setpriv")
    return (setpriv, "--pdeathsig", "KILL") if setpriv else ()


def _kafka_uuid() -> str:
    """A random UUID in Kafka's form: 22 characters of URL-safe base64. A leading dash would look like an option."""
    while (text := urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()).startswith("-"):
        pass
    return text


def broker_ids(port: int) -> set[int]:
    """The brokers that the node at this port names in a Metadata response (v0, all topics); none while it is not ready.

    Written as bytes, so that the readiness of a foreign server rests on no code under test.
    """
    request = struct.pack(">hhi h i", 3, 0, 1, -1, 0)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.settimeout(5)
            connection.sendall(struct.pack(">i", len(request)) + request)
            (size,) = struct.unpack(">i", _receive(connection, 4))
            response = _receive(connection, size)
    except OSError:
        return set()
    _, count = struct.unpack_from(">ii", response)
    ids: set[int] = set()
    position = 8
    for _ in range(count):
        node_id, host_length = struct.unpack_from(">ih", response, position)
        ids.add(node_id)
        position += 4 + 2 + host_length + 4
    return ids


def _receive(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        piece = connection.recv(size - len(received))
        if not piece:
            raise ConnectionResetError("the node closed the connection")
        received += piece
    return bytes(received)
