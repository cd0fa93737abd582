"""How clients that read and write single records find the brokers: by a list of brokers, or in ZooKeeper.

The names are those of Kafka 0.7 to 3.9. Spark's source and sink have ``bootstrap.servers`` only.
"""

import dataclasses
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Self

from spark_kafka_native._client.config import PROPERTIES, ClientConfig
from spark_kafka_native._client.config_def import Property, ValueType, define, integer, properties_of
from spark_kafka_native._net.errors import ConfigError
from spark_kafka_native._zookeeper.connect_string import ConnectString

if TYPE_CHECKING:
    from spark_kafka_native._zookeeper.discovery import BrokerDiscovery

_log = logging.getLogger(__name__)

SERVERS: Final = "bootstrap.servers"
ZOOKEEPER: Final = "zookeeper.connect"
_BROKER_LIST: Final = "broker.list"
DISCOVERY_OLD_NAMES: Final = {
    "metadata.broker.list": SERVERS,
    _BROKER_LIST: SERVERS,
    "zk.connect": ZOOKEEPER,
    "zk.connectiontimeout.ms": "zookeeper.connection.timeout.ms",
    "zk.sessiontimeout.ms": "zookeeper.session.timeout.ms",
}
"""The names of Kafka 0.7 and 0.8, and the present ones."""


def _connect_string() -> ValueType:
    return ValueType("HOST:PORT[,HOST:PORT...][/CHROOT]", lambda value: ConnectString.parse(str(value)))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryConfig:
    """Properties of ZooKeeper. Without ``zookeeper.connect`` the brokers are those of ``bootstrap.servers``."""

    zookeeper_connect: ConnectString | None = define(
        _connect_string(), None, "ZooKeeper servers where the brokers are registered; instead of bootstrap.servers."
    )
    zookeeper_session_timeout_ms: int = define(
        integer(at_least=1), 6_000, "Time without contact after which the session with ZooKeeper ends."
    )
    zookeeper_connection_timeout_ms: int | None = define(
        integer(at_least=1), None, "Longest wait for ZooKeeper at the start. Default: zookeeper.session.timeout.ms."
    )
    zk_read_num_retries: int = define(
        integer(at_most=100), 3, "How often the brokers are read again in ZooKeeper, if none is registered."
    )

    @classmethod
    def parse(cls, options: Mapping[str, object], *, option_prefix: str = "") -> tuple[Self, ClientConfig]:
        """The properties of ZooKeeper, and those of the client, from the options of a record-level client.

        The client's ``bootstrap_servers`` are empty with ``zookeeper.connect``. Raises ConfigError naming the option:
        as `ClientConfig.parse`; both or none of ``zookeeper.connect`` and ``bootstrap.servers``; a name given twice.
        """
        given = _present_names(options)
        own = {name: given.pop(name) for name in list(given) if name in DISCOVERY_PROPERTIES}
        values = {name.replace(".", "_"): _value(name, *option) for name, option in own.items()}
        config = cls(**values)
        servers, zookeeper = given.get(SERVERS), own.get(ZOOKEEPER)
        if servers is not None and zookeeper is not None:
            raise ConfigError(zookeeper[0], f"is set together with {option_prefix}{servers[0]}; set only one of them")
        if zookeeper is None:
            for name, _ in own.values():
                _log.warning("client property %s has no effect without zookeeper.connect", name)
        if servers is None and zookeeper is None:
            raise ConfigError(SERVERS, f"is required (host:port[,host:port...]), or {option_prefix}{ZOOKEEPER}")
        client = ClientConfig.parse(
            {name: _broker_list(*option) if name == SERVERS else option[1] for name, option in given.items()},
            option_prefix=option_prefix,
            servers_option=f"{option_prefix}{(servers or zookeeper or ('',))[0]}",
            servers_required=servers is not None,
        )
        if client.broker_addresses == "bootstrap" and zookeeper is not None:
            raise ConfigError("broker.addresses", f"bootstrap needs {option_prefix}{SERVERS}, not {ZOOKEEPER}")
        return config, client

    def discovery(self) -> "BrokerDiscovery | None":
        """The discovery of brokers in ZooKeeper, which is not open yet; None without ``zookeeper.connect``."""
        if self.zookeeper_connect is None:
            return None
        from spark_kafka_native._zookeeper.discovery import BrokerDiscovery  # noqa: PLC0415 -- it imports kazoo

        return BrokerDiscovery(
            self.zookeeper_connect,
            session_timeout_ms=self.zookeeper_session_timeout_ms,
            connection_timeout_ms=self.zookeeper_connection_timeout_ms,
            read_num_retries=self.zk_read_num_retries,
        )


DISCOVERY_PROPERTIES: Final[Mapping[str, Property]] = properties_of(DiscoveryConfig)
"""The properties of ZooKeeper by name."""


def _present_names(options: Mapping[str, object]) -> dict[str, tuple[str, object]]:
    """The options by their present names, each with the name that was given, in lower case.

    Raises ConfigError for a property that is given twice.
    """
    found: dict[str, tuple[str, object]] = {}
    for given, value in options.items():
        name = given.strip().lower()
        present = DISCOVERY_OLD_NAMES.get(name, name)
        if present in found:
            raise ConfigError(name, f"given twice, as {found[present][0]!r} and {given!r}")
        found[present] = name, value
    return found


def _value(name: str, given: str, value: object) -> Any:
    try:
        return DISCOVERY_PROPERTIES[name].type.parse(value)
    except ValueError as error:
        raise ConfigError(given, str(error)) from None


def _broker_list(given: str, value: object) -> str:
    """The value of ``bootstrap.servers``. ``broker.list`` of Kafka 0.7 has broker ids: ``0:host:port,1:host:port``.

    Raises ConfigError naming the option as it was given.
    """
    if not isinstance(value, str):
        raise ConfigError(given, f"must be str, host:port[,host:port...], not {type(value).__name__}")
    parts = [part.strip() for part in value.split(",") if part.strip()]
    if given == _BROKER_LIST:
        parts = [_without_id(part) for part in parts]
    servers = ",".join(parts)
    try:
        PROPERTIES[SERVERS].type.parse(servers)
    except ValueError as error:
        raise ConfigError(given, str(error)) from None
    return servers


def _without_id(part: str) -> str:
    number, _, address = part.partition(":")
    return address if number.isdecimal() and ":" in address else part
