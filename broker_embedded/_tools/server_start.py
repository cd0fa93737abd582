"""``kafka-server-start.sh``: start the broker with a server.properties, and log what Apache Kafka logs at its start."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from broker_embedded._broker import DataDirectoryError
from broker_embedded._metadata.scram_users import ScramUsers
from broker_embedded._server.listener import ListenError
from broker_embedded._server.metrics_port import METRICS_LISTENER
from broker_embedded._server.run import EndOfRun, running_broker
from broker_embedded._tools.background import add_daemon, report_started, start_in_background
from broker_embedded._tools.server_properties import ServerProperties, read_server_properties
from broker_embedded._tools.server_stop import registered
from spark_kafka_native._tools.options import ToolParser, parse_pairs
from spark_kafka_native._tools.output import ToolError, ToolFailure, refuse

_TOOL: Final = "kafka-server-start"
_LOG_FORMAT: Final = "[%(asctime)s,%(msecs)03d] %(levelname)s %(message)s (%(name)s)"
_TIME_FORMAT: Final = "%Y-%m-%d %H:%M:%S"
_OUTPUT: Final = "kafkaServer.out"


def main(arguments: Sequence[str]) -> int:
    """Run a broker until SIGTERM or SIGINT; the exit status.

    0: stopped in order, or with -daemon: started. 1: the address is taken, or the data directory cannot be used. 2: a
    bad option or setting.
    """
    parser = ToolParser(_TOOL, "Start a broker. Settings that it does not have are ignored with a warning.")
    add_daemon(parser, _OUTPUT)
    parser.add_argument("properties", type=Path, metavar="server.properties", help="settings, with Kafka's names")
    parser.add_argument(
        "--override", action="append", default=[], metavar="KEY=VALUE", help="a setting that overrides the file"
    )
    options = parser.parse_args(arguments)
    try:
        if options.daemon:
            return start_in_background(_TOOL, arguments, _OUTPUT)
        logging.basicConfig(level=logging.INFO, stream=sys.stdout, format=_LOG_FORMAT, datefmt=_TIME_FORMAT)
        overrides = parse_pairs(options.override, "--override")
        server = read_server_properties(options.properties, overrides, os.environ.get("KAFKA_OPTS", ""))
    except (ToolError, ValueError) as error:
        return refuse(_TOOL, ToolError(str(error)))
    except (ToolFailure, OSError) as error:
        return refuse(_TOOL, error)
    try:
        with registered(f"kafka-server.{server.config.node_id}"):
            return asyncio.run(_run(server))
    except ListenError as error:
        option = error.listener if error.listener == METRICS_LISTENER else "listeners"
        return refuse(_TOOL, ToolFailure(f"{option}: {error}"))
    except (DataDirectoryError, OSError) as error:
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
        report_started()
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
