"""A KAFKA_HOME: a directory with scripts as in Apache Kafka, which run the bundled broker and its tools.

    pykafka home DIRECTORY

Programs that launch Apache Kafka by its scripts (trivup, pytest-kafka, the fixtures of kafka-python) launch this
broker if they are configured with the directory. A directory with files that this command did not create is refused.
"""

import shlex
import sys
from pathlib import Path
from typing import Final

from broker_embedded._tools.run_class import SCRIPTS
from broker_embedded._tools.server_stop import HOME_VARIABLE
from spark_kafka_native._command_line.commands import warn
from spark_kafka_native._command_line.output import InvalidOption, ToolFailed, say
from spark_kafka_native._command_line.parameters import PATH, argument
from spark_kafka_native._command_line.properties import file_error
from spark_kafka_native._tools.options import command

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
_ZOOKEEPER_PROPERTIES: Final = """\
# A ZooKeeper server on this machine alone.
clientPort=2181
clientPortAddress=127.0.0.1
dataDir={data_dir}
maxClientCnxns=0
admin.enableServer=false
"""
CONFIG_FILES: Final = {
    "server.properties": (_SERVER_PROPERTIES, "data"),
    "kraft/server.properties": (_SERVER_PROPERTIES, "data"),
    "zookeeper.properties": (_ZOOKEEPER_PROPERTIES, "zookeeper-data"),
}
"""The files in ``config``: their text, and the data directory in it."""


@command(
    "home",
    "Make a KAFKA_HOME with scripts of Kafka's names. It is for programs that launch Kafka. DIRECTORY does not exist, "
    "is empty, or has scripts of this command, which are updated; config/ is kept then.",
    """\
example
  {command} ./kafka-home
  ./kafka-home/bin/kafka-server-start.sh -daemon ./kafka-home/config/server.properties""",
)
@argument("directory", type=PATH)
def home(directory: Path) -> None:
    """Create or update a KAFKA_HOME."""
    try:
        kept = make_home(directory)
    except (OSError, ValueError) as error:
        raise ToolFailed(f"{directory}: {file_error(error)}") from error
    if kept is not None:
        written = [f"config/{name}" for name in CONFIG_FILES if name not in kept]
        parts = [f"the scripts in {directory} are updated"]
        parts += [f"kept: {', '.join(f'config/{name}' for name in kept)}"] if kept else []
        parts += [f"written, because missing: {', '.join(written)}"] if written else []
        warn("; ".join(parts))
    say(f"KAFKA_HOME={directory.resolve()}")


def make_home(directory: Path, python: str = sys.executable) -> tuple[str, ...] | None:
    """Write ``README.md``, ``bin/*.sh`` and ``CONFIG_FILES``; those that are kept, None in a new KAFKA_HOME.

    In a KAFKA_HOME of this function the files in ``config`` are kept, and those that are missing are written. The
    scripts run ``python``: the one that has this package. Raises InvalidOption if the directory contains other files;
    OSError.
    """
    readme = directory / "README.md"  # trivup recognizes a Kafka by this file
    is_new = not directory.exists() or not any(directory.iterdir())
    if not (is_new or (readme.is_file() and readme.read_bytes() == _README.encode())):
        raise InvalidOption(
            f"{directory} is not empty and was not created by this command; use a new or an empty directory"
        )
    directory.mkdir(parents=True, exist_ok=True)
    readme.write_text(_README, encoding="utf-8")
    for folder in ("bin", "config/kraft", "libs"):
        (directory / folder).mkdir(parents=True, exist_ok=True)
    for name in SCRIPTS:
        script = directory / "bin" / f"{name}.sh"
        script.write_text(
            _SCRIPT.format(variable=HOME_VARIABLE, python=shlex.quote(python), name=name), encoding="utf-8"
        )
        script.chmod(0o755)
    kept = []
    for name, (properties, data) in CONFIG_FILES.items():
        file = directory / "config" / name
        if file.exists():
            kept.append(name)
        else:
            file.write_text(properties.format(data_dir=(directory / data).resolve()), encoding="utf-8")
    return None if is_new else tuple(kept)
