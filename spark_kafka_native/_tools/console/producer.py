"""``kafka-console-producer.sh``: lines from standard input become records."""

import os
import select
import sys
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from spark_kafka_native._client.errors import RecordTooLarge
from spark_kafka_native._client.producer.producer import Producer
from spark_kafka_native._command_line.commands import Options
from spark_kafka_native._command_line.output import ToolFailed
from spark_kafka_native._command_line.parameters import flag, option, unsupported
from spark_kafka_native._command_line.properties import parse_pairs
from spark_kafka_native._tools.connection import open_cluster
from spark_kafka_native._tools.console.line_reader import READER_PROPERTIES, LineReader
from spark_kafka_native._tools.options import cluster_options, command, with_defaults

_READ_BYTES: Final = 1024 * 1024
_KNOWN: Final = ", ".join(f"{key} ({value!r})" for key, value in READER_PROPERTIES.items())


@command(
    "kafka-console-producer",
    "Send the lines of standard input as records.",
    """\
examples
  {command} --bootstrap-server localhost:9092 --topic events < lines.txt
  {command} --bootstrap-server localhost:9092 --topic events --property parse.key=true < lines-with-tabs.txt
  echo 'source:docs,lang:en|clicks=3' |
    {command} --bootstrap-server localhost:9092 --topic events \\
      --property parse.headers=true --property 'headers.delimiter=|'""",
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
    reader = LineReader(with_defaults(options.property, READER_PROPERTIES))
    if sys.stdin is None:
        raise ToolFailed("stdin is closed")
    with open_cluster(options, *_producer_properties(options)) as cluster, Producer(cluster) as producer:
        stdin, line = sys.stdin.fileno(), 0
        max_bytes = cluster.config.max_request_size
        for lines, is_cut in _lines_of(stdin, reader.longest_line_bytes(max_bytes)):
            records, problem = reader.records(lines)
            if is_cut and problem is None:
                problem = f"its record is larger than max.request.size, {max_bytes} bytes"
            for piece in [records.slice(row, 1) for row in range(len(records))] if options.sync else [records]:
                sent, too_large = _send(producer, options.topic, piece)
                line += sent
                if options.sync or too_large is not None:
                    producer.flush()
                if too_large is not None:
                    problem = too_large
                    break
            if problem is not None:
                producer.flush()
                raise ToolFailed(f"line {line + 1}: {problem}; lines sent before it: {line}")
            if not select.select([stdin], [], [], 0)[0]:  # the next lines may come much later
                producer.flush()


def _send(producer: Producer, topic: str, records: pa.RecordBatch) -> tuple[int, str | None]:
    """Send the records before the first one that is too large. Returns their number, and the error of that one."""
    try:
        producer.send(topic, records)
    except RecordTooLarge as error:
        producer.send(topic, records.slice(0, error.row))
        size = f"its record takes up to {error.size_bytes} bytes with its batch"
        return error.row, f"{size}, and max.request.size is {error.max_request_size}"
    return len(records), None


def _producer_properties(options: Options) -> Iterator[tuple[str, dict[str, str]]]:
    """Options with the properties that they set."""
    yield "--producer-property", parse_pairs(options.producer_property, "--producer-property")
    if options.compression_codec:
        yield "--compression-codec", {"compression.type": options.compression_codec}
    if options.request_required_acks:
        yield "--request-required-acks", {"acks": options.request_required_acks}


def _lines_of(stdin: int, max_bytes: int) -> Iterator[tuple[list[bytes], bool]]:
    """The whole lines of each read, without their ends: one from a terminal, thousands from a file, or none.

    With them: whether the next line is longer than ``max_bytes``. Nothing is read after it.
    """
    begun: list[bytes] = []  # of a line whose end has not been read
    size = 0
    while data := _read(stdin):
        begun.append(data)
        size += len(data)
        lines: list[bytes] = []
        if b"\n" in data:
            *lines, rest = b"".join(begun).split(b"\n")
            begun, size = [rest], len(rest)
        is_cut = size > max_bytes + 1  # with a carriage return
        yield [line.removesuffix(b"\r") for line in lines], is_cut
        if is_cut:
            return
    if last := b"".join(begun):
        yield [last.removesuffix(b"\r")], False


def _read(stdin: int) -> bytes:
    """The available bytes; empty at the end of the input."""
    while True:
        try:
            return os.read(stdin, _READ_BYTES)
        except BlockingIOError:  # a program that has the same terminal or pipe has set O_NONBLOCK
            select.select([stdin], [], [])
