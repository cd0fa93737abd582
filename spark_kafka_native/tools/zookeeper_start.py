"""``zookeeper-server-start.sh``: what programs that start ZooKeeper before Kafka find in its place.

Brokers here keep what they know in their data directory and need no ZooKeeper. Harnesses of Kafka before 4.0 start one
all the same and wait until it answers: this listens on its port, answers the four-letter words that ask how it is, and
closes every other connection at once, so that nobody takes it for a ZooKeeper that would keep something.
"""

import asyncio
import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from spark_kafka_native.tools.background import add_daemon, report_started, start_in_background
from spark_kafka_native.tools.connection import ToolError, ToolFailure, ToolParser, properties_in, refuse
from spark_kafka_native.tools.server_stop import registered

logger = logging.getLogger("org.apache.zookeeper.server.NIOServerCnxnFactory")

_TOOL: Final = "zookeeper-server-start"
_OUTPUT: Final = "zookeeper.out"
_WORDS: Final = {b"ruok": b"imok", b"srvr": b"Mode: standalone\nNode count: 0\n", b"stat": b"Mode: standalone\n"}
_PATIENCE_S: Final = 5.0


def main(arguments: Sequence[str]) -> int:
    """Listen until SIGTERM or SIGINT; the exit status.

    0: stopped, or with -daemon: started. 1: the port is taken. 2: a bad file.
    """
    parser = ToolParser(_TOOL, "Stand in for a ZooKeeper that brokers here do not need.")
    parser.add_argument("properties", type=Path, metavar="zookeeper.properties", help="clientPort, clientPortAddress")
    add_daemon(parser, _OUTPUT)
    options = parser.parse_args(arguments)
    if options.daemon:
        try:
            return start_in_background(_TOOL, arguments, _OUTPUT)
        except OSError as error:
            return refuse(_TOOL, error)
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="[%(asctime)s] %(levelname)s %(message)s")
    try:
        given = properties_in(options.properties)
        host, port = given.get("clientPortAddress", "127.0.0.1"), int(given.get("clientPort", "2181"))
    except ValueError as error:
        return refuse(_TOOL, ToolError(f"{options.properties}: {error}"))
    except ToolFailure as error:
        return refuse(_TOOL, error)
    try:
        with registered("zookeeper"):
            asyncio.run(_serve(host, port))
    except OSError as error:
        return refuse(_TOOL, error)
    return 0


async def _serve(host: str, port: int) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with await asyncio.start_server(_answer, host, port) as server:
        address = server.sockets[0].getsockname()
        logger.info("binding to port %s:%d", address[0], address[1])
        logger.info("this is no ZooKeeper: brokers here need none")
        report_started()
        await stop.wait()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        word = await asyncio.wait_for(reader.readexactly(4), _PATIENCE_S)
        writer.write(_WORDS.get(word, b""))
        await writer.drain()
    except (asyncio.IncompleteReadError, TimeoutError, ConnectionError):
        pass  # whoever it was has said nothing, or has gone
    finally:
        writer.close()
