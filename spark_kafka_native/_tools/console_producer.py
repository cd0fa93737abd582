"""``kafka-console-producer.sh``: lines from standard input become records."""

import argparse
import itertools
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa

from spark_kafka_native._client.producer.producer import Producer
from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._tools.connection import open_cluster
from spark_kafka_native._tools.options import ToolParser, parse_pairs, with_defaults
from spark_kafka_native._tools.output import ToolError, ToolFailure, refuse

_TOOL: Final = "kafka-console-producer"
_LINES_AT_ONCE: Final = 10_000
READER_PROPERTIES: Final = {"parse.key": "false", "key.separator": "\t", "ignore.error": "false", "null.marker": ""}
"""What ``--property`` knows, and its defaults. An empty null.marker stands for none."""


def main(arguments: Sequence[str]) -> int:
    """Send standard input's lines; the exit status. 0: all are acknowledged. 1: some are not. 2: a bad option."""
    options = _parser().parse_args(arguments)
    try:
        given = with_defaults(options.property, READER_PROPERTIES)
        reading = {key: value.replace("\\t", "\t") for key, value in given.items()}
        if sys.stdin is None:
            raise ToolFailure("stdin is closed")
        with open_cluster(options, *_producer_properties(options)) as cluster, Producer(cluster) as producer:
            for lines in _in_pieces(sys.stdin.buffer):
                producer.send(options.topic, to_records(lines, reading))
                if sys.stdin.isatty() or options.sync:
                    producer.flush()
    except (ToolError, ValueError) as error:
        return refuse(_TOOL, ToolError(str(error)))
    except (KafkaError, ToolFailure, OSError) as error:
        return refuse(_TOOL, error)
    return 0


def _parser() -> ToolParser:
    parser = ToolParser(_TOOL, "Send the lines of standard input as records.")
    parser.add_cluster(files=("--producer.config", "--command-config"))
    parser.add_argument("--topic", required=True, help="the topic to write to")
    parser.add_argument("--sync", action="store_true", help="wait for each line to be acknowledged")
    parser.add_argument(
        "--compression-codec",
        nargs="?",
        const="gzip",
        help="none, gzip, snappy, lz4 or zstd; gzip if no codec is given",
    )
    parser.add_argument("--request-required-acks", help="acks: 0, 1 or all (all)")
    known = ", ".join(f"{key} ({value!r})" for key, value in READER_PROPERTIES.items())
    parser.add_argument(
        "--property", "--reader-property", action="append", default=[], metavar="KEY=VALUE", help=f"one of {known}"
    )
    parser.add_argument(
        "--producer-property", "--command-property", action="append", default=[], metavar="KEY=VALUE",
        help="a property of the client",
    )  # fmt: skip
    parser.add_replaced(
        "this tool runs no Java classes; --reader-property KEY=VALUE says how lines are read",
        *("--line-reader", "--reader-config"),
    )
    return parser


def _producer_properties(options: argparse.Namespace) -> Iterator[tuple[str, dict[str, str]]]:
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
