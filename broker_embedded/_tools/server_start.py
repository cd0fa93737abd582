"""``kafka-server-start.sh``: start the broker with a server.properties, and log what Apache Kafka logs at its start."""

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Final

from broker_embedded._broker import DataDirectoryError
from broker_embedded._metadata.scram_users import ScramUsers
from broker_embedded._server.listener import ListenError
from broker_embedded._server.metrics_port import METRICS_LISTENER
from broker_embedded._server.run import EndOfRun, running_broker
from broker_embedded._server.server import BrokerServer
from broker_embedded._tools.background import daemon_flag, report_started, start_in_background
from broker_embedded._tools.server_properties import ServerProperties, read_server_properties
from broker_embedded._tools.server_stop import registered
from spark_kafka_native._command_line.output import InvalidOption, ToolFailed
from spark_kafka_native._command_line.parameters import PATH, argument, option
from spark_kafka_native._command_line.properties import parse_pairs
from spark_kafka_native._tools.options import command
from spark_kafka_native._zookeeper.errors import ZooKeeperError

_TOOL: Final = "kafka-server-start"
_LOG_FORMAT: Final = "[%(asctime)s,%(msecs)03d] %(levelname)s %(message)s (%(name)s)"
_TIME_FORMAT: Final = "%Y-%m-%d %H:%M:%S"
_OUTPUT: Final = "kafkaServer.out"


@command(_TOOL, "Start a broker. Settings that it does not have are ignored with a warning.")
@daemon_flag(_OUTPUT)
@argument("properties", type=PATH, metavar="SERVER.PROPERTIES")
@option("--override", multiple=True, metavar="KEY=VALUE", help="a setting that overrides the file")
def server_start(*, daemon: bool, properties: Path, override: tuple[str, ...]) -> int:
    """Run a broker until SIGTERM or SIGINT; with ``-daemon`` start one."""
    if daemon:
        overriding = [f"--override={item}" for item in override]
        return start_in_background(_TOOL, [*overriding, "--", str(properties)], _OUTPUT)
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format=_LOG_FORMAT, datefmt=_TIME_FORMAT)
    overrides = parse_pairs(override, "--override")
    try:
        server = read_server_properties(properties, overrides, os.environ.get("KAFKA_OPTS", ""))
    except ValueError as error:
        raise InvalidOption(str(error)) from error
    try:
        with registered(f"kafka-server.{server.config.node_id}"):
            return asyncio.run(_run(server))
    except ListenError as error:
        option_name = error.listener if error.listener == METRICS_LISTENER else "listeners"
        raise ToolFailed(f"{option_name}: {error}") from error
    except DataDirectoryError as error:
        raise ToolFailed(str(error)) from error
    except ZooKeeperError as error:
        raise ToolFailed(f"zookeeper.connect: {error}") from error


async def _run(server: ServerProperties) -> int:
    end = EndOfRun((signal.SIGTERM, signal.SIGINT, signal.SIGHUP))

    def started(running: BrokerServer) -> None:
        """Log the lines for which programs that start Apache Kafka wait."""
        node_id = server.config.node_id
        if server.config.zookeeper() is not None:
            logging.getLogger("kafka.server.KafkaServer").info("[KafkaServer id=%d] started", node_id)
        else:
            _log_scram_users(node_id, running.broker.scram_users)
            logger = logging.getLogger("kafka.server.KafkaRaftServer")
            logger.info("[KafkaRaftServer nodeId=%d] Kafka Server started", node_id)
        report_started()

    return await end.run(running_broker(server.config, server.data_dir, on_failed=end.fail), started)


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
