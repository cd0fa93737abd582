"""ZooKeeper's scripts in a KAFKA_HOME whose brokers need no ZooKeeper.

Programs that start Kafka before 4.0 start ZooKeeper first and wait until it answers. ``zookeeper-server-start.sh``
listens on ZooKeeper's port, answers the four-letter words that ask for its status, and closes every other connection at
once, so that no client takes it for a ZooKeeper that stores data.
"""

import asyncio
import logging
import signal
import sys
from pathlib import Path
from typing import Final

import click

from broker_embedded._config.addresses import parse_port
from broker_embedded._tools.background import daemon_flag, report_started, start_in_background
from broker_embedded._tools.server_stop import registered, stop_servers
from spark_kafka_native._command_line.commands import PassingCommand
from spark_kafka_native._command_line.output import InvalidOption
from spark_kafka_native._command_line.parameters import PATH, argument
from spark_kafka_native._command_line.properties import properties_in
from spark_kafka_native._tools.options import command

logger = logging.getLogger("org.apache.zookeeper.server.NIOServerCnxnFactory")

_START: Final = "zookeeper-server-start"
_OUTPUT: Final = "zookeeper.out"
_WORDS: Final = {b"ruok": b"imok", b"srvr": b"Mode: standalone\nNode count: 0\n", b"stat": b"Mode: standalone\n"}
_READ_TIMEOUT_S: Final = 5.0


@command(_START, "Listen in place of ZooKeeper, which the bundled broker does not need.")
@argument("properties", type=PATH, metavar="ZOOKEEPER.PROPERTIES")
@daemon_flag(_OUTPUT)
def start(*, properties: Path, daemon: bool) -> int:
    """Listen on clientPort of clientPortAddress until SIGTERM or SIGINT; with ``-daemon`` start that."""
    if daemon:
        return start_in_background(_START, ["--", str(properties)], _OUTPUT)
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="[%(asctime)s] %(levelname)s %(message)s")
    given = properties_in(properties)
    host = given.get("clientPortAddress", "127.0.0.1")
    try:
        port = parse_port("clientPort", given.get("clientPort", "2181"))
    except ValueError as error:
        raise InvalidOption(f"{properties}: {error}") from error
    with registered("zookeeper"):
        asyncio.run(_serve(host, port))
    return 0


@command("zookeeper-server-stop", "Stop what zookeeper-server-start of this KAFKA_HOME has started.")
def stop() -> int:
    """Send SIGTERM. Fails if no such process runs."""
    return stop_servers("zookeeper", "zookeeper server")


@click.command("zookeeper-shell", cls=PassingCommand)
def shell() -> None:
    """Every command fails."""
    raise InvalidOption("this KAFKA_HOME has no ZooKeeper; its brokers keep their metadata in log.dirs")


async def _serve(host: str, port: int) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with await asyncio.start_server(_response, host, port) as server:
        address = server.sockets[0].getsockname()
        logger.info("binding to port %s:%d", address[0], address[1])
        logger.info("this is not ZooKeeper: the bundled broker does not need one")
        report_started()
        await stop.wait()


async def _response(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        word = await asyncio.wait_for(reader.readexactly(4), _READ_TIMEOUT_S)
        writer.write(_WORDS.get(word, b""))
        await writer.drain()
    except (asyncio.IncompleteReadError, TimeoutError, ConnectionError):
        pass  # the client has sent less than a word, or has closed the connection
    finally:
        writer.close()
