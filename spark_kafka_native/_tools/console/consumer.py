"""``kafka-console-consumer.sh``: records on standard output, one a line.

Partitions are read directly. With ``--group`` reading begins where that group has committed, and what was printed is
committed in its name; the tool is no member of the group, so brokers refuse that while the group has some.
"""

import functools
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import click
import pyarrow as pa

from spark_kafka_native._client.admin.committed_offsets import OffsetAndMetadata, commit_offsets, fetch_offsets
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.consumer.cursor import PartitionRange
from spark_kafka_native._client.consumer.offsets import EARLIEST, LATEST, offsets_at
from spark_kafka_native._client.consumer.row_fetcher import row_fetcher
from spark_kafka_native._command_line.commands import Options
from spark_kafka_native._command_line.output import InvalidOption, complain, json_bytes, json_field, say_bytes
from spark_kafka_native._command_line.parameters import INT32, INT64, OptionGroup, flag, option, unsupported
from spark_kafka_native._command_line.properties import parse_pairs
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._tools.connection import open_cluster
from spark_kafka_native._tools.options import cluster_options, command, with_defaults
from spark_kafka_native._tools.tables import json_flag

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
_Format = Callable[[dict[str, Any], TopicPartition], bytes]
_TIMESTAMP_TYPES: Final = {0: "CreateTime", 1: "LogAppendTime"}


_TOPICS: Final = OptionGroup("Topics", exclusive=True, required=True)
_KNOWN: Final = ", ".join(f"{key} ({value!r})" for key, value in FORMAT_PROPERTIES.items())


@command(
    "kafka-console-consumer",
    "Print records as text. By default a line is the value of a record.",
    """\
examples
  {command} --bootstrap-server localhost:9092 --topic events --from-beginning --max-messages 10 --json
  {command} --bootstrap-server localhost:9092 --topic events --group etl --property print.key=true""",
)
@option("--topic", group=_TOPICS, help="the topic to read")
@option("--include", "--whitelist", "include", metavar="REGEX", group=_TOPICS, help="read all topics whose names match")
@option("--partition", type=INT32, metavar="N", help="read this partition only")
@option("--offset", help="with --partition: start at this offset, or at earliest or latest")
@flag("--from-beginning", help="start at the earliest record instead of the latest")
@option("--max-messages", type=INT32, metavar="N", help="end after N records")
@option("--timeout-ms", type=INT64, metavar="MS", help="end if no record was read for this time")
@option("--group", metavar="ID", help="start at the committed offsets of this group, and commit its offsets")
@option(
    "--isolation-level",
    type=click.Choice(["read_committed", "read_uncommitted"]),
    default="read_uncommitted",
    help="read_committed leaves out records of open and aborted transactions",
)
@option("--property", "--formatter-property", "property", multiple=True, metavar="KEY=VALUE", help=f"one of {_KNOWN}")
@option(
    "--consumer-property",
    "--command-property",
    "consumer_property",
    multiple=True,
    metavar="KEY=VALUE",
    help="a property of the client",
)
@unsupported(
    "this tool runs no Java classes; --formatter-property KEY=VALUE chooses what is printed of a record",
    *("--formatter", "--formatter-config", "--key-deserializer", "--value-deserializer"),
)
@json_flag
@cluster_options("--consumer.config")
def console_consumer(**given: Any) -> None:
    """Ends when --max-messages were printed, or when none came for --timeout-ms. The number of records is on stderr."""
    options = Options(**given)
    printed = 0
    try:
        if options.as_json and options.property:
            raise InvalidOption("--property has no effect with --json")
        form = {
            key: value.replace("\\t", "\t").replace("\\n", "\n")
            for key, value in with_defaults(options.property, FORMAT_PROPERTIES).items()
        }
        properties = ("--consumer-property", parse_pairs(options.consumer_property, "--consumer-property"))
        isolation = ("--isolation-level", {"isolation.level": options.isolation_level})
        with open_cluster(options, properties, isolation) as cluster:
            to_bytes = to_json if options.as_json else functools.partial(to_line, form=form)
            for line in _lines(cluster, options, to_bytes):
                say_bytes(line)
                printed += 1
    finally:
        complain(f"Processed a total of {printed} messages")


