"""ZooKeeper's scripts in a KAFKA_HOME whose brokers need no ZooKeeper.

Programs that start Kafka before 4.0 start ZooKeeper first and wait until it answers. ``zookeeper-server-start.sh``
listens on ZooKeeper's port, answers the four-letter words that ask for its status, and closes every other connection at
once, so that no client takes it for a ZooKeeper that stores data.
"""

import asyncio
import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from broker_embedded._config.addresses import parse_port
from broker_embedded._tools.background import add_daemon, report_started, start_in_background
from broker_embedded._tools.server_stop import registered, stop_servers
from spark_kafka_native._tools.options import ToolParser, properties_in
from spark_kafka_native._tools.output import ToolError, ToolFailure, refuse

logger = logging.getLogger("org.apache.zookeeper.server.NIOServerCnxnFactory")

_START: Final = "zookeeper-server-start"
_STOP: Final = "zookeeper-server-stop"
_SHELL: Final = "zookeeper-shell"
_OUTPUT: Final = "zookeeper.out"
_WORDS: Final = {b"ruok": b"imok", b"srvr": b"Mode: standalone\nNode count: 0\n", b"stat": b"Mode: standalone\n"}
_READ_TIMEOUT_S: Final = 5.0


def start(arguments: Sequence[str]) -> int:
    """``zookeeper-server-start.sh``: listen until SIGTERM or SIGINT; the exit status.

    0: stopped, or with -daemon: started. 1: the port is taken. 2: a bad file.
    """
    parser = ToolParser(_START, "Listen in place of ZooKeeper, which the bundled broker does not need.")
    parser.add_argument("properties", type=Path, metavar="zookeeper.properties", help="clientPort, clientPortAddress")
    add_daemon(parser, _OUTPUT)
    options = parser.parse_args(arguments)
    try:
        if options.daemon:
            return start_in_background(_START, arguments, _OUTPUT)
        logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="[%(asctime)s] %(levelname)s %(message)s")
        given = properties_in(options.properties)
        host = given.get("clientPortAddress", "127.0.0.1")
        port = parse_port("clientPort", given.get("clientPort", "2181"))
    except ValueError as error:
        return refuse(_START, ToolError(f"{options.properties}: {error}"))
    except (ToolFailure, OSError) as error:
        return refuse(_START, error)
    try:
        with registered("zookeeper"):
            asyncio.run(_serve(host, port))
    except OSError as error:
        return refuse(_START, error)
    return 0


def stop(arguments: Sequence[str]) -> int:
    """``zookeeper-server-stop.sh``: send SIGTERM; the exit status.

    0: done. 1: no such process runs. 2: a bad option.
    """
    ToolParser(_STOP, "Stop what zookeeper-server-start of this KAFKA_HOME has started.").parse_args(arguments)
    return stop_servers(_STOP, "zookeeper", "zookeeper server")


def shell(arguments: Sequence[str]) -> int:  # noqa: ARG001  # every command fails
    """``zookeeper-shell.sh``: report that there is no ZooKeeper; the exit status, 2."""
    return refuse(_SHELL, ToolError("this KAFKA_HOME has no ZooKeeper; its brokers keep their metadata in log.dirs"))


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
