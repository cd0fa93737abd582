"""The znodes in which brokers register, ``/brokers/ids/N``, in the formats of Apache Kafka 0.8 to 3.9.

Versions: 1 host and port (0.8). 2 endpoints (0.9). 3 rack (0.10.0). 4 security protocols of the endpoints (0.10.2).
5 features (2.7, KIP-584). Consumers of 0.9.0.0 and before cannot read versions above 2 (KAFKA-3100).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from spark_kafka_native._net.address import HostPort
from spark_kafka_native._zookeeper.errors import ZooKeeperError
from spark_kafka_native._zookeeper.json_data import InvalidZnode, decode_json, encode_json

BROKER_IDS: Final = "/brokers/ids"
_NO_JMX: Final = -1
_ENDPOINTS_SINCE: Final = 2
_RACK_SINCE: Final = 3
_PROTOCOLS_SINCE: Final = 4
_FEATURES_SINCE: Final = 5
_PLAINTEXT: Final = "PLAINTEXT"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredEndpoint:
    """An address of a registered broker: the listener's name, its security protocol, host and port."""

    listener: str
    protocol: str
    address: HostPort

    def __str__(self) -> str:
        return f"{self.listener}://{self.address}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredBroker:
    """A broker as its znode describes it."""

    broker_id: int
    endpoints: tuple[RegisteredEndpoint, ...]
    rack: str | None = None
    features: Mapping[str, Any] = field(default_factory=dict)
    """Each feature with its ``min_version`` and ``max_version``."""

    @property
    def path(self) -> str:
        """The path of the znode."""
        return f"{BROKER_IDS}/{self.broker_id}"


def encode_broker(broker: RegisteredBroker, version: int, timestamp_ms: int) -> bytes:
    """The znode of a broker in a version from 1 to 5."""
    plain = next((end.address for end in broker.endpoints if end.protocol == _PLAINTEXT), None)
    entries: dict[str, object] = {
        "version": version,
        "host": plain.host if plain else None,
        "port": plain.port if plain else -1,
        "jmx_port": _NO_JMX,
        "timestamp": str(timestamp_ms),
    }
    if version >= _ENDPOINTS_SINCE:
        entries["endpoints"] = [str(end) for end in broker.endpoints]
    if version >= _RACK_SINCE and broker.rack is not None:
        entries["rack"] = broker.rack
    if version >= _PROTOCOLS_SINCE:
        entries["listener_security_protocol_map"] = {end.listener: end.protocol for end in broker.endpoints}
    if version >= _FEATURES_SINCE:
        entries["features"] = dict(broker.features)
    return encode_json(entries)


def decode_broker(broker_id: int, data: bytes) -> RegisteredBroker:
    """The broker of a znode. Raises ZooKeeperError naming the znode: it has none of the formats."""
    try:
        entries = decode_json(data)
        if entries["version"] >= _ENDPOINTS_SINCE:
            protocols = entries.get("listener_security_protocol_map", {})
            endpoints = _endpoints(entries["endpoints"], protocols)
        else:
            address = HostPort(str(entries["host"]), int(entries["port"]))
            endpoints = (RegisteredEndpoint(listener=_PLAINTEXT, protocol=_PLAINTEXT, address=address),)
        rack, features = entries.get("rack"), dict(entries.get("features", {}))
    except (InvalidZnode, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        problem = f"{BROKER_IDS}/{broker_id} is not a broker's registration ({type(error).__name__}: {error})"
        raise ZooKeeperError(problem) from error
    return RegisteredBroker(broker_id=broker_id, endpoints=endpoints, rack=rack, features=features)


def _endpoints(texts: Sequence[str], protocols: Mapping[str, str]) -> tuple[RegisteredEndpoint, ...]:
    found = []
    for text in texts:
        listener, _, address = text.partition("://")
        host, _, port = address.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        found.append(
            RegisteredEndpoint(
                listener=listener,
                protocol=protocols.get(listener, listener),
                address=HostPort(host, int(port)),
            )
        )
    return tuple(found)
