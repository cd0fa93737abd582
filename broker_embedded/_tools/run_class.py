"""All tools, by name and by the name of their Java class, and ``kafka-run-class.sh``."""

from collections.abc import Mapping, Sequence
from typing import Final

import click

from spark_kafka_native._command_line.commands import Lazy, PassingCommand, run
from spark_kafka_native._command_line.output import InvalidOption
from spark_kafka_native._protocol.nearest import nearest_name
from spark_kafka_native._tools import dispatch

_PACKAGE: Final = "broker_embedded._tools"
TOOLS: Final[Mapping[str, Lazy]] = {
    **dispatch.TOOLS,
    "home": Lazy(f"{_PACKAGE}.home:home", "Make a KAFKA_HOME with scripts of Kafka's names."),
    "kafka-dump-log": Lazy(f"{_PACKAGE}.dump_log:dump_log", "Print the files of a partition's directory."),
    "kafka-run-class": Lazy(f"{_PACKAGE}.run_class:run_class", "Run a tool by the name of its Java class."),
    "kafka-server-start": Lazy(f"{_PACKAGE}.server_start:server_start", "Start the bundled broker."),
    "kafka-server-stop": Lazy(
        f"{_PACKAGE}.server_stop:server_stop", "Stop the brokers that scripts of this KAFKA_HOME have started."
    ),
    "kafka-storage": Lazy(f"{_PACKAGE}.storage:storage", "Format a data directory, and describe it."),
    "zookeeper-server-start": Lazy(f"{_PACKAGE}.zookeeper:start", "Start a ZooKeeper server."),
    "zookeeper-server-stop": Lazy(
        f"{_PACKAGE}.zookeeper:stop", "Stop the ZooKeeper servers that scripts of this KAFKA_HOME have started."
    ),
    "zookeeper-shell": Lazy(f"{_PACKAGE}.zookeeper:shell", "Run commands on a ZooKeeper server."),
}
"""The tools by name: those of ``spark_kafka_native.tools``, too."""
SCRIPTS: Final = tuple(name for name in TOOLS if name not in {"exactly-once", "home"})
"""The tools that Apache Kafka has, too, and kafka-lookup-table. A KAFKA_HOME has a script for each."""
CLASSES: Final = {
    "kafka.Kafka": "kafka-server-start",
    "kafka.admin.ConfigCommand": "kafka-configs",
    "kafka.admin.ConsumerGroupCommand": "kafka-consumer-groups",
    "kafka.admin.DeleteRecordsCommand": "kafka-delete-records",
    "kafka.admin.TopicCommand": "kafka-topics",
    "kafka.tools.ConsoleConsumer": "kafka-console-consumer",
    "kafka.tools.ConsoleProducer": "kafka-console-producer",
    "kafka.tools.ConsumerPerformance": "kafka-consumer-perf-test",
    "kafka.tools.DumpLogSegments": "kafka-dump-log",
    "kafka.tools.GetOffsetShell": "kafka-get-offsets",
    "kafka.tools.MirrorMaker": "kafka-mirror-maker",
    "kafka.tools.ProducerPerformance": "kafka-producer-perf-test",
    "kafka.tools.SimpleConsumerPerformance": "kafka-simple-consumer-perf-test",
    "kafka.tools.StorageTool": "kafka-storage",
    "org.apache.kafka.tools.ConfigCommand": "kafka-configs",
    "org.apache.kafka.tools.ConsoleProducer": "kafka-console-producer",
    "org.apache.kafka.tools.ConsumerPerformance": "kafka-consumer-perf-test",
    "org.apache.kafka.tools.DeleteRecordsCommand": "kafka-delete-records",
    "org.apache.kafka.tools.DumpLogSegments": "kafka-dump-log",
    "org.apache.kafka.tools.GetOffsetShell": "kafka-get-offsets",
    "org.apache.kafka.tools.ProducerPerformance": "kafka-producer-perf-test",
    "org.apache.kafka.tools.TopicCommand": "kafka-topics",
    "org.apache.kafka.tools.TransactionsCommand": "kafka-transactions",
    "org.apache.kafka.tools.consumer.ConsoleConsumer": "kafka-console-consumer",
    "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand": "kafka-consumer-groups",
    "org.apache.zookeeper.ZooKeeperMain": "zookeeper-shell",
    "org.apache.zookeeper.ZooKeeperMainWithTlsSupportForKafka": "zookeeper-shell",
    "org.apache.zookeeper.server.quorum.QuorumPeerMain": "zookeeper-server-start",
}
"""Java class -> tool."""


@click.command("kafka-run-class", cls=PassingCommand)
@click.pass_context
def run_class(ctx: click.Context) -> int:
    """Raises InvalidOption: no tool has this class."""
    name, left = tool_and_arguments(ctx.args)
    return run(TOOLS[name], name, left)


def tool_and_arguments(arguments: Sequence[str]) -> tuple[str, list[str]]:
    """The tool of a Java class, and its arguments. Raises InvalidOption."""
    left = list(arguments)
    while left and left[0].startswith("-"):  # -daemon, -name NAME, -loggc: for the JVM
        left = left[2:] if left[0] == "-name" else left[1:]
    if not left or not left[0]:
        raise InvalidOption("the name of a Java class is required")
    if left[0] not in CLASSES:
        simple_names = {name.rpartition(".")[2]: name for name in CLASSES}
        simple = nearest_name(left[0].rpartition(".")[2], simple_names)
        near = nearest_name(left[0], CLASSES) or (simple and simple_names[simple])
        hint = f"; did you mean {near}?" if near else ""
        raise InvalidOption(f"no tool has the class {left[0]}; the classes are {', '.join(sorted(CLASSES))}{hint}")
    return CLASSES[left[0]], left[1:]
