"""``python -m spark_kafka_native.tools TOOL ...``: one of Kafka's command-line tools, or one of our own."""

import importlib
import os
import sys
from collections.abc import Sequence

from spark_kafka_native.tools.connection import BAD_USAGE, OutputClosed, ToolError, complain, reporting_connections, say
from spark_kafka_native.tools.home import SCRIPTS
from spark_kafka_native.tools.run_class import refused, tool_and_arguments

_OUR_OWN = {
    "exactly-once": "Look at, complete and remove what queries with exactly-once have left.",
    "home": "Make a KAFKA_HOME with scripts of these tools.",
}
"""Tools that Apache Kafka does not have, with what they do."""
_ABORTED = 130
"""The shell's status of a program that the user has interrupted."""
_PIPE_CLOSED = 141
"""The shell's status of a program that SIGPIPE has ended."""


def main(arguments: Sequence[str]) -> int:
    """Run a tool by its name; its exit status. 2: there is no such tool. 141: nobody reads the output any more."""
    try:
        try:
            return _run(arguments)
        finally:
            sys.stdout.flush()
    except (OutputClosed, BrokenPipeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            os.dup2(nowhere, stream.fileno())  # so that Python does not fail when it flushes them at its end
        return _PIPE_CLOSED


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
    if name not in {*_OUR_OWN, *SCRIPTS}:
        complain(f"tools: there are {', '.join((*_OUR_OWN, *SCRIPTS))}" + (f"; no {name!r}" if name else ""))
        return BAD_USAGE
    tool = importlib.import_module(f"spark_kafka_native.tools.{_module(name)}")
    try:
        with reporting_connections():
            return int(tool.main(left))
    except KeyboardInterrupt:
        return _ABORTED


def _usage() -> str:
    tools = {**_OUR_OWN, **SCRIPTS}
    width = max(map(len, tools))
    lines = [f"  {name.ljust(width)}  {text}" for name, text in sorted(tools.items())]
    return "\n".join(["usage: python -m spark_kafka_native.tools TOOL ...", "", *lines, "", "TOOL --help: its options"])


def _module(name: str) -> str:
    return name.removeprefix("kafka-").replace("zookeeper-server", "zookeeper").replace("-", "_")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
