"""Runs a tool by its name. ``broker_embedded.tools`` has more tools than this package, and runs them the same way."""

import logging
import os
import pkgutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from spark_kafka_native._command_line import open_closed_streams
from spark_kafka_native._protocol.nearest import did_you_mean
from spark_kafka_native._tools.output import BAD_USAGE, FAILED, OutputClosed, OutputFailed, complain, flush_output, say

_ABORTED: Final = 130
"""The shell's status of a program that the user has interrupted."""
_PIPE_CLOSED: Final = 141
"""The shell's status of a program that SIGPIPE has ended."""
_CLIENT: Final = "spark_kafka_native._client"
_MAX_REASONS: Final = 100


class Tool(NamedTuple):
    """A tool: ``function``, as ``module:function``, takes the arguments and returns the exit status."""

    function: str
    summary: str


_PACKAGE: Final = "spark_kafka_native._tools"
TOOLS: Final[Mapping[str, Tool]] = {
    "exactly-once": Tool(
        f"{_PACKAGE}.exactly_once:main", "Show, complete and delete the state of queries with exactly-once."
    ),
    "kafka-configs": Tool(
        f"{_PACKAGE}.configs:main",
        "Describe and alter settings of topics, brokers and groups, quotas, and users of SCRAM.",
    ),
    "kafka-console-consumer": Tool(f"{_PACKAGE}.console_consumer:main", "Print records as text."),
    "kafka-console-producer": Tool(f"{_PACKAGE}.console_producer:main", "Send lines of text as records."),
    "kafka-consumer-groups": Tool(
        f"{_PACKAGE}.consumer_groups:main", "List, describe, reset and delete consumer groups."
    ),
    "kafka-delete-records": Tool(
        f"{_PACKAGE}.delete_records:main", "Delete the records of partitions before an offset."
    ),
    "kafka-get-offsets": Tool(f"{_PACKAGE}.get_offsets:main", "Print first, last and other offsets of partitions."),
    "kafka-topics": Tool(f"{_PACKAGE}.topics:main", "Create, delete, list, describe and alter topics."),
    "kafka-transactions": Tool(f"{_PACKAGE}.transactions:main", "List, describe and end transactions."),
}
"""The tools that work with any cluster, by name."""


def run_tool(package: str, tools: Mapping[str, Tool], arguments: Sequence[str], hint: str = "") -> int:
    """Run ``python -m package TOOL ...``; the exit status of the tool. ``hint`` names where more tools are.

    1: stdout cannot be written. 2: ``tools`` has no such tool. 141: the reader of the output has closed it.
    """
    open_closed_streams()
    try:
        try:
            return _run(package, tools, arguments, hint)
        finally:
            flush_output()
    except OutputClosed:
        return _PIPE_CLOSED
    except OutputFailed as error:
        with suppress(OutputClosed):
            complain(f"{next((name for name in arguments[:1] if name in tools), 'tools')}: {error}")
        return FAILED
    finally:
        _discard_buffers()


def _discard_buffers() -> None:
    """Discard what stdout and stderr cannot write. Python flushes them at its end, and exits with 120 if it cannot."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


def _run(package: str, tools: Mapping[str, Tool], arguments: Sequence[str], hint: str) -> int:
    name, *left = arguments or [""]
    if name in {"-h", "--help"}:
        say(_usage(package, tools, hint))
        return 0
    if name not in tools:
        hints = "".join(f"; {each}" for each in (hint,) if each)
        problem = f"{name!r} is not one of" if name else "a tool is required, one of"
        complain(f"tools: {problem} {', '.join(sorted(tools))}{did_you_mean(name, tools)}{hints}")
        return BAD_USAGE
    try:
        with _reporting_connections():
            return call(tools[name], left)
    except KeyboardInterrupt:
        return _ABORTED


def call(tool: Tool, arguments: Sequence[str]) -> int:
    """Import the tool's module and run it; the exit status."""
    return int(pkgutil.resolve_name(tool.function)(arguments))


def _usage(package: str, tools: Mapping[str, Tool], hint: str) -> str:
    width = max(map(len, tools))
    lines = [f"  {name.ljust(width)}  {tool.summary}" for name, tool in sorted(tools.items())]
    notes = [*filter(None, (hint,)), "TOOL --help: its options"]
    return "\n".join([f"usage: python -m {package} TOOL ...", "", *lines, "", *notes])


@contextmanager
def _reporting_connections() -> Iterator[None]:
    """While the block runs, print what the client logs: why a broker cannot be reached, and warnings. Each once."""
    client = logging.getLogger(_CLIENT)
    handler, level = _OncePerReason(logging.INFO), client.level
    client.addHandler(handler)
    client.setLevel(logging.INFO)
    try:
        yield
    finally:
        client.setLevel(level)
        client.removeHandler(handler)


class _OncePerReason(logging.Handler):
    """Prints the first record of each address and reason to stderr."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self._printed: set[tuple[object, ...]] = set()

    def emit(self, record: logging.LogRecord) -> None:
        # The third argument is the time that is left, which is another one each time.
        arguments = record.args[:2] if isinstance(record.args, tuple) else ()
        key = (record.msg, *map(str, arguments))
        if key not in self._printed and len(self._printed) < _MAX_REASONS:
            self._printed.add(key)
            complain(record.getMessage())
