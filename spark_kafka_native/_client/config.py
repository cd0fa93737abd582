"""Kafka client properties -> ``ClientConfig``, parsed once.

The dataclass is the table: name (``_`` for ``.``), Kafka's default and the bounds of every honoured property. A name
that is neither here nor in ``java_properties`` is an error. A property that only Kafka's Java clients need is accepted
with a warning, so that options written for the JVM connector keep working. Defaults are those of Apache Kafka 4.3's
``ProducerConfig`` and ``ConsumerConfig``, except for those in ``DEPARTURES``.
"""

import dataclasses
import functools
import logging
from collections.abc import Mapping
from dataclasses import MISSING
from types import MappingProxyType
from typing import Any, Final, Self

from spark_kafka_native._client.config_def import (
    INT64_MAX,
    Property,
    boolean,
    choice,
    define,
    integer,
    properties_of,
    servers,
    text,
)
from spark_kafka_native._client.java_properties import DEPARTURES, REFUSED, WITHOUT_EFFECT
from spark_kafka_native._client.security.config import SecurityConfig
from spark_kafka_native._net.address import HostPort
from spark_kafka_native._net.errors import ConfigError
from spark_kafka_native._protocol.nearest import nearest_name
from spark_kafka_native._records.compression import CompressionType

__all__ = [
    "DEPARTURES",
    "MAX_IN_FLIGHT_WITH_IDEMPOTENCE",
    "PROPERTIES",
    "READ_COMMITTED",
    "READ_UNCOMMITTED",
    "REFUSED",
    "WITHOUT_EFFECT",
    "ClientConfig",
]

_log = logging.getLogger(__name__)

MAX_IN_FLIGHT_WITH_IDEMPOTENCE: Final = 5
"""A broker remembers this many batches per producer and partition (KIP-98)."""

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
"""Isolation levels as Fetch and ListOffsets carry them."""

