"""A KAFKA_HOME: a directory with scripts as in Apache Kafka, which run the bundled broker and its tools.

    python -m broker_embedded.tools home DIRECTORY

Programs that launch Apache Kafka by its scripts (trivup, pytest-kafka, the fixtures of kafka-python) launch this
broker if they are configured with the directory.
"""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from broker_embedded.tools.commands import SCRIPTS
from broker_embedded.tools.server_stop import HOME_VARIABLE
from spark_kafka_native.tools.options import ToolParser
from spark_kafka_native.tools.output import say

_SCRIPT: Final = """\
#!/bin/sh
{variable}=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd -P) || exit 1
export {variable}
exec {python} -m broker_embedded.tools {name} "$@"
"""
_README: Final = """\
Scripts with the names of Apache Kafka's, which run the bundled broker of spark-kafka-native and its tools.
"""
_SERVER_PROPERTIES: Final = """\
# A broker on this machine alone. Its settings: python -m broker_embedded --help
node.id=1
listeners=PLAINTEXT://127.0.0.1:9092
log.dirs={data_dir}
"""


def main(arguments: Sequence[str]) -> int:
    """Create or update a KAFKA_HOME; the exit status, 0."""
    parser = ToolParser("home", "Create a directory with Kafka's scripts, for programs that launch Kafka.")
    parser.add_argument("directory", type=Path, help="the directory in which bin/ and config/ are created")
    directory: Path = parser.parse_args(arguments).directory
    make_home(directory)
    say(f"KAFKA_HOME={directory.resolve()}")
    return 0


def make_home(directory: Path, python: str = sys.executable) -> None:
    """Write ``README.md``, ``bin/*.sh`` and ``config/server.properties``; other files are kept. Raises OSError.

    The scripts run ``python``: the one that has this package.
    """
    bin_dir, config_dir = directory / "bin", directory / "config"
    for folder in (bin_dir, config_dir, directory / "libs"):
        folder.mkdir(parents=True, exist_ok=True)
    (directory / "README.md").write_text(_README, encoding="utf-8")  # trivup recognizes a Kafka by this file
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
