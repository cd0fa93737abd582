"""Which foreign clients there are, how each is started as an agent, and what it can do."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.clients.agent import Agent
from tests.support.clients.interface import CODECS
from tests.support.java import QUICK_START
from tests.support.programs import maven, toolchains

SOURCES = Path(__file__).parents[2] / "interop" / "clients"

ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")
CODECS_BEFORE_ZSTD = ("none", "gzip", "snappy", "lz4")

TOPICS = frozenset({"topics", "delete_topic"})
CONFIGS = frozenset({"topic_config", "alter_config"})
GROUPS = frozenset({"groups", "describe_group"})
DELETE_GROUPS = frozenset({"delete_group"})
ALL_ADMIN = TOPICS | CONFIGS | GROUPS | DELETE_GROUPS | {"delete_records", "alter_offsets", "delete_offsets", "brokers"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignClient:
    """A client library that is not ours. `start` raises ToolMissing or MavenError where it cannot be had."""

    name: str
    start: Callable[[], Agent]
    codecs: tuple[str, ...] = CODECS
    headers: bool = True
    protocols: tuple[str, ...] = ("classic",)
    assignors: tuple[str, ...] = ()
    """Those that Kafka has, too, by their names in JoinGroup."""
    static_members: bool = True
    offsets: bool = True
    """Whether it can ask where partitions begin and end."""
    made_for: str = "4.3"
    """The release of Kafka whose versions it speaks."""
    transactions: bool = False
    """Whether the agent can do what is needed for the stories of transactions."""
    admin: frozenset[str] = field(default=ALL_ADMIN)
    """What it can administer, beyond making topics and adding partitions."""


def _python_agent(name: str, *arguments: str) -> Callable[[], Agent]:
    module = f"tests.interop.clients.python.{name}"
    return lambda: Agent([sys.executable, "-m", module, *arguments])


def java_client_jars(release: str) -> tuple[Path, ...]:
    """Kafka's Java client of one release, and what agents read JSON with. Raises MavenError."""
    coordinates = (
        f"org.apache.kafka:kafka-clients:{release}",
        "com.fasterxml.jackson.core:jackson-databind:2.21.2",
        "org.slf4j:slf4j-nop:1.7.36",
    )
    return maven.resolve(f"kafka-clients-{release}", coordinates)


def _java_agent(release: str, *directories: str) -> Callable[[], Agent]:
    """An agent on the Java client of a release; `directories` have what is special about such releases."""

    def start() -> Agent:
        jars = java_client_jars(release)
        root = SOURCES / "java"
        sources = sorted(file for part in ("", *directories) for file in (root / part).glob("*.java"))
        classes = toolchains.java_classes(f"java-agent-{release}", sources, jars)
        class_path = os.pathsep.join(map(str, (classes, *jars)))
        return Agent([maven.java(), *QUICK_START, "-Xmx128m", "-cp", class_path, "Agent"])

    return start


def _node_agent() -> Agent:
    return Agent(["node", str(toolchains.npm_packages(SOURCES / "node") / "agent.js")])


def _go_agent() -> Agent:
    return Agent([str(toolchains.go_program(SOURCES / "franz_go"))])


def _old_python_agent(release: str) -> Callable[[], Agent]:
    def start() -> Agent:
        if sys.version_info >= (3, 12):
            raise toolchains.ToolMissing("kafka-python 1.4 does not run on Python 3.12 or later")
        requirements = ("kafka-python==1.4.7", "crc32c", "lz4", "python-snappy", "xxhash")
        python = toolchains.python_environment("kafka-python-1.4.7", requirements)
        return Agent([str(python), "-m", "tests.interop.clients.python.old_kafka_python_agent", "--release", release])

    return start


CLIENTS = (
    ForeignClient(
        name="confluent",
        start=_python_agent("confluent_agent"),
        protocols=("classic", "consumer"),
        assignors=("range", "roundrobin", "cooperative-sticky"),
        transactions=True,
        admin=ALL_ADMIN - {"delete_offsets"},
    ),
    ForeignClient(name="kafka-python", start=_python_agent("kafka_python_agent"), assignors=ASSIGNORS),
    ForeignClient(
        name="aiokafka",
        start=_python_agent("aiokafka_agent"),
        assignors=("range", "roundrobin", "sticky"),
        admin=ALL_ADMIN - DELETE_GROUPS - {"alter_offsets", "delete_offsets"},
    ),
    ForeignClient(
        name="java-4.3.1",
        start=_java_agent("4.3.1", "v2_8", "since_0_11"),
        protocols=("classic", "consumer"),
        assignors=ASSIGNORS,
        transactions=True,
    ),
    ForeignClient(
        name="java-2.8.2",
        start=_java_agent("2.8.2", "v2_8", "since_0_11"),
        assignors=ASSIGNORS,
        transactions=True,
    ),
    ForeignClient(
        name="kafkajs",
        start=_node_agent,
        codecs=("none", "gzip", "snappy", "zstd"),
        assignors=("roundrobin",),
        static_members=False,
        admin=ALL_ADMIN - {"delete_offsets"},
    ),
    ForeignClient(
        name="franz-go",
        start=_go_agent,
        protocols=("classic", "consumer"),
        assignors=ASSIGNORS,
        transactions=True,
    ),
)


def _old_client(
    name: str, start: Callable[[], Agent], made_for: str, *, headers: bool = False, **more: Any
) -> ForeignClient:
    given: dict[str, Any] = {"codecs": CODECS_BEFORE_ZSTD, "static_members": False, "admin": frozenset(), **more}
    return ForeignClient(name=name, start=start, made_for=made_for, headers=headers, **given)


OLD_CLIENTS = (
    _old_client("kafka-python-1.4.7-as-of-0.8.2", _old_python_agent("0.8.2"), "0.8.2", protocols=()),
    _old_client("kafka-python-1.4.7-as-of-0.9", _old_python_agent("0.9"), "0.9"),
    _old_client("kafka-python-1.4.7-as-of-0.10", _old_python_agent("0.10"), "0.10.0"),
    _old_client(
        "kafka-python-1.4.7-as-of-1.0",
        _old_python_agent("1.0.0"),
        "1.0",
        headers=True,
        admin=TOPICS | CONFIGS | GROUPS,
    ),
    _old_client("java-0.10.0.1", _java_agent("0.10.0.1", "v0_10", "before_2_4"), "0.10.0", offsets=False),
    _old_client(
        "java-0.11.0.3",
        _java_agent("0.11.0.3", "v0_11", "before_2_4", "since_0_11"),
        "0.11",
        headers=True,
        transactions=True,
        admin=CONFIGS | TOPICS,
    ),
)
