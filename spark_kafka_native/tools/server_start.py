"""``kafka-server-start.sh``: the broker, from a server.properties and with Apache Kafka's words when it has started."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from broker_embedded.broker import DataDirectoryError
from broker_embedded.scram_users import ScramUsers
from broker_embedded.server.listener import ListenError
from broker_embedded.server.run import EndOfRun, running_broker
from spark_kafka_native.tools.connection import ToolError, ToolFailure, ToolParser, refuse
from spark_kafka_native.tools.properties import parse_pairs
from spark_kafka_native.tools.server_properties import ServerProperties, read_server_properties
from spark_kafka_native.tools.server_stop import registered

_TOOL: Final = "kafka-server-start"
_LOG_FORMAT: Final = "[%(asctime)s,%(msecs)03d] %(levelname)s %(message)s (%(name)s)"
_TIME_FORMAT: Final = "%Y-%m-%d %H:%M:%S"
_DAEMON_LOG: Final = "kafkaServer.out"


def main(arguments: Sequence[str]) -> int:
    """Run a broker until SIGTERM or SIGINT; the exit status.

    0: stopped in order. 1: the address is taken, or the data directory cannot be used. 2: a bad option or setting.
    """
    parser = ToolParser(_TOOL, "Start a broker. Settings that it does not have are passed over with a warning.")
    parser.add_argument("-daemon", action="store_true", help="go on in the background, with output in a file")
    parser.add_argument("properties", type=Path, metavar="server.properties", help="settings, with Kafka's names")
    parser.add_argument("--override", action="append", default=[], metavar="KEY=VALUE", help="goes before the file")
    options = parser.parse_args(arguments)
    if options.daemon:
        return _start_in_background([argument for argument in arguments if argument != "-daemon"])
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format=_LOG_FORMAT, datefmt=_TIME_FORMAT)
    try:
        overrides = parse_pairs(options.override, "--override")
        server = read_server_properties(options.properties, overrides, os.environ.get("KAFKA_OPTS", ""))
    except (ToolError, ValueError) as error:
        return refuse(_TOOL, ToolError(str(error)))
    except ToolFailure as error:
        return refuse(_TOOL, error)
    try:
        with registered(f"kafka-server.{server.config.node_id}"):
            return asyncio.run(_run(server))
    except (ListenError, DataDirectoryError, OSError) as error:
        return refuse(_TOOL, error)


async def _run(server: ServerProperties) -> int:
    end = EndOfRun((signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
    async with running_broker(server.config, server.data_dir, on_failed=end.fail) as running:
        node_id = server.config.node_id
        # Programs that start Apache Kafka wait for these lines.
        if server.zookeeper:
            logging.getLogger("kafka.server.KafkaServer").info("[KafkaServer id=%d] started", node_id)
        else:
            _log_scram_users(node_id, running.broker.scram_users)
            logger = logging.getLogger("kafka.server.KafkaRaftServer")
            logger.info("[KafkaRaftServer nodeId=%d] Kafka Server started", node_id)
        return await end.wait()


def _log_scram_users(node_id: int, users: ScramUsers) -> None:
    """Log the users of SCRAM as Kafka's controller does."""
    logger = logging.getLogger("org.apache.kafka.controller.ScramControlManager")
    for user in users.names():
        logger.info(
            "[QuorumController id=%d] Replayed UserScramCredentialRecord creating new entry for %s with mechanism %s.",
            node_id,
            user.name,
            user.mechanism.replace("-", "_"),
        )


def _start_in_background(arguments: Sequence[str]) -> int:
    """Start the same command in a session of its own; 0 once it runs."""
    folder = Path(os.environ.get("LOG_DIR", "logs"))
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _DAEMON_LOG).open("ab") as output:
        subprocess.Popen(
            [sys.executable, "-m", "spark_kafka_native.tools", _TOOL, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return 0
