"""Kafka's command line tools, to compare ours with."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.support.clients.agent import Agent
from tests.support.programs import toolchains
from tests.support.servers.apache_kafka import java_command, kafka_jars

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
