"""``python -m spark_kafka_native.tools TOOL ...``: one of Kafka's command-line tools, or one of our own."""

import importlib
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from broker_embedded.config.command_line import open_closed_streams
from spark_kafka_native.tools.connection import (
    BAD_USAGE,
    FAILED,
    OutputClosed,
    OutputFailed,
    ToolError,
    complain,
    flush_output,
    reporting_connections,
    say,
)
from spark_kafka_native.tools.home import SCRIPTS
from spark_kafka_native.tools.run_class import refused, tool_and_arguments

_OUR_OWN = {
    "exactly-once": "Look at, complete and remove what queries with exactly-once have left.",
    "home": "Make a KAFKA_HOME with scripts of these tools.",
}
"""Tools that Apache Kafka does not have, with what they do."""
_TOOLS = {**_OUR_OWN, **SCRIPTS}
_ABORTED = 130
"""The shell's status of a program that the user has interrupted."""
_PIPE_CLOSED = 141
"""The shell's status of a program that SIGPIPE has ended."""


def main(arguments: Sequence[str]) -> int:
    """Run a tool by its name; its exit status.

    1: stdout cannot be written. 2: there is no such tool. 141: nobody reads the output any more.
    """
    open_closed_streams()
    try:
        try:
            return _run(arguments)
        finally:
            flush_output()
    except OutputClosed:
        return _PIPE_CLOSED
    except OutputFailed as error:
        with suppress(OutputClosed):
            complain(f"{next((name for name in arguments[:1] if name in _TOOLS), 'tools')}: {error}")
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


def _run(arguments: Sequence[str]) -> int:
    name, *left = arguments or [""]
    if name in {"-h", "--help"}:
        say(_usage())
        return 0
    if name == "kafka-run-class":
        try:
            name, left = tool_and_arguments(left)
        except ToolError as error:
            return refused(error)
    if name not in _TOOLS:
        complain(f"tools: there are {', '.join(_TOOLS)}" + (f"; no {name!r}" if name else ""))
        return BAD_USAGE
    tool = importlib.import_module(f"spark_kafka_native.tools.{_module(name)}")
    try:
        with reporting_connections():
            return int(tool.main(left))
    except KeyboardInterrupt:
        return _ABORTED


def _usage() -> str:
    width = max(map(len, _TOOLS))
    lines = [f"  {name.ljust(width)}  {text}" for name, text in sorted(_TOOLS.items())]
    return "\n".join(["usage: python -m spark_kafka_native.tools TOOL ...", "", *lines, "", "TOOL --help: its options"])


def _module(name: str) -> str:
    return name.removeprefix("kafka-").replace("zookeeper-server", "zookeeper").replace("-", "_")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
