"""The cluster that a tool is connected to."""

import functools
import logging
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.config import PROPERTIES, ClientConfig
from spark_kafka_native._client.config_def import INT32_MAX
from spark_kafka_native._client.java_properties import REFUSED, WITHOUT_EFFECT
from spark_kafka_native._command_line.commands import Options, given_options
from spark_kafka_native._command_line.output import InvalidOption, ToolFailed, complain
from spark_kafka_native._command_line.properties import properties_in
from spark_kafka_native._net.address import HostPort
from spark_kafka_native._net.dialing import reason_of
from spark_kafka_native._net.errors import AuthenticationFailed, ConfigError
from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._protocol.nearest import did_you_mean
from spark_kafka_native._tools.options import FILES

_SERVERS: Final = "--bootstrap-server"
_CLIENT: Final = "spark_kafka_native._client"
_MAX_REASONS: Final = 100
_UNKNOWN_NAME: Final = frozenset(
    getattr(socket, name) for name in ("EAI_NONAME", "EAI_NODATA") if hasattr(socket, name)
)


def on_cluster(function: Callable[[Cluster, Options], None]) -> Callable[..., None]:
    """The function of a command with ``cluster_options``, from one that gets the cluster and the options."""

    @functools.wraps(function)
    def call(**_: object) -> None:
        options = given_options()
        with open_cluster(options) as cluster:
            function(cluster, options)

    return call


@contextmanager
def failing(what: str) -> Iterator[None]:
    """Turn an error of the cluster into a ToolFailed whose text begins with ``what``."""
    try:
        yield
    except KafkaError as error:
        raise ToolFailed(f"{what}: {error}") from error


@contextmanager
def open_cluster(options: Options, *more: tuple[str, Mapping[str, str]]) -> Iterator[Cluster]:
    """The cluster that ``cluster_options`` and ``timeout_option`` name. Prints what the client logs.

    ``more`` are options with the properties that they set; later ones replace earlier ones. A property that no Kafka
    client has is ignored with a warning, as in Kafka's tools. Raises InvalidOption, ToolFailed naming the option.
    """
    if options.bootstrap_server is None:
        raise InvalidOption(f"{_SERVERS} is required")
    sources = [*_files(options), *more]
    has_file = len(sources) > len(more)
    if (timeout := getattr(options, "timeout", None)) is not None:
        # As in Kafka's tools the option is an int64; the property is an int32, of which the largest is 24 days.
        sources.append(("--timeout", {"default.api.timeout.ms": str(min(timeout, INT32_MAX))}))
    given: dict[str, object] = {}
    origins: dict[str, str] = {}
    for origin, properties in sources:
        known = known_properties(origin, properties)
        given |= known
        origins |= dict.fromkeys((name.lower() for name in known), origin)
    origins["bootstrap.servers"] = _SERVERS

    def named(option: str, text: str) -> str:
        # A property that is missing belongs to the file, if there is one.
        origin = origins.get(option) or (sources[0][0] if has_file else "")
        return f"{origin}: {text}" if origin else text

    try:
        config = ClientConfig.parse({**given, "bootstrap.servers": options.bootstrap_server}, servers_option=_SERVERS)
        _refuse_unresolvable(config.bootstrap_servers)
        with _printing_log(), Cluster(config) as cluster:
            yield cluster  # which reads the files of the properties when it connects
    except AuthenticationFailed as error:
        if not error.local:
            raise
        raise ToolFailed(named(error.option, str(error))) from error
    except ConfigError as error:
        text = error.message if error.option == "bootstrap.servers" else str(error)
        raise InvalidOption(named(error.option, text)) from error
    except ValueError as error:
        raise InvalidOption(str(error)) from error


def _files(options: Options) -> Iterator[tuple[str, dict[str, str]]]:
    """The properties file, by one of its names. Raises ToolFailed: it cannot be read."""
    given = {option: path for name, option in FILES.items() if (path := getattr(options, name, None)) is not None}
    if len(given) > 1:
        raise InvalidOption(f"{' and '.join(given)} are the same option; give it once")
    for option, path in given.items():
        yield f"{option} {path}", properties_in(path, option)


def known_properties(origin: str, properties: Mapping[str, str]) -> dict[str, str]:
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
    """Raise InvalidOption if the resolver says of every host name that it does not exist, as Kafka's Java client does.

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
    raise InvalidOption(f"{_SERVERS}: no host name can be resolved: {', '.join(reasons)}")


@contextmanager
def _printing_log() -> Iterator[None]:
    """While the block runs, print what the client logs: why a broker cannot be reached, and warnings. Each once."""
    client = logging.getLogger(_CLIENT)
    handler, level = _OncePerReason(logging.INFO), client.level
    client.addHandler(handler)
    client.setLevel(logging.INFO)
    try:
        yield
    finally:
        client.setLevel(level)
        client.removeHandler(handler)


class _OncePerReason(logging.Handler):
    """Prints the first record of each address and reason to stderr."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self._printed: set[tuple[object, ...]] = set()

    def emit(self, record: logging.LogRecord) -> None:
        # The third argument is the time that is left, which is another one each time.
        arguments = record.args[:2] if isinstance(record.args, tuple) else ()
        key = (record.msg, *map(str, arguments))
        if key not in self._printed and len(self._printed) < _MAX_REASONS:
            self._printed.add(key)
            complain(record.getMessage())
