"""The tools with Kafka's names. ``broker_embedded.tools`` has these and its own."""

from collections.abc import Mapping, Sequence
from typing import Final

from spark_kafka_native._command_line.commands import Lazy, LazyGroup, run

_PACKAGE: Final = "spark_kafka_native._tools"
TOOLS: Final[Mapping[str, Lazy]] = {
    "exactly-once": Lazy(
        f"{_PACKAGE}.exactly_once:exactly_once", "Show, complete and delete the state of exactly-once sinks."
    ),
    "kafka-configs": Lazy(
        f"{_PACKAGE}.configs:configs",
        "Describe and alter settings of topics, brokers and groups, quotas, and SCRAM users.",
    ),
    "kafka-console-consumer": Lazy(f"{_PACKAGE}.console.consumer:console_consumer", "Print records as text."),
    "kafka-console-producer": Lazy(
        f"{_PACKAGE}.console.producer:console_producer", "Send the lines of standard input as records."
    ),
    "kafka-consumer-perf-test": Lazy(
        f"{_PACKAGE}.performance.consumer:consumer_perf_test",
        "Read records as a member of a consumer group, and print rates.",
    ),
    "kafka-consumer-groups": Lazy(
        f"{_PACKAGE}.groups.consumer_groups:consumer_groups", "List, describe, reset and delete consumer groups."
    ),
    "kafka-delete-records": Lazy(
        f"{_PACKAGE}.delete_records:delete_records_command", "Delete the records of partitions before an offset."
    ),
    "kafka-get-offsets": Lazy(
        f"{_PACKAGE}.get_offsets:get_offsets", "Print first, last and other offsets of partitions."
    ),
    "kafka-import-log": Lazy(
        f"{_PACKAGE}.import_log:import_log", "Write the messages in log files of Kafka 0.7 to topics."
    ),
    "kafka-lookup-table": Lazy(
        f"{_PACKAGE}.lookup_table:lookup_table", "Create, reorganize and verify tables of the partitioner lookup."
    ),
    "kafka-mirror-maker": Lazy(f"{_PACKAGE}.mirror:mirror", "Copy the topics of one or more clusters to another one."),
    "kafka-producer-perf-test": Lazy(
        f"{_PACKAGE}.performance.producer:producer_perf_test",
        "Send records as fast as brokers take them, and print rates and latencies.",
    ),
    "kafka-simple-consumer-perf-test": Lazy(
        f"{_PACKAGE}.performance.simple_consumer:simple_consumer_perf_test",
        "Read a partition without a group, and print rates.",
    ),
    "kafka-topics": Lazy(f"{_PACKAGE}.topics:topics", "Create, delete, list, describe and alter topics."),
    "kafka-transactions": Lazy(f"{_PACKAGE}.transactions:transactions", "List, describe and end transactions."),
}
"""The tools that work with any cluster, by name."""


def run_tool(package: str, tools: Mapping[str, Lazy], arguments: Sequence[str], hint: str = "") -> int:
    """Run ``python -m package TOOL ...``; the exit status. ``hint`` names where more tools are."""
    if arguments and arguments[0] in tools:
        name, *left = arguments  # without the package, as the script of the tool
        return run(tools[name], name, left)
    everything = LazyGroup({"Tools": tools}, subcommand_metavar="TOOL ...", epilog=hint)
    return run(everything, f"python -m {package}", arguments)
