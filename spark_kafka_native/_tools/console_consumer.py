"""``kafka-console-consumer.sh``: records on standard output, one a line.

Partitions are read directly. With ``--group`` reading begins where that group has committed, and what was printed is
committed in its name; the tool is no member of the group, so brokers refuse that while the group has some.
"""

import argparse
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from spark_kafka_native._client.admin.committed_offsets import CommittedOffset, commit_offsets, fetch_offsets
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.consumer.cursor import PartitionRange
from spark_kafka_native._client.consumer.fetcher import Fetcher
from spark_kafka_native._client.consumer.offsets import EARLIEST, LATEST, list_offsets
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._tools.connection import open_cluster
from spark_kafka_native._tools.options import INT32, INT64, ToolParser, parse_pairs, with_defaults
from spark_kafka_native._tools.output import ToolError, ToolFailure, complain, refuse, say_bytes

_TOOL: Final = "kafka-console-consumer"
_POLL_MS: Final = 100.0
_FOREVER_MS: Final = 2**53
FORMAT_PROPERTIES: Final = {
    "print.timestamp": "false",
    "print.partition": "false",
    "print.offset": "false",
    "print.headers": "false",
    "print.key": "false",
    "print.value": "true",
    "key.separator": "\t",
    "line.separator": "\n",
    "headers.separator": ",",
    "null.literal": "null",
}
"""What ``--property`` knows, and its defaults."""
_TIMESTAMP_TYPES: Final = {0: "CreateTime", 1: "LogAppendTime"}


def main(arguments: Sequence[str]) -> int:
    """Print records; the exit status.

    0: --max-messages were printed, or none came for --timeout-ms. 1: an error. 2: a bad option.
    """
    options = _parser().parse_args(arguments)
    printed = 0
    try:
        given = with_defaults(options.property, FORMAT_PROPERTIES)
        form = {key: value.replace("\\t", "\t").replace("\\n", "\n") for key, value in given.items()}
        properties = ("--consumer-property", parse_pairs(options.consumer_property, "--consumer-property"))
        isolation = ("--isolation-level", {"isolation.level": options.isolation_level})
        with open_cluster(options, properties, isolation) as cluster:
            for line in _lines(cluster, options, form):
                say_bytes(line)
                printed += 1
    except (ToolError, ValueError) as error:
        return refuse(_TOOL, ToolError(str(error)))
    except (KafkaError, ToolFailure, OSError) as error:
        return refuse(_TOOL, error)
    finally:
        complain(f"Processed a total of {printed} messages")
    return 0


def _parser() -> ToolParser:
    parser = ToolParser(_TOOL, "Print records, one a line.")
    parser.add_cluster(files=("--consumer.config", "--command-config"))
    topics = parser.add_mutually_exclusive_group(required=True)
    topics.add_argument("--topic", help="the topic to read")
    topics.add_argument("--include", "--whitelist", metavar="REGEX", help="read all topics whose names match")
    parser.add_argument("--partition", type=INT32, help="read this partition only")
    parser.add_argument(
        "--offset", default=None, help="with --partition: start at this offset, or at earliest or latest"
    )
    parser.add_argument(
        "--from-beginning", action="store_true", help="start at the earliest record instead of the latest"
    )
    parser.add_argument("--max-messages", type=INT32, metavar="N", help="end after N records")
    parser.add_argument("--timeout-ms", type=INT64, metavar="MS", help="end if no record was read for this time")
    parser.add_argument(
        "--group", metavar="ID", help="start at the committed offsets of this group, and commit its offsets"
    )
    parser.add_argument(
        "--isolation-level", choices=("read_committed", "read_uncommitted"), default="read_uncommitted",
        help="read_committed leaves out records of open and aborted transactions",
    )  # fmt: skip
    known = ", ".join(f"{key} ({value!r})" for key, value in FORMAT_PROPERTIES.items())
    parser.add_argument(
        "--property", "--formatter-property", action="append", default=[], metavar="KEY=VALUE", help=f"one of {known}"
    )
    parser.add_argument(
        "--consumer-property", "--command-property", action="append", default=[], metavar="KEY=VALUE",
        help="a property of the client",
    )  # fmt: skip
    parser.add_replaced(
        "this tool runs no Java classes; --formatter-property KEY=VALUE chooses what is printed of a record",
        *("--formatter", "--formatter-config", "--key-deserializer", "--value-deserializer"),
    )
    return parser


