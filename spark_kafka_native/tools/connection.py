"""The cluster that a tool is connected to."""

import argparse
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from spark_kafka_native.client.cluster.cluster import Cluster
from spark_kafka_native.client.config import ClientConfig, ConfigError
from spark_kafka_native.net.address import HostPort
from spark_kafka_native.net.dialing import reason_of
from spark_kafka_native.protocol.errors import KafkaError, LocalProtocolError
from spark_kafka_native.tools.options import ToolParser, properties_in
from spark_kafka_native.tools.output import ToolError, ToolFailure, refuse

_UNKNOWN_NAME: Final = frozenset(
    getattr(socket, name) for name in ("EAI_NONAME", "EAI_NODATA") if hasattr(socket, name)
)


def run(parser: ToolParser, arguments: Sequence[str], refused: "Callable[[KafkaError], int] | None" = None) -> int:
    """Parse the arguments and run ``options.action`` on the cluster that they name; the exit status.

    0: done. 1: the cluster refused a request, or a file cannot be read. 2: a bad option. ``refused`` reports an error
    of the cluster in place of ``refuse``, and returns the exit status.
    """
    options = parser.parse_args(arguments)
    try:
        with open_cluster(options) as cluster:
            options.action(cluster, options)
    except KafkaError as error:
        return refuse(parser.prog, error) if refused is None else refused(error)
    except (ToolFailure, OSError) as error:
        return refuse(parser.prog, error)
    except (ToolError, ValueError, LocalProtocolError) as error:
        return refuse(parser.prog, ToolError(str(error)))
    return 0


@contextmanager
def failing(what: str) -> Iterator[None]:
    """Turn an error of the cluster into a ToolFailure whose text begins with ``what``."""
    try:
        yield
    except KafkaError as error:
        raise ToolFailure(f"{what}: {error}") from error


def open_cluster(options: argparse.Namespace, properties: dict[str, str] | None = None) -> Cluster:
    """The cluster that the options of ``add_cluster`` name. Raises ToolError, ToolFailure."""
    if options.zookeeper is not None:
        raise ToolError("--zookeeper is not supported; use --bootstrap-server HOST:PORT")
    if options.bootstrap_server is None:
        raise ToolError("--bootstrap-server is required")
    given: dict[str, object] = {}
    if options.command_config is not None:
        given.update(properties_in(options.command_config))
    given |= {**(properties or {}), "bootstrap.servers": options.bootstrap_server}
    try:
        config = ClientConfig.parse(given)
        _refuse_unresolvable(config.bootstrap_servers)
        return Cluster(config)
    except ConfigError as error:
        raise ToolError(str(error)) from error


def _refuse_unresolvable(addresses: Sequence[HostPort]) -> None:
    """Raise ToolError if the resolver says of every host name that it does not exist, as Kafka's Java client does.

    A resolver that does not answer may do so later: the client tries again then.
    """
    reasons = []
    for address in addresses:
        try:
            socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        except (socket.gaierror, UnicodeError) as error:
            if isinstance(error, socket.gaierror) and error.errno not in _UNKNOWN_NAME:
                return
            reasons.append(f"{address} ({reason_of(error)})")
        else:
            return
    raise ToolError(f"--bootstrap-server: no host name can be resolved: {', '.join(reasons)}")
