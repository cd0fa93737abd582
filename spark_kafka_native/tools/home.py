"""A KAFKA_HOME: a directory with the scripts of Apache Kafka, behind which are the tools and the broker here.

    python -m spark_kafka_native.tools home DIRECTORY

Programs that launch Apache Kafka by its scripts (trivup, pytest-kafka, the fixtures of kafka-python) launch this
broker when they are given the directory.
"""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from spark_kafka_native.tools.connection import ToolParser, say
from spark_kafka_native.tools.server_stop import HOME_VARIABLE

SCRIPTS: Final = {
    "kafka-configs": "Describe and alter settings of topics, brokers and groups, quotas, and users of SCRAM.",
    "kafka-console-consumer": "Print records as text.",
    "kafka-console-producer": "Send lines of text as records.",
    "kafka-consumer-groups": "List, describe, reset and delete consumer groups.",
    "kafka-delete-records": "Delete the records of partitions before an offset.",
    "kafka-dump-log": "Print the files of a partition's directory.",
    "kafka-get-offsets": "Print first, last and other offsets of partitions.",
    "kafka-run-class": "Run a tool by the name of its Java class.",
    "kafka-server-start": "Start the bundled broker.",
    "kafka-server-stop": "Stop the brokers that scripts of this KAFKA_HOME have started.",
    "kafka-storage": "Format a data directory for a cluster.",
    "kafka-topics": "Create, delete, list, describe and alter topics.",
    "kafka-transactions": "List, describe and end transactions.",
    "zookeeper-server-start": "Listen in place of ZooKeeper, for programs that start it before Kafka.",
    "zookeeper-server-stop": "Stop what zookeeper-server-start has started.",
    "zookeeper-shell": "Fail, because there is no ZooKeeper.",
}
"""The scripts, without their ``.sh``, with what they do."""

_SCRIPT: Final = """\
#!/bin/sh
{variable}=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd -P) || exit 1
export {variable}
exec {python} -m spark_kafka_native.tools {name} "$@"
"""
_README: Final = """\
The scripts of Apache Kafka, with the bundled broker of spark-kafka-native and its tools behind them.
"""
_SERVER_PROPERTIES: Final = """\
# A broker on this machine alone. Its settings: python -m broker_embedded --help
node.id=1
listeners=PLAINTEXT://127.0.0.1:9092
log.dirs={data_dir}
"""


def main(arguments: Sequence[str]) -> int:
    """Make, or renew, a KAFKA_HOME; the exit status, 0."""
    parser = ToolParser("home", "Make a directory with Kafka's scripts, for programs that launch Kafka.")
    parser.add_argument("directory", type=Path, help="where bin/ and config/ are to be")
    directory: Path = parser.parse_args(arguments).directory
    make_home(directory)
    say(f"KAFKA_HOME={directory.resolve()}")
    return 0


def make_home(directory: Path, python: str = sys.executable) -> None:
    """Write ``README.md``, ``bin/*.sh`` and ``config/server.properties``; other files stay. Raises OSError.

    The scripts run ``python``: the one that has this package.
    """
    bin_dir, config_dir = directory / "bin", directory / "config"
    for folder in (bin_dir, config_dir, directory / "libs"):
        folder.mkdir(parents=True, exist_ok=True)
    (directory / "README.md").write_text(_README, encoding="utf-8")  # trivup takes it as the sign of a Kafka
    for name in SCRIPTS:
        script = bin_dir / f"{name}.sh"
        script.write_text(
            _SCRIPT.format(variable=HOME_VARIABLE, python=shlex.quote(python), name=name), encoding="utf-8"
        )
        script.chmod(0o755)
    properties = _SERVER_PROPERTIES.format(data_dir=(directory / "data").resolve())
    for folder in (config_dir, config_dir / "kraft"):
        folder.mkdir(exist_ok=True)
        (folder / "server.properties").write_text(properties, encoding="utf-8")
