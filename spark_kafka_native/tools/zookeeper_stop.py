"""``zookeeper-server-stop.sh``: stop what ``zookeeper-server-start.sh`` of this KAFKA_HOME has started."""

from collections.abc import Sequence
from typing import Final

from spark_kafka_native.tools.connection import ToolParser
from spark_kafka_native.tools.server_stop import stop_servers

_TOOL: Final = "zookeeper-server-stop"


def main(arguments: Sequence[str]) -> int:
    """Send SIGTERM; the exit status. 0: done. 1: no such process runs. 2: a bad option."""
    ToolParser(_TOOL, "Stop the processes that stand in for ZooKeeper in this KAFKA_HOME.").parse_args(arguments)
    return stop_servers(_TOOL, "zookeeper", "zookeeper server")