def _lines(cluster: Cluster, options: Options, to_bytes: _Format) -> Iterator[bytes]:
    """Records as lines, round after round over all partitions, until there are enough or none came for long enough."""
    positions = _start(cluster, options)
    timeout_ms = _FOREVER_MS if options.timeout_ms is None else options.timeout_ms
    left = options.max_messages
    silence = Deadline.after_ms(timeout_ms)
    while left is None or left > 0:
        found = False
        for partition, until in _ends(cluster, positions).items():
            for line in _of_one(cluster, partition, positions, until, to_bytes):
                found = True
                yield line
                left = None if left is None else left - 1
                if left == 0:
                    break
            if left == 0:
                break
        if options.group and (found or left == 0):
            commits = {partition: OffsetAndMetadata(offset=offset) for partition, offset in positions.items()}
            commit_offsets(cluster, options.group, commits)
        if found:
            silence = Deadline.after_ms(timeout_ms)
        elif not silence.pause(_POLL_MS):
            return


def _of_one(
    cluster: Cluster, partition: TopicPartition, positions: dict[TopicPartition, int], until: int, to_bytes: _Format
) -> Iterator[bytes]:
    """The lines of one partition up to ``until``; its position moves with each line that is taken."""
    if positions[partition] >= until:
        return
    wanted = PartitionRange(partition=partition, from_offset=positions[partition], until_offset=until)
    with row_fetcher(cluster, [wanted]) as fetcher:
        for _, rows in fetcher:
            for row in _rows(rows):
                positions[partition] = row["offset"] + 1
                yield to_bytes(row, partition)
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


def to_json(row: dict[str, Any], partition: TopicPartition) -> bytes:
    """One record as an object of JSON, with the end of the line. Bytes that are not UTF-8 are in base64."""
    record = {
        "topic": partition.topic,
        "partition": partition.partition,
        "offset": row["offset"],
        "timestamp": row["timestamp"],
        "timestampType": _TIMESTAMP_TYPES.get(row["timestamp_type"]),
        **json_field("key", row["key"]),
        **json_field("value", row["value"]),
        "headers": [{"key": each["key"], **json_field("value", each["value"])} for each in row["headers"] or ()],
    }
    return json_bytes(record)


def _wants(form: dict[str, str], part: str) -> bool:
    return form[f"print.{part}"].lower() == "true"


def _start(cluster: Cluster, options: Options) -> dict[TopicPartition, int]:
    """Where reading begins, by partition. Raises InvalidOption, KafkaError."""
    partitions = _partitions(cluster, options)
    position = _position(options)
    commits = {} if options.group is None else fetch_offsets(cluster, options.group, partitions)
    positions = {partition: commit.offset for partition, commit in commits.items()}
    if position >= 0:
        return dict.fromkeys(partitions, position) | positions
    left = {partition: position for partition in partitions if partition not in positions}
    return positions | offsets_at(cluster, left)


def _position(options: Options) -> int:
    if options.offset is None:
        return EARLIEST if options.from_beginning else LATEST
    if options.partition is None:
        raise InvalidOption("--offset needs --partition")
    if options.offset in {"earliest", "latest"}:
        return EARLIEST if options.offset == "earliest" else LATEST
    if not options.offset.isdigit():
        raise InvalidOption(f"--offset: must be an offset, earliest or latest, not {options.offset!r}")
    return int(options.offset)


def _partitions(cluster: Cluster, options: Options) -> list[TopicPartition]:
    try:
        wanted = re.compile(options.include or "")
    except re.error as error:
        raise InvalidOption(f"--include: {options.include!r} is not a regular expression: {error}") from error
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
            raise InvalidOption(f"--partition: topic {chosen[0]} has no partition {options.partition}")
        raise InvalidOption(f"--include: no topic matches {options.include!r}")
    return partitions


def _ends(cluster: Cluster, positions: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    return dict(sorted(offsets_at(cluster, dict.fromkeys(positions, LATEST)).items()))
