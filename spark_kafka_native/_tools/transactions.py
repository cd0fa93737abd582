"""``kafka-transactions.sh``: list, describe and end transactions, find those that hang, describe producers."""

import re
import time
from collections.abc import Sequence
from typing import Final

import click

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.cluster.coordinators import look_up_coordinator
from spark_kafka_native._client.cluster.known_coordinators import CoordinatorType
from spark_kafka_native._client.transactions.describe_producers import describe_producers
from spark_kafka_native._client.transactions.describe_transactions import describe_transactions, list_transactions
from spark_kafka_native._client.transactions.hanging_transactions import (
    AbortTransactionSpec,
    OpenTransaction,
    abort_transaction,
    find_hanging_transactions,
)
from spark_kafka_native._client.transactions.requests import init_producer
from spark_kafka_native._command_line.commands import Group, Options
from spark_kafka_native._command_line.output import InvalidOption, ToolFailed, say
from spark_kafka_native._command_line.parameters import INT16, INT32, INT64, option, together
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError, counted
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._tools.connection import failing, on_cluster
from spark_kafka_native._tools.options import cluster_options, kafka_version
from spark_kafka_native._tools.tables import Cell, Column, Table, json_flag

_LISTED: Final = (
    ("TransactionalId", "transactionalId"),
    ("Coordinator", "coordinator"),
    ("ProducerId", "producerId"),
    ("TransactionState", "transactionState"),
)
_DESCRIBED: Final = (
    ("CoordinatorId", "coordinatorId"),
    ("TransactionalId", "transactionalId"),
    ("ProducerId", "producerId"),
    ("ProducerEpoch", "producerEpoch"),
    ("TransactionState", "transactionState"),
    ("TransactionTimeoutMs", "transactionTimeoutMs"),
    ("CurrentTransactionStartTimeMs", "currentTransactionStartTimeMs"),
    ("TransactionDurationMs", "transactionDurationMs"),
    ("TopicPartitions", "topicPartitions"),
)
_PRODUCERS: Final = (
    ("ProducerId", "producerId"),
    ("ProducerEpoch", "producerEpoch"),
    ("LatestCoordinatorEpoch", "latestCoordinatorEpoch"),
    ("LastSequence", "lastSequence"),
    ("LastTimestamp", "lastTimestamp"),
    ("CurrentTransactionStartOffset", "currentTransactionStartOffset"),
)
_HANGING: Final = (
    ("Topic", "topic"),
    ("Partition", "partition"),
    ("ProducerId", "producerId"),
    ("ProducerEpoch", "producerEpoch"),
    ("CoordinatorEpoch", "coordinatorEpoch"),
    ("StartOffset", "startOffset"),
    ("LastTimestamp", "lastTimestamp"),
    ("Duration(min)", "durationMinutes"),
)
_NONE: Final = "None"
_MS_PER_MINUTE: Final = 60_000
_LONGEST_TIMEOUT_MINUTES: Final = 15
"""The brokers' default of ``transaction.max.timeout.ms``."""


_partition_required = together(
    option("--topic", required=True, help="name of the topic"),
    option("--partition", required=True, type=INT32, metavar="N", help="number of the partition"),
)


@click.group(
    "kafka-transactions", cls=Group, subcommand_metavar="ACTION ...",
    help="List, describe and end transactions. find-hanging prints those that no coordinator will end.",
    epilog="""\
examples
  {command} --bootstrap-server localhost:9092 list
  {command} --bootstrap-server localhost:9092 find-hanging --topic events
  {command} --bootstrap-server localhost:9092 abort --topic events --partition 0 --start-offset 42""",
)  # fmt: skip
@kafka_version
@cluster_options()
def transactions(**_: object) -> None:
    """The options of the cluster are here, as in Kafka's tool, or those of the action."""


