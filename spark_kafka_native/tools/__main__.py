"""``python -m spark_kafka_native.tools TOOL ...``: one of Kafka's command-line tools, or one of our own."""

import importlib
import sys
from collections.abc import Sequence

from spark_kafka_native.tools.connection import BAD_USAGE, ToolError, complain, reporting_connections
from spark_kafka_native.tools.home import SCRIPTS
from spark_kafka_native.tools.run_class import refused, tool_and_arguments

_OUR_OWN = ("exactly-once", "home")
_ABORTED = 130
"""The shell's status of a program that the user has interrupted."""


def main(arguments: Sequence[str]) -> int:
    """Run a tool by its name; its exit status. 2: there is no such tool."""
    name, *left = arguments or [""]
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


def _module(name: str) -> str:
    return name.removeprefix("kafka-").replace("zookeeper-server", "zookeeper").replace("-", "_")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
