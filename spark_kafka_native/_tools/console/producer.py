"""``kafka-console-producer.sh``: lines from standard input become records."""

import os
import select
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from spark_kafka_native._client.errors import RecordTooLarge
from spark_kafka_native._client.producer.producer import Producer
from spark_kafka_native._command_line.commands import Options
from spark_kafka_native._command_line.output import InvalidOption, ToolFailed
from spark_kafka_native._command_line.parameters import flag, option, unsupported
from spark_kafka_native._command_line.properties import parse_pairs
from spark_kafka_native._tools.connection import open_cluster
from spark_kafka_native._tools.options import cluster_options, command, with_defaults

_READ_BYTES: Final = 1024 * 1024
READER_PROPERTIES: Final = {"parse.key": "false", "key.separator": "\t", "ignore.error": "false", "null.marker": ""}
"""Properties of ``--property``, with their defaults. An empty null.marker stands for none."""


_KNOWN: Final = ", ".join(f"{key} ({value!r})" for key, value in READER_PROPERTIES.items())


@command(
    "kafka-console-producer",
    "Send the lines of standard input as records.",
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
    if reading["parse.key"].lower() == "true" and not reading["key.separator"]:
        raise InvalidOption("--property: key.separator must not be empty")
    if sys.stdin is None:
        raise ToolFailed("stdin is closed")
    with open_cluster(options, *_producer_properties(options)) as cluster, Producer(cluster) as producer:
        stdin, line = sys.stdin.fileno(), 0
        max_bytes = cluster.config.max_request_size
        # What a line can have that its record has not: the separator, and the marker as key and as value.
        not_in_records = len(f"{reading['key.separator']}{2 * reading['null.marker']}".encode())
        for lines, is_cut in _lines_of(stdin, max_bytes + not_in_records):
            records, problem = to_records(lines, reading)
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


def to_records(lines: Sequence[bytes], reading: dict[str, str]) -> tuple[pa.RecordBatch, str | None]:
    """Columns key and value of the lines before the first invalid one, and its error."""
    marker = reading["null.marker"].encode()
    is_keyed, may_lack_key = (reading[name].lower() == "true" for name in ("parse.key", "ignore.error"))
    separator = reading["key.separator"].encode()
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    problem = None
    for line in lines:
        key, found, value = line.partition(separator) if is_keyed else (b"", b"", line)
        if is_keyed and not found and not may_lack_key:
            problem = f"no key separator {reading['key.separator']!r} in {line.decode(errors='replace')!r:.200}"
            break
        keys.append(key if found else None)
        values.append(value if found else line)
    if marker:
        keys = [None if key == marker else key for key in keys]
        values = [None if value == marker else value for value in values]
    columns = [pa.array(keys, pa.binary()), pa.array(values, pa.binary())]
    return pa.RecordBatch.from_arrays(columns, names=["key", "value"]), problem