@transactions.command("list", help="Print the transactional ids of all brokers.")
@option(
    "--duration-filter",
    type=INT64,
    metavar="MS",
    help="only transactions that are open for longer than this; negative: all",
)
@option("--transactional-id-pattern", metavar="RE2", help="only ids that match the whole expression")
@json_flag
@cluster_options()
@on_cluster
def _list(cluster: Cluster, options: Options) -> None:
    pattern, open_for_ms = options.transactional_id_pattern, options.duration_filter
    if open_for_ms is not None and open_for_ms < 0:
        open_for_ms = None
    try:
        with failing("Failed to list transactions"):
            found = list_transactions(cluster, open_for_ms=open_for_ms, pattern=pattern)
    except re.error as error:  # brokers before 4.1 leave matching to the client
        raise InvalidOption(f"--transactional-id-pattern: {pattern!r} is not a regular expression: {error}") from error
    rows = [(item.transactional_id, item.coordinator, item.producer_id, item.state.value) for item in found]
    _print_table(_LISTED, rows, options)


@transactions.command("describe", help="Print one transactional id and its transaction.")
@option("--transactional-id", required=True, metavar="ID", help="the transactional id")
@json_flag
@cluster_options()
@on_cluster
def _describe(cluster: Cluster, options: Options) -> None:
    key: str = options.transactional_id
    with failing(f"Failed to describe transaction state of transactional-id `{key}`"):
        found = describe_transactions(cluster, [key]).get(key)
        if found is None:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        deadline = cluster.deadline()
        coordinator = look_up_coordinator(cluster, CoordinatorType.TRANSACTION, key, deadline)
    is_open = found.started_ms >= 0
    _print_table(
        _DESCRIBED,
        [
            (
                coordinator.node_id,
                key,
                found.producer_id,
                found.producer_epoch,
                found.state.value,
                found.timeout_ms,
                found.started_ms if is_open else None,
                _now_ms() - found.started_ms if is_open else None,
                sorted(found.partitions),
            )
        ],
        options,
    )


@transactions.command("describe-producers", help="Print the producer state of a partition.")
@option("--broker-id", type=INT32, metavar="ID", help="send the request to this replica instead of the leader")
@_partition_required
@json_flag
@cluster_options()
@on_cluster
def _describe_producers(cluster: Cluster, options: Options) -> None:
    partition = TopicPartition(options.topic, options.partition)
    replica = "leader" if options.broker_id is None else f"broker {options.broker_id}"
    with failing(f"Failed to describe producers for partition {partition} on {replica}"):
        found = describe_producers(cluster, [partition], broker_id=options.broker_id)[partition]
    rows = [
        (
            producer.producer_id,
            producer.producer_epoch,
            producer.coordinator_epoch,
            producer.last_sequence,
            producer.last_timestamp_ms,
            producer.transaction_start_offset if producer.has_open_transaction else None,
        )
        for producer in found
    ]
    _print_table(_PRODUCERS, rows, options)


@transactions.command("abort", help="Abort a hanging transaction in one partition.")
@_partition_required
@option("--start-offset", type=INT64, metavar="OFFSET", help="first offset of the transaction")
@option(
    "--producer-id",
    type=INT64,
    metavar="ID",
    help="for brokers before 3.0: the producer, with --producer-epoch and --coordinator-epoch in place of "
    "--start-offset",
)
@option("--producer-epoch", type=INT16, metavar="EPOCH", help="epoch of --producer-id")
@option(
    "--coordinator-epoch",
    type=INT32,
    metavar="EPOCH",
    help="coordinator epoch of the partition's last marker; -1 if there is none",
)
@cluster_options()
@on_cluster
def _abort(cluster: Cluster, options: Options) -> None:
    partition = TopicPartition(options.topic, options.partition)
    if options.start_offset is not None:
        spec = _starting_at(cluster, partition, options.start_offset)
    else:
        for name in ("producer_id", "producer_epoch", "coordinator_epoch"):
            if getattr(options, name) is None:
                missing = "--start-offset" if name == "producer_id" else f"--{name.replace('_', '-')}"
                raise InvalidOption(
                    f"{missing} is missing: the transaction is named by --start-offset (brokers since 3.0), or by "
                    "--producer-id, --producer-epoch and --coordinator-epoch"
                )
        spec = AbortTransactionSpec(
            partition=partition,
            producer_id=options.producer_id,
            producer_epoch=options.producer_epoch,
            coordinator_epoch=max(0, options.coordinator_epoch),
        )
    with failing(f"Failed to abort transaction {spec}"):
        abort_transaction(cluster, spec)