def _lines(cluster: Cluster, options: argparse.Namespace, form: dict[str, str]) -> Iterator[bytes]:
    """Records as lines, round after round over all partitions, until there are enough or none came for long enough."""
    positions = _start(cluster, options)
    timeout_ms = _FOREVER_MS if options.timeout_ms is None else options.timeout_ms
    left = options.max_messages
    silence = Deadline.after_ms(timeout_ms)
    while left is None or left > 0:
        found = False
        for partition, until in _ends(cluster, positions).items():
            for line in _of_one(cluster, partition, positions, until, form):
                found = True
                yield line
                left = None if left is None else left - 1
                if left == 0:
                    break
            if left == 0:
                break
        if options.group and (found or left == 0):
            commits = {partition: CommittedOffset(offset=offset) for partition, offset in positions.items()}
            commit_offsets(cluster, options.group, commits)
        if found:
            silence = Deadline.after_ms(timeout_ms)
        elif not silence.pause(_POLL_MS):
            return


def _of_one(
    cluster: Cluster, partition: TopicPartition, positions: dict[TopicPartition, int], until: int, form: dict[str, str]
) -> Iterator[bytes]:
    """The lines of one partition up to ``until``; its position moves with each line that is taken."""
    if positions[partition] >= until:
        return
    wanted = PartitionRange(partition=partition, from_offset=positions[partition], until_offset=until)
    with Fetcher(cluster, [wanted]) as fetcher:
        for _, rows in fetcher:
            for row in _rows(rows):
                positions[partition] = row["offset"] + 1
                yield to_line(row, partition, form)
        positions[partition] = fetcher.position(partition)


def _rows(records: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    times = records.column("timestamp").cast(pa.int64())
    index = records.schema.get_field_index("timestamp")
    yield from records.set_column(index, "timestamp", times).to_pylist()


def to_line(row: dict[str, Any], partition: TopicPartition, form: dict[str, str]) -> bytes:
    """One record as the properties of the format have it, with the end of the line."""
    null = form["null.literal"].encode()
    parts: list[bytes] = []
    if _wants(form, "timestamp"):
        name = _TIMESTAMP_TYPES.get(row["timestamp_type"])
        parts.append(f"{name}:{row['timestamp']}".encode() if name else b"NO_TIMESTAMP")
    if _wants(form, "partition"):
        parts.append(f"Partition:{partition.partition}".encode())
    if _wants(form, "offset"):
        parts.append(f"Offset:{row['offset']}".encode())
    if _wants(form, "headers"):
        pairs = [
            header["key"].encode() + b":" + (null if header["value"] is None else header["value"])
            for header in row["headers"] or ()
        ]
        parts.append(form["headers.separator"].encode().join(pairs) or b"NO_HEADERS")
    shown = [row[column] for column in ("key", "value") if _wants(form, column)]
    parts += [null if content is None else content for content in shown]
    return form["key.separator"].encode().join(parts) + form["line.separator"].encode()


def _wants(form: dict[str, str], part: str) -> bool:
    return form[f"print.{part}"].lower() == "true"


def _start(cluster: Cluster, options: argparse.Namespace) -> dict[TopicPartition, int]:
    """Where reading begins, by partition. Raises ToolError, KafkaError."""
    partitions = _partitions(cluster, options)
    position = _position(options)
    commits = {} if options.group is None else fetch_offsets(cluster, options.group, partitions)
    positions = {partition: commit.offset for partition, commit in commits.items()}
    if position >= 0:
        return dict.fromkeys(partitions, position) | positions
    left = {partition: position for partition in partitions if partition not in positions}
    return positions | {partition: found.offset for partition, found in list_offsets(cluster, left).items()}


def _position(options: argparse.Namespace) -> int:
    if options.offset is None:
        return EARLIEST if options.from_beginning else LATEST
    if options.partition is None:
        raise ToolError("--offset needs --partition")
    if options.offset in {"earliest", "latest"}:
        return EARLIEST if options.offset == "earliest" else LATEST
    if not options.offset.isdigit():
        raise ToolError(f"--offset: must be an offset, earliest or latest, not {options.offset!r}")
    return int(options.offset)


def _partitions(cluster: Cluster, options: argparse.Namespace) -> list[TopicPartition]:
    try:
        wanted = re.compile(options.include or "")
    except re.error as error:
        raise ToolError(f"--include: {options.include!r} is not a regular expression: {error}") from error
    topics = cluster.metadata(None if options.topic is None else [options.topic]).topics
    chosen = [name for name in topics if options.topic or wanted.fullmatch(name)]
    partitions = [
        TopicPartition(name, index)
        for name in chosen
        for index in topics[name].partitions
        if options.partition in {None, index}
    ]
    if not partitions:
        if options.partition is not None and chosen:
            raise ToolError(f"--partition: topic {chosen[0]} has no partition {options.partition}")
        raise ToolError(f"--include: no topic matches {options.include!r}")
    return partitions


def _ends(cluster: Cluster, positions: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    ends = list_offsets(cluster, dict.fromkeys(positions, LATEST))
    return {partition: found.offset for partition, found in sorted(ends.items())}
