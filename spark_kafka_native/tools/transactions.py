"""``kafka-transactions.sh``: list and describe transactions, and the producers of a partition."""

import argparse
import time
from collections.abc import Sequence
from typing import Final

from spark_kafka_native.client.cluster import Cluster
from spark_kafka_native.client.coordinators import look_up_coordinator
from spark_kafka_native.client.describe_producers import describe_producers
from spark_kafka_native.client.describe_transactions import describe_transactions, list_transactions
from spark_kafka_native.client.known_coordinators import CoordinatorType
from spark_kafka_native.net.deadline import Deadline
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError
from spark_kafka_native.protocol.topic import TopicPartition
from spark_kafka_native.tools.connection import ToolError, ToolParser, open_cluster, refuse, say

_TOOL: Final = "kafka-transactions"
_LISTED: Final = ("TransactionalId", "Coordinator", "ProducerId", "TransactionState")
_DESCRIBED: Final = (
    "CoordinatorId",
    "TransactionalId",
    "ProducerId",
    "ProducerEpoch",
    "TransactionState",
    "TransactionTimeoutMs",
    "CurrentTransactionStartTimeMs",
    "TransactionDurationMs",
    "TopicPartitions",
)
_PRODUCERS: Final = (
    "ProducerId",
    "ProducerEpoch",
    "LatestCoordinatorEpoch",
    "LastSequence",
    "LastTimestamp",
    "CurrentTransactionStartOffset",
)
_NONE: Final = "None"


def main(arguments: Sequence[str]) -> int:
    """Print a table; the exit status. 0: done. 1: the cluster refused it. 2: a bad option."""
    options = _parser().parse_args(arguments)
    try:
        with open_cluster(options) as cluster:
            options.action(cluster, options)
    except (ToolError, ValueError) as error:
        return refuse(_TOOL, ToolError(str(error)))
    except KafkaError as error:
        return refuse(_TOOL, error)
    return 0


def _parser() -> ToolParser:
    parser = ToolParser(_TOOL, "List and describe transactions, and the producers of a partition.")
    parser.add_cluster()
    actions = parser.add_subparsers(required=True, metavar="ACTION", parser_class=argparse.ArgumentParser)
    listing = actions.add_parser("list", help="print the transactional ids of all brokers")
    listing.set_defaults(action=_list)
    listing.add_argument("--duration-filter", type=int, metavar="MS", help="only transactions open for so long")
    listing.add_argument("--transactional-id-pattern", metavar="RE2", help="only ids that match as a whole")
    describing = actions.add_parser("describe", help="print one transactional id and its transaction")
    describing.set_defaults(action=_describe)
    describing.add_argument("--transactional-id", required=True)
    producers = actions.add_parser("describe-producers", help="print the producers that a partition remembers")
    producers.set_defaults(action=_describe_producers)
    producers.add_argument("--topic", required=True)
    producers.add_argument("--partition", required=True, type=int)
    return parser


def _list(cluster: Cluster, options: argparse.Namespace) -> None:
    pattern = options.transactional_id_pattern
    found = list_transactions(cluster, open_for_ms=options.duration_filter, pattern=pattern)
    rows = [(item.transactional_id, item.coordinator, item.producer_id, item.state.value) for item in found]
    _print_table(_LISTED, rows)


def _describe(cluster: Cluster, options: argparse.Namespace) -> None:
    key: str = options.transactional_id
    found = describe_transactions(cluster, [key]).get(key)
    if found is None:
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"transactional id {key} was not found")
    deadline = Deadline.after_ms(cluster.config.default_api_timeout_ms)
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
                found.started_ms if is_open else _NONE,
                int(time.time() * 1000) - found.started_ms if is_open else _NONE,
                ",".join(f"{part.topic}-{part.partition}" for part in sorted(found.partitions)),
            )
        ],
    )


def _describe_producers(cluster: Cluster, options: argparse.Namespace) -> None:
    partition = TopicPartition(options.topic, options.partition)
    rows = [
        (
            producer.producer_id,
            producer.producer_epoch,
            producer.coordinator_epoch,
            producer.last_sequence,
            producer.last_timestamp_ms,
            producer.transaction_start_offset if producer.has_open_transaction else _NONE,
        )
        for producer in describe_producers(cluster, [partition])[partition]
    ]
    _print_table(_PRODUCERS, rows)


def _print_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Columns as wide as their widest cell, each with a tab after it, as Kafka's tools print them."""
    table = [header, *([str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table:
        say("".join(f"{cell:<{width}}\t" for cell, width in zip(line, widths, strict=True)))
