"""ZooKeeper's scripts in a KAFKA_HOME: they run ZooKeeper's own server and shell, from the jars of pyspark.

Programs that start Kafka before 4.0 start ZooKeeper first. The bundled broker itself needs none.
"""

import os
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

from broker_embedded._config.settings import SettingError
from broker_embedded._platform.child_process import ChildProcess
from broker_embedded._tools.background import daemon_flag, report_started, start_in_background
from broker_embedded._tools.server_stop import registered, stop_servers
from broker_embedded._zookeeper_server.config import ServerConfig
from broker_embedded._zookeeper_server.programs import ZooKeeperMissing, server_command, shell_command
from spark_kafka_native._command_line.commands import PassingCommand
from spark_kafka_native._command_line.output import InvalidOption, ToolFailed, say
from spark_kafka_native._command_line.parameters import PATH, argument
from spark_kafka_native._command_line.properties import properties_in
from spark_kafka_native._tools.options import command

_START: Final = "zookeeper-server-start"
_OUTPUT: Final = "zookeeper.out"
_HEAP: Final = "512m"
"""As in Kafka's script."""
_POLL_S: Final = 0.05
_START_TIMEOUT_S: Final = 120.0
"""How long a server is asked whether it serves clients."""
_SHELL_HELP: Final = """\
usage: zookeeper-shell HOST:PORT[/CHROOT] [COMMAND ...]

Run a command on a ZooKeeper server, such as `ls /brokers/ids`, or without a command read commands from the terminal."""


@command(_START, "Start a ZooKeeper server. It needs Java and the jars of pyspark.")
@argument("properties", type=PATH, metavar="ZOOKEEPER.PROPERTIES")
@daemon_flag(_OUTPUT)
def start(*, properties: Path, daemon: bool) -> int:
    """Run a server until SIGTERM, SIGINT or SIGHUP; with ``-daemon`` start one."""
    if daemon:
        return start_in_background(_START, ["--", str(properties)], _OUTPUT)
    try:
        config = ServerConfig.parse(properties_in(properties))
    except SettingError as error:
        raise InvalidOption(f"{properties}: {error}") from error
    if not config.port:
        raise InvalidOption(f"{properties}: clientPort: clients cannot know which port 0 is; set another one")
    try:
        config.check_ports()
        config.make_directories()
    except OSError as error:
        raise ToolFailed(f"{properties}: {error}") from error
    with registered("zookeeper"), tempfile.TemporaryDirectory(prefix="zookeeper-") as folder:
        file = Path(folder, properties.name)
        config.write(file)
        try:
            line = server_command(file, heap=_HEAP, log_level="INFO")
        except ZooKeeperMissing as error:
            raise ToolFailed(str(error)) from error
        return _serve(line, config)


@command("zookeeper-server-stop", "Stop the ZooKeeper servers that scripts of this KAFKA_HOME have started.")
def stop() -> int:
    """Send SIGTERM. Fails if no such process runs."""
    return stop_servers("zookeeper", "zookeeper server")


@click.command("zookeeper-shell", cls=PassingCommand)
@click.pass_context
def shell(ctx: click.Context) -> None:
    """Replace this process by the shell. Its arguments are HOST:PORT or HOST:PORT/chroot, and a command."""
    if {"-h", "--help"} & set(ctx.args[:1]):
        say(_SHELL_HELP)
        return
    given = ctx.args[1:] if ctx.args[:1] == ["-server"] else ctx.args
    if not given or given[0].startswith("-"):
        raise InvalidOption("the address of a server is required: HOST:PORT or HOST:PORT/chroot, then a command")
    try:
        line = shell_command(given[0], given[1:])
    except ZooKeeperMissing as error:
        raise ToolFailed(str(error)) from error
    os.execv(line[0], line)  # noqa: S606  # no shell is needed; the terminal and the signals are those of this process


def _serve(line: list[str], config: ServerConfig) -> int:
    """Run a server until a signal stops it; exit status 0. Raises ToolFailed: it has ended by itself."""
    process = ChildProcess(line, inherits_output=True)
    with _stopping(process) as signals:
        deadline_s = time.monotonic() + _START_TIMEOUT_S
        while process.status() is None and not config.serves() and time.monotonic() < deadline_s:
            time.sleep(_POLL_S)
        if process.status() is None:
            report_started()
        status = process.wait()
    if not signals:
        raise ToolFailed(f"the server at {config.address} ended with status {status}")
    return 0


@contextmanager
def _stopping(process: ChildProcess) -> Iterator[list[int]]:
    """Stop a process by SIGTERM when this one receives a signal; the received signals."""
    received: list[int] = []

    def stop_process(number: int, _: object) -> None:
        received.append(number)
        process.send_signal(signal.SIGTERM)

    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = [signal.signal(number, stop_process) for number in numbers]
    try:
        yield received
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
