"""``zookeeper-shell.sh``: fails, because the brokers of this KAFKA_HOME keep nothing in ZooKeeper."""

from collections.abc import Sequence
from typing import Final

from spark_kafka_native.tools.connection import ToolError, refuse

_TOOL: Final = "zookeeper-shell"


def main(arguments: Sequence[str]) -> int:  # noqa: ARG001  # every command fails
    """Say that there is no ZooKeeper; the exit status, 2."""
    return refuse(_TOOL, ToolError("this KAFKA_HOME has no ZooKeeper; its brokers keep their metadata in log.dirs"))