def _starting_at(cluster: Cluster, partition: TopicPartition, start_offset: int) -> AbortTransactionSpec:
    with failing(f"Failed to validate producer state for partition {partition}"):
        producers = describe_producers(cluster, [partition])[partition]
    for producer in producers:
        if producer.has_open_transaction and producer.transaction_start_offset == start_offset:
            return AbortTransactionSpec.of(OpenTransaction(partition=partition, producer=producer))
    raise ToolFailed(f"Could not find any open transactions starting at offset {start_offset} on partition {partition}")


@transactions.command("find-hanging", help="Print open transactions that no coordinator will end.")
@option("--broker-id", type=INT32, metavar="ID", help="only partitions with a replica on this broker")
@option(
    "--max-transaction-timeout",
    type=INT32,
    default=_LONGEST_TIMEOUT_MINUTES,
    metavar="MINUTES",
    show_default=True,
    help="the longest transaction timeout in the cluster; producers that wrote more recently are left out",
)
@option("--topic", help="name of the topic")
@option("--partition", type=INT32, metavar="N", help="number of the partition")
@json_flag
@cluster_options()
@on_cluster
def _find_hanging(cluster: Cluster, options: Options) -> None:
    if options.topic is None and options.broker_id is None:
        raise InvalidOption("find-hanging needs --topic or --broker-id")
    if options.topic is None and options.partition is not None:
        raise InvalidOption("--partition needs --topic")
    if options.max_transaction_timeout < 0:
        raise InvalidOption(f"--max-transaction-timeout: {options.max_transaction_timeout} is negative")
    partitions = _partitions(cluster, options)
    with failing(f"Failed to find hanging transactions in {counted(len(partitions), 'partition')}"):
        found = find_hanging_transactions(
            cluster,
            partitions,
            longest_timeout_ms=options.max_transaction_timeout * _MS_PER_MINUTE,
            broker_id=options.broker_id,
        )
    now_ms = _now_ms()
    rows = [
        (
            each.partition.topic,
            each.partition.partition,
            each.producer.producer_id,
            each.producer.producer_epoch,
            each.producer.coordinator_epoch,
            each.producer.transaction_start_offset,
            each.producer.last_timestamp_ms,
            (now_ms - each.producer.last_timestamp_ms) // _MS_PER_MINUTE,
        )
        for each in found
    ]
    _print_table(_HANGING, rows, options)


def _partitions(cluster: Cluster, options: Options) -> list[TopicPartition]:
    """The partitions to search: one, or those of one or all topics, with ``--broker-id`` those with a replica there."""
    if options.partition is not None:
        return [TopicPartition(options.topic, options.partition)]
    what = "Failed to list topics" if options.topic is None else f"Failed to describe topic {options.topic}"
    with failing(what):
        topics = cluster.metadata(None if options.topic is None else [options.topic]).topics
    return [
        TopicPartition(name, number)
        for name, topic in sorted(topics.items())
        for number, partition in topic.partitions.items()
        if options.broker_id is None or options.broker_id in partition.replicas
    ]


@transactions.command(
    "forceTerminateTransaction", help="Fence the producer of a transactional id, which aborts its open transaction."
)
@option("--transactionalId", "transactional_id", required=True, metavar="ID", help="the transactional id")
@cluster_options()
@on_cluster
def _force_terminate(cluster: Cluster, options: Options) -> None:
    key: str = options.transactional_id
    config = cluster.config
    with failing(f"Failed to force terminate transactionalId `{key}`"):
        init_producer(
            cluster, key, timeout_ms=round(config.request_timeout_ms), max_block_ms=config.default_api_timeout_ms
        )


def _now_ms() -> int:
    return int(time.time() * 1000)


def _print_table(columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[Cell]], options: Options) -> None:
    """Print JSON, or columns as wide as their widest cell, each with a tab after it, as Kafka's tools print them."""
    if options.as_json:
        Table([Column(*column) for column in columns], rows).show(as_json=True)
        return
    table = [[title for title, _ in columns], *([_text(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table:
        say("".join(f"{cell:<{width}}\t" for cell, width in zip(line, widths, strict=True)))


def _text(cell: Cell) -> str:
    if cell is None:
        return _NONE
    return str(cell) if isinstance(cell, str | int) else ",".join(f"{part.topic}-{part.partition}" for part in cell)
