"""``kafka-run-class.sh``: a tool by the name of its Java class."""

from collections.abc import Sequence
from typing import Final

from spark_kafka_native.tools.connection import ToolError, refuse

_TOOL: Final = "kafka-run-class"
CLASSES: Final = {
    "kafka.Kafka": "kafka-server-start",
    "kafka.admin.ConfigCommand": "kafka-configs",
    "kafka.admin.ConsumerGroupCommand": "kafka-consumer-groups",
    "kafka.admin.DeleteRecordsCommand": "kafka-delete-records",
    "kafka.admin.TopicCommand": "kafka-topics",
    "kafka.tools.ConsoleConsumer": "kafka-console-consumer",
    "kafka.tools.ConsoleProducer": "kafka-console-producer",
    "kafka.tools.DumpLogSegments": "kafka-dump-log",
    "kafka.tools.GetOffsetShell": "kafka-get-offsets",
    "kafka.tools.StorageTool": "kafka-storage",
    "org.apache.kafka.tools.ConfigCommand": "kafka-configs",
    "org.apache.kafka.tools.ConsoleProducer": "kafka-console-producer",
    "org.apache.kafka.tools.DeleteRecordsCommand": "kafka-delete-records",
    "org.apache.kafka.tools.DumpLogSegments": "kafka-dump-log",
    "org.apache.kafka.tools.GetOffsetShell": "kafka-get-offsets",
    "org.apache.kafka.tools.TopicCommand": "kafka-topics",
    "org.apache.kafka.tools.TransactionsCommand": "kafka-transactions",
    "org.apache.kafka.tools.consumer.ConsoleConsumer": "kafka-console-consumer",
    "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand": "kafka-consumer-groups",
    "org.apache.zookeeper.ZooKeeperMainWithTlsSupportForKafka": "zookeeper-shell",
    "org.apache.zookeeper.server.quorum.QuorumPeerMain": "zookeeper-server-start",
}
"""Java class -> tool."""


def tool_and_arguments(arguments: Sequence[str]) -> tuple[str, list[str]]:
    """The tool that a class stands for, and the arguments that are its own. Raises ToolError."""
    left = list(arguments)
    while left and left[0].startswith("-"):  # -daemon, -name NAME, -loggc: for the JVM
        left = left[2:] if left[0] == "-name" else left[1:]
    if not left:
        raise ToolError("say which class")
    if left[0] not in CLASSES:
        raise ToolError(f"{left[0]} is no class that is stood in for; there are {', '.join(sorted(CLASSES))}")
    return CLASSES[left[0]], left[1:]


def refused(error: ToolError) -> int:
    """Say that a class cannot be run, and the exit status."""
    return refuse(_TOOL, error)
