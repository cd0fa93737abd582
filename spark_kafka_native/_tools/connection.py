"""The cluster that a tool is connected to."""

import argparse
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.config import PROPERTIES, ClientConfig
from spark_kafka_native._client.config_def import INT32_MAX
from spark_kafka_native._client.java_properties import REFUSED, WITHOUT_EFFECT
from spark_kafka_native._net.address import HostPort
from spark_kafka_native._net.dialing import reason_of
from spark_kafka_native._net.errors import AuthenticationFailed, ConfigError
from spark_kafka_native._protocol.errors import KafkaError, LocalProtocolError
from spark_kafka_native._protocol.nearest import did_you_mean
from spark_kafka_native._tools.options import ToolParser, properties_in
from spark_kafka_native._tools.output import ToolError, ToolFailure, complain, refuse

_SERVERS: Final = "--bootstrap-server"
_UNKNOWN_NAME: Final = frozenset(
    getattr(socket, name) for name in ("EAI_NONAME", "EAI_NODATA") if hasattr(socket, name)
)


def run(parser: ToolParser, arguments: Sequence[str], announce: Callable[[KafkaError], None] | None = None) -> int:
    """Parse the arguments and run ``options.action`` on the cluster that they name; the exit status.

    0: done. 1: the cluster refused a request, or a file cannot be read. 2: a bad option. ``announce`` prints an error
    of the cluster to stdout, before it is reported on stderr.
    """
    options = parser.parse_args(arguments)
    try:
        with open_cluster(options) as cluster:
            options.action(cluster, options)
    except (KafkaError, ToolFailure, OSError) as error:
        if announce is not None and isinstance(error, KafkaError):
            announce(error)
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


@contextmanager
def open_cluster(options: argparse.Namespace, *more: tuple[str, Mapping[str, str]]) -> Iterator[Cluster]:
    """The cluster that the options of ``add_cluster`` and ``add_timeout`` name.

    ``more`` are options with the properties that they set; later ones replace earlier ones. A property that no Kafka
    client has is ignored with a warning, as in Kafka's tools. Raises ToolError, ToolFailure naming the option.
    """
    if options.zookeeper is not None:
        raise ToolError(f"--zookeeper is not supported; use {_SERVERS} HOST:PORT")
    if options.bootstrap_server is None:
        raise ToolError(f"{_SERVERS} is required")
    sources = list(more)
    if options.command_config is not None:
        file = properties_in(options.command_config, options.command_config_option)
        sources.insert(0, (f"{options.command_config_option} {options.command_config}", file))
    if options.timeout is not None:
        # As in Kafka's tools the option is an int64; the property is an int32, of which the largest is 24 days.
        sources.append(("--timeout", {"default.api.timeout.ms": str(min(options.timeout, INT32_MAX))}))
    given: dict[str, object] = {}
    origins: dict[str, str] = {}
    for origin, properties in sources:
        known = _known(origin, properties)
        given |= known
        origins |= dict.fromkeys((name.lower() for name in known), origin)
    origins["bootstrap.servers"] = _SERVERS

    def named(option: str, text: str) -> str:
        # A property that is missing belongs to the file, if there is one.
        origin = origins.get(option) or (sources[0][0] if options.command_config is not None else "")
        return f"{origin}: {text}" if origin else text

    try:
        config = ClientConfig.parse({**given, "bootstrap.servers": options.bootstrap_server}, servers_option=_SERVERS)
        _refuse_unresolvable(config.bootstrap_servers)
        with Cluster(config) as cluster:
            yield cluster  # which reads the files of the properties when it connects
    except AuthenticationFailed as error:
        if not error.local:
            raise
        raise ToolFailure(named(error.option, str(error))) from error
    except ConfigError as error:
        text = error.message if error.option == "bootstrap.servers" else str(error)
        raise ToolError(named(error.option, text)) from error


def _known(origin: str, properties: Mapping[str, str]) -> dict[str, str]:
    """The properties that a Kafka client has. Warns about the others."""
    names = (*PROPERTIES, *WITHOUT_EFFECT, *REFUSED)
    found = {}
    for name, value in properties.items():
        if name.strip().lower() in names:
            found[name.strip()] = value
        else:
            text = f"the configuration '{name}' was supplied but isn't a known config{did_you_mean(name, names)}"
            complain(f"WARNING: {origin}: {text}")
    return found


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
    raise ToolError(f"{_SERVERS}: no host name can be resolved: {', '.join(reasons)}")
