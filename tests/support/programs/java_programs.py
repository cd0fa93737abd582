"""Java programs: those of one file, compiled here, which answer lines with lines, and Kafka's command line tools."""

import base64
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.support.clients.agent import Agent
from tests.support.programs import maven, toolchains
from tests.support.servers.apache_kafka import java_command, kafka_jars


def java_responses(name: str, lines: Iterable[str] = (), *arguments: str, jars: Sequence[Path] = ()) -> list[str]:
    """What a program of this directory prints when it is given lines. Raises ToolMissing or MavenError."""
    classes = toolchains.java_classes(name, [Path(__file__).with_name(f"{name}.java")], jars)
    done = subprocess.run(
        [maven.java(), "-cp", os.pathsep.join(map(str, (classes, *jars))), name, *arguments],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout.splitlines()


def pattern_responses(
    package: str, method: str, names: str, expressions: Iterable[str], jars: Sequence[Path] = ()
) -> list[str]:
    """For each regular expression a digit per name, 1 if the library's matcher says so, or "no" and a reason."""
    encoded = (base64.b64encode(text.encode()).decode() for text in expressions)
    return java_responses("JavaPatterns", [names, *encoded], package, method, jars=jars)


SOURCE = Path(__file__).parents[2] / "interop" / "clients" / "java" / "tools" / "ToolShell.java"

MAIN_CLASSES: Mapping[str, str] = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-e2e-latency": "org.apache.kafka.tools.EndToEndLatency",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-replica-verification": "org.apache.kafka.tools.ReplicaVerificationTool",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
}


class ToolOutput(NamedTuple):
    """How a tool ended and what it printed."""

    status: int
    output: str
    errors: str


class KafkaTools:
    """Kafka's command line tools by the names of their scripts: their main classes, all in one JVM."""

    def __init__(self) -> None:
        """Raises ToolMissing or MavenError."""
        classes = toolchains.java_classes("kafka-tool-shell", [SOURCE], kafka_jars())
        self._agent = Agent([*java_command("256m", more=[classes]), "ToolShell"])

    def run(self, script: str, *arguments: str, server: str = "", given: str = "") -> ToolOutput:
        """What a tool did with `arguments`, `--bootstrap-server` before them if there is a `server`."""
        where = ("--bootstrap-server", server) if server else ()
        ending = self._agent.ask("run", main=MAIN_CLASSES[script], arguments=[*where, *arguments], input=given)
        return ToolOutput(ending["status"], ending["output"], ending["errors"])

    def close(self) -> None:
        self._agent.close()
