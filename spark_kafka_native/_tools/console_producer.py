"""``kafka-console-producer.sh``: lines from standard input become records."""

import itertools
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from spark_kafka_native._client.producer.producer import Producer
from spark_kafka_native._command_line.commands import Options
from spark_kafka_native._command_line.output import ToolError, ToolFailure
from spark_kafka_native._command_line.parameters import flag, option, unsupported
from spark_kafka_native._command_line.properties import parse_pairs
from spark_kafka_native._tools.connection import open_cluster
from spark_kafka_native._tools.options import cluster_options, command, with_defaults

_LINES_AT_ONCE: Final = 10_000
READER_PROPERTIES: Final = {"parse.key": "false", "key.separator": "\t", "ignore.error": "false", "null.marker": ""}
"""What ``--property`` knows, and its defaults. An empty null.marker stands for none."""


_KNOWN: Final = ", ".join(f"{key} ({value!r})" for key, value in READER_PROPERTIES.items())


@command(
    "kafka-console-producer",
    "Send lines of text as records. They are those of standard input.",
    """\
examples
  {command} --bootstrap-server localhost:9092 --topic events < lines.txt
  {command} --bootstrap-server localhost:9092 --topic events --property parse.key=true < lines-with-tabs.txt""",
)
@option("--topic", required=True, help="the topic to write to")
@flag("--sync", help="wait for each line to be acknowledged")
@option(
    "--compression-codec",
    is_flag=False,
    flag_value="gzip",
    metavar="[CODEC]",
    help="none, gzip, snappy, lz4 or zstd; gzip if no codec is given",
)
@option("--request-required-acks", metavar="ACKS", help="acks: 0, 1 or all (all)")
@option("--property", "--reader-property", "property", multiple=True, metavar="KEY=VALUE", help=f"one of {_KNOWN}")
@option(
    "--producer-property",
    "--command-property",
    "producer_property",
    multiple=True,
    metavar="KEY=VALUE",
    help="a property of the client",
)
@unsupported(
    "this tool runs no Java classes; --reader-property KEY=VALUE says how lines are read",
    *("--line-reader", "--reader-config"),
)
@cluster_options("--producer.config")
def console_producer(**given: Any) -> None:
    """Done when all records are acknowledged."""
    options = Options(**given)
    defaults = with_defaults(options.property, READER_PROPERTIES)
    reading = {key: value.replace("\\t", "\t") for key, value in defaults.items()}
    if sys.stdin is None:
        raise ToolFailure("stdin is closed")
    with open_cluster(options, *_producer_properties(options)) as cluster, Producer(cluster) as producer:
        for lines in _in_pieces(sys.stdin.buffer):
            producer.send(options.topic, to_records(lines, reading))
            if sys.stdin.isatty() or options.sync:
                producer.flush()


def _producer_properties(options: Options) -> Iterator[tuple[str, dict[str, str]]]:
    """Options with the properties that they set."""
    yield "--producer-property", parse_pairs(options.producer_property, "--producer-property")
    if options.compression_codec:
        yield "--compression-codec", {"compression.type": options.compression_codec}
    if options.request_required_acks:
        yield "--request-required-acks", {"acks": options.request_required_acks}


def _in_pieces(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Lines without their ends; one by one from a terminal, thousands at once from a file."""
    stripped = (line.rstrip(b"\r\n") for line in lines)
    at_once = 1 if sys.stdin.isatty() else _LINES_AT_ONCE
    while piece := list(itertools.islice(stripped, at_once)):
        yield piece


def to_records(lines: Sequence[bytes], reading: dict[str, str]) -> pa.RecordBatch:
    """Columns key and value of lines. Raises ToolError: a line has no key and ought to."""
    marker = reading["null.marker"].encode()
    keys: list[bytes | None] = [None] * len(lines)
    values: list[bytes | None] = list(lines)
    if reading["parse.key"].lower() == "true":
        separator = reading["key.separator"].encode()
        for index, line in enumerate(lines):
            key, found, value = line.partition(separator)
            if found:
                keys[index], values[index] = key, value
            elif reading["ignore.error"].lower() != "true":
                raise ToolError(f"no key separator {reading['key.separator']!r} in {line.decode(errors='replace')!r}")
    if marker:
        keys = [None if key == marker else key for key in keys]
        values = [None if value == marker else value for value in values]
    columns = [pa.array(keys, pa.binary()), pa.array(values, pa.binary())]
    return pa.RecordBatch.from_arrays(columns, names=["key", "value"])
