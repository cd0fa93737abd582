"""The command lines of ZooKeeper's server and shell.

They run from the jars of the installed package pyspark, so nothing else has to be downloaded. pyspark is not imported.
"""

import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from spark_kafka_native._java import JavaMissing, java_command

_SERVER: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_SHELL: Final = "org.apache.zookeeper.ZooKeeperMain"
_JARS: Final = (
    "zookeeper-[0-9]*.jar",
    "zookeeper-jute-*.jar",
    "slf4j-api-*.jar",
    "log4j-api-*.jar",
    "log4j-core-*.jar",
    "log4j-slf4j2-impl-*.jar",
    "metrics-core-*.jar",
    "snappy-java-*.jar",
    "commons-io-*.jar",
    "netty-*.jar",
)
"""Each pattern has a jar that both programs load."""
_SHELL_JARS: Final = ("commons-cli-*.jar", "jline-2.*.jar")
_SMALL_HEAP: Final = "64m"
_OPTIONS: Final = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",  # the fast compiler alone: the server starts earlier, and few requests come
    "-XX:-UsePerfData",  # no file in the machine's temporary directory
    "-Djava.awt.headless=true",
)
_FROM_JARS: Final = "ZooKeeper runs from the jars of pyspark"
_INSTALL: Final = "install spark-kafka-native[spark], or pyspark 4.2 or later"


class ZooKeeperMissing(Exception):
    """pyspark, its jars or a Java are missing. The message names what to install."""


def server_command(
    config_file: str | os.PathLike[str], *, heap: str = _SMALL_HEAP, log_level: str = "WARN"
) -> list[str]:
    """The command line of a server with a configuration file (``zoo.cfg``). It logs to stdout.

    ``heap`` is the largest size of Java's heap. Raises ZooKeeperMissing.
    """
    # Its HTTP server would listen at a fixed port of all addresses; a configuration file can set it to true.
    options = ["-Dzookeeper.admin.enableServer=false", "-Dzookeeper.jmx.log4j.disable=true"]
    return [*_java(_JARS, heap, log_level, options), _SERVER, os.fspath(config_file)]


def shell_command(connect_string: str, arguments: Sequence[str] = ()) -> list[str]:
    """The command line of a shell for the server at ``HOST:PORT`` or ``HOST:PORT/chroot``.

    With ``arguments``, which are one command such as ``ls /``, it runs this command and ends. Raises ZooKeeperMissing.
    """
    return [*_java((*_JARS, *_SHELL_JARS), _SMALL_HEAP, "WARN"), _SHELL, "-server", connect_string, *arguments]


def _java(patterns: Sequence[str], heap: str, log_level: str, options: Sequence[str] = ()) -> list[str]:
    """The command line up to the name of the class."""
    class_path = os.pathsep.join(map(str, _jars(patterns)))
    try:
        java = java_command("ZooKeeper")
    except JavaMissing as error:
        raise ZooKeeperMissing(str(error)) from error
    return [java, f"-Xmx{heap}", *_OPTIONS, f"-Dlog4j2.level={log_level}", *options, "-cp", class_path]


def _jars(patterns: Sequence[str]) -> list[Path]:
    """The jars in pyspark's directory, in the order of their patterns. Raises ZooKeeperMissing."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise ZooKeeperMissing(f"{_FROM_JARS}, which {sys.executable} does not have: {_INSTALL}")
    directory = Path(spec.submodule_search_locations[0], "jars")
    found = {pattern: sorted(directory.glob(pattern)) for pattern in patterns}
    missing = [pattern for pattern, jars in found.items() if not jars]
    if missing:
        raise ZooKeeperMissing(f"{_FROM_JARS}, but {directory} has no {missing[0]}: {_INSTALL}")
    return [jar for jars in found.values() for jar in jars]