_ACKS: Final = {"all": -1, "-1": -1, "0": 0, "1": 1}
_ISOLATION: Final = {"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}
_PARTITIONERS: Final = {
    "org.apache.kafka.clients.producer.internals.DefaultPartitioner": "default",
    "org.apache.kafka.clients.producer.UniformStickyPartitioner": "sticky",
    "org.apache.kafka.clients.producer.RoundRobinPartitioner": "round_robin",
    "kafka.producer.DefaultPartitioner": "string_hash",
    "kafka.producer.ByteArrayPartitioner": "bytes_hash",
}
_CODECS: Final = {codec.name.lower(): codec for codec in CompressionType}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig(SecurityConfig):
    """Every honoured Kafka client property as a plain value: hashable, picklable, compared by value."""

    bootstrap_servers: tuple[HostPort, ...] = define(
        servers(), MISSING, "Brokers from which the client learns the cluster's members, tried one after the other."
    )

    broker_addresses: str = define(
        choice(("advertised", "bootstrap")),
        "advertised",
        "Where brokers are reached: at their advertised.listeners, or only at bootstrap.servers, for a layer-4 load "
        "balancer, an SSH tunnel or a forwarded port.",
    )

    # --- connections
    client_id: str = define(
        text(), "", "Name of this client in the brokers' logs, metrics and quotas; empty: spark-kafka-native."
    )
    client_rack: str = define(
        text(), "", "Rack of this client; brokers may then name a closer replica to read from (KIP-392)."
    )
    client_dns_lookup: str = define(
        choice({"use_all_dns_ips": "use_all_dns_ips"}), "use_all_dns_ips", "How host names become addresses."
    )
    socket_connection_setup_timeout_ms: int = define(
        integer(at_least=1), 10_000, "Longest wait for a connection to one address of a server."
    )
    socket_connection_setup_timeout_max_ms: int = define(
        integer(at_least=1), 30_000, "Bound of that wait, which doubles for a server that failed before."
    )
    connections_max_idle_ms: int = define(
        integer(at_least=-1, at_most=INT64_MAX),
        540_000,
        "A connection that was idle for this long is closed; -1: never.",
    )
    receive_buffer_bytes: int = define(integer(at_least=-1), -1, "SO_RCVBUF; -1: the system's choice.")
    send_buffer_bytes: int = define(integer(at_least=-1), -1, "SO_SNDBUF; -1: the system's choice.")

    # --- time
    request_timeout_ms: int = define(integer(), 30_000, "Longest wait for the response to one request.")
    default_api_timeout_ms: int = define(integer(), 60_000, "Longest time for one call, its retries included.")
    reconnect_backoff_ms: int = define(integer(at_most=INT64_MAX), 50, "Pause before a failed server is tried again.")
    reconnect_backoff_max_ms: int = define(integer(at_most=INT64_MAX), 1_000, "Bound of that pause, which doubles.")
    retry_backoff_ms: int = define(integer(at_most=INT64_MAX), 100, "Pause before a failed request is sent again.")
    retry_backoff_max_ms: int = define(integer(at_most=INT64_MAX), 1_000, "Bound of that pause, which doubles.")
    metadata_max_age_ms: int = define(
        integer(at_most=INT64_MAX), 300_000, "Metadata older than this is requested again."
    )

    # --- reading
    fetch_min_bytes: int = define(
        integer(), 1, "Bytes that a broker collects before it responds to a Fetch, up to fetch.max.wait.ms."
    )
    fetch_max_wait_ms: int = define(integer(), 500, "Longest wait of a broker for fetch.min.bytes.")
    fetch_max_bytes: int = define(
        integer(), 52_428_800, "Bound of one Fetch response; one batch always arrives (KIP-74)."
    )
    max_partition_fetch_bytes: int = define(integer(), 8_388_608, "Bound of one partition's share of a Fetch response.")
    check_crcs: bool = define(boolean(), True, "Compare the checksum of every batch that is read.")
    isolation_level: int = define(choice(_ISOLATION), READ_UNCOMMITTED, "Whether open and aborted transactions show.")

    # --- writing
    acks: int = define(choice(_ACKS), -1, "Replicas that must have the records before they count as written.")
    enable_idempotence: bool = define(boolean(), True, "Brokers discard batches that a retry sends again (KIP-98).")
    retries: int = define(
        integer(), 2**31 - 1, "Most times a batch is sent again; delivery.timeout.ms is the better bound."
    )
    max_in_flight_requests_per_connection: int = define(
        integer(at_least=1), 5, "Most Produce requests without a response."
    )
    delivery_timeout_ms: int = define(
        integer(), 120_000, "Longest time from handing a record over to its acknowledgement."
    )
    max_block_ms: int = define(
        integer(at_most=INT64_MAX), 60_000, "Longest wait for a topic's metadata before writing."
    )
    linger_ms: int = define(
        integer(at_most=INT64_MAX), 500, "Longest wait of rows, from send to send, for a full batch."
    )
    batch_size: int = define(integer(), 524_288, "Bytes of one record batch, before compression.")
    buffer_memory: int = define(integer(at_most=INT64_MAX), 33_554_432, "Bytes of records without an acknowledgement.")
    max_request_size: int = define(integer(), 1_048_576, "Bytes of one Produce request, and so of one record.")
    compression_type: CompressionType = define(choice(_CODECS), CompressionType.NONE, "Codec of record batches.")
    compression_gzip_level: int = define(integer(at_least=1, at_most=9, besides=frozenset({-1})), -1, "Level of gzip.")
    compression_lz4_level: int = define(integer(at_least=1, at_most=17), 9, "Level of lz4.")
    compression_zstd_level: int = define(integer(at_least=-131_072, at_most=22), 3, "Level of zstd.")
    partitioner_class: str = define(
        choice(_PARTITIONERS),
        "",
        "Partitioner of rows without a partition, by the name of Java's; the two in kafka.producer are "
        "those of 0.8.2 (string_hash and bytes_hash).",
    )
    partitioner_ignore_keys: bool = define(boolean(), False, "Spread records with keys as if they had none (KIP-794).")
    transactional_id: str | None = define(
        text(may_be_empty=False), None, "Name of a transactional producer; a newer one of the name fences it."
    )
    transaction_timeout_ms: int = define(
        integer(at_least=1), 60_000, "Longest time a transaction may be open before brokers abort it."
    )

    given: frozenset[str] = frozenset()
    """Names of the properties that were set, as opposed to left at their defaults."""
    option_prefix: str = ""
    """Prefix of the property names in the user's options, for errors."""
    servers_option: str = "bootstrap.servers"
    """The user's option that sets ``bootstrap.servers``, for errors that name it."""

    @classmethod
    def parse(
        cls,
        options: Mapping[str, object],
        *,
        option_prefix: str = "",
        servers_option: str = "",
        servers_required: bool = True,
    ) -> Self:
        """Options by Kafka name (any case) -> a checked configuration.

        Values are strings, or plain ints and bools. ``servers_required=False``: ``bootstrap.servers`` may be missing,
        and is empty then. Raises ConfigError naming the option: unknown (the nearest name is suggested, with
        ``option_prefix``), given twice, of a wrong kind or out of bounds, not supported, or in conflict with another.
        """
        named = _fold_names(options, option_prefix)
        values = {
            name.replace(".", "_"): _parse_value(PROPERTIES[name], value)
            for name, value in named.items()
            if name in PROPERTIES
        }
        if servers_required and "bootstrap_servers" not in values:
            raise ConfigError("bootstrap.servers", "is required: host:port[,host:port...]")
        values.setdefault("bootstrap_servers", ())
        config = cls(
            **values,
            given=frozenset(named.keys() & PROPERTIES.keys()),
            option_prefix=option_prefix,
            servers_option=servers_option or f"{option_prefix}bootstrap.servers",
        )
        _warn_of_unused_security(config)
        if config.security_protocol != "PLAINTEXT":
            from spark_kafka_native._client.security.factory import check_security  # noqa: PLC0415 -- a tenth of a worker's start

            check_security(config, given=config.given, option_prefix=option_prefix)
        return dataclasses.replace(config, **_settle(config))

    @property
    def client_name(self) -> str:
        """The client id that requests carry."""
        return self.client_id or "spark-kafka-native"

    @property
    def compression_level(self) -> int | None:
        """The level for ``compression_type``; None leaves it to the codec."""
        match self.compression_type:
            case CompressionType.GZIP:
                return None if self.compression_gzip_level == -1 else self.compression_gzip_level
            case CompressionType.LZ4:
                return self.compression_lz4_level
            case CompressionType.ZSTD:
                return self.compression_zstd_level
            case _:
                return None


PROPERTIES: Final[Mapping[str, Property]] = MappingProxyType(dict(properties_of(ClientConfig)))
"""The honoured properties by Kafka name."""


@functools.cache
def _warn(text: str) -> None:
    """Log a warning once per process, because Spark parses the options of a query several times."""
    _log.warning("%s", text)


def _warn_of_unused_security(config: ClientConfig) -> None:
    """Warn of TLS or SASL without ``security.protocol``. Kafka's clients ignore these properties: it is no error."""
    unused = sorted(name for name in config.given if name.startswith(("sasl.", "ssl.")))
    if unused and "security.protocol" not in config.given:
        prefix = config.option_prefix
        names = ", ".join(f"{prefix}{name}" for name in unused)
        _warn(f"{prefix}security.protocol is not set, so it is PLAINTEXT, and these options have no effect: {names}")


def _fold_names(options: Mapping[str, object], prefix: str) -> dict[str, object]:
    """Options by lower-case name. Raises ConfigError for names that are unknown, refused or there twice."""
    given_names: dict[str, str] = {}
    values: dict[str, object] = {}
    for given, value in options.items():
        name = given.strip().lower()
        if name in given_names:
            raise ConfigError(name, f"given twice, as {given_names[name]!r} and {given!r}")
        given_names[name] = given
        _check_name(name, prefix)
        values[name] = value
    return values


def _check_name(name: str, prefix: str) -> None:
    if name in PROPERTIES:
        return
    if name in WITHOUT_EFFECT:
        _warn(f"client property {name} has no effect: {WITHOUT_EFFECT[name]}")
        return
    if name in REFUSED:
        raise ConfigError(name, f"is not supported: {REFUSED[name]}")
    near = nearest_name(name, [*PROPERTIES, *WITHOUT_EFFECT, *REFUSED])
    suggestion = f"; did you mean {prefix}{near}?" if near else ""
    raise ConfigError(name or "''", f"is not a Kafka client property{suggestion}")


def _parse_value(declared: Property, value: object) -> Any:
    try:
        return declared.type.parse(value)
    except ValueError as error:
        raise ConfigError(declared.name, str(error)) from None


def _settle(config: ClientConfig) -> dict[str, Any]:
    """Fields that follow from others, as in Kafka's ``ProducerConfig``. Raises ConfigError where they conflict."""
    prefix = config.option_prefix
    changed: dict[str, Any] = {"enable_idempotence": _idempotence(config)}
    if config.transactional_id is not None and not changed["enable_idempotence"]:
        needed = f"{prefix}enable.idempotence=true, {prefix}acks=all and {prefix}retries"
        raise ConfigError("transactional.id", f"needs {needed}")
    if "reconnect.backoff.max.ms" not in config.given:
        changed["reconnect_backoff_max_ms"] = max(config.reconnect_backoff_max_ms, config.reconnect_backoff_ms)
    least = config.request_timeout_ms + min(config.linger_ms, 2**31 - 1)
    if config.delivery_timeout_ms < least:
        if "delivery.timeout.ms" in config.given:
            raise ConfigError(
                "delivery.timeout.ms",
                f"{config.delivery_timeout_ms} is less than {prefix}linger.ms + {prefix}request.timeout.ms = {least}",
            )
        changed["delivery_timeout_ms"] = min(least, 2**31 - 1)
    return changed


def _idempotence(config: ClientConfig) -> bool:
    """Whether to be idempotent: not if a setting conflicts, which is an error if enable.idempotence was set."""
    if not config.enable_idempotence:
        return False
    if config.acks != -1:
        conflict = ("acks", "must be all")
    elif config.retries == 0:
        conflict = ("retries", "must not be 0")
    elif config.max_in_flight_requests_per_connection > MAX_IN_FLIGHT_WITH_IDEMPOTENCE:
        conflict = ("max.in.flight.requests.per.connection", f"must be at most {MAX_IN_FLIGHT_WITH_IDEMPOTENCE}")
    else:
        return True
    if "enable.idempotence" in config.given or conflict[0].startswith("max."):
        raise ConfigError(conflict[0], f"{conflict[1]} with {config.option_prefix}enable.idempotence=true")
    return False
