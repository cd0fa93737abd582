"""Applies the settings in ZooKeeper of clients, users, addresses and brokers, when a tool has changed them.

A znode in ``/config/changes`` names the entity. Its settings are in the znode of the entity below ``/config``:

- ``clients/C``, ``users/U``, ``users/U/clients/C``, ``ips/A``: quotas, such as ``producer_byte_rate``
- ``users/U``: also SCRAM credentials, ``salt=...,stored_key=...,server_key=...,iterations=...`` in base64
- ``brokers/N``: dynamic settings of a broker

The name ``<default>`` is the default of its type, for brokers that of all brokers. Other names are percent-encoded.
The settings of the znode replace those of the entity. Credentials that clients have created are kept, because a znode
that has only quotas would delete them. What clients change is not written to ZooKeeper.

Crash between two changes of one entity: the znode in ``/config/changes`` still exists, so all are made again.
"""

import base64
import hashlib
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

from broker_embedded._config.settings import INT_MAX
from broker_embedded._metadata.client_quotas import ClientQuotas
from broker_embedded._metadata.config_changes import ResourceType
from broker_embedded._metadata.config_resources import ConfigResources
from broker_embedded._metadata.dynamic_configs import DynamicConfigs
from broker_embedded._metadata.features import MIN_ISR, has_eligible_leader_replicas
from broker_embedded._metadata.scram_users import ScramUsers
from broker_embedded._quotas.entities import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    ClientQuotaEntity,
)
from broker_embedded._security.credentials import ScramCredential
from broker_embedded._zookeeper.topic_znodes import decode_config
from broker_embedded._zookeeper.znodes import Znodes
from spark_kafka_native._net.sasl.scram import HASHES, MIN_ITERATIONS
from spark_kafka_native._protocol.messages.alter_client_quotas import OpData
from spark_kafka_native._zookeeper.json_data import InvalidZnode

_BROKERS: Final = "brokers"
_DEFAULT: Final = "<default>"
_TYPES: Final = {"users": USER, "clients": CLIENT_ID, "ips": IP}
_OF_QUOTAS: Final = ((USER,), (CLIENT_ID,), (USER, CLIENT_ID), (IP,))
"""The types of the parts of an entity with quotas."""
_QUOTAS: Final = (
    PRODUCER_BYTE_RATE,
    CONSUMER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    CONTROLLER_MUTATION_RATE,
    CONNECTION_CREATION_RATE,
)
_FIELDS: Final = {"salt", "stored_key", "server_key", "iterations"}
_MAX_DIGITS: Final = 10
_SHOWN: Final = 100
"""Most characters of a path, key or value in an error. A znode may have 1 MB."""


class EntityConfigs:
    """Applies the settings of entities. Belongs to the event loop."""

    def __init__(
        self, quotas: ClientQuotas, users: ScramUsers, configs: DynamicConfigs, resources: ConfigResources
    ) -> None:
        self._quotas = quotas
        self._users = users
        self._configs = configs
        self._resources = resources

    async def apply(self, znodes: Znodes, entity: str) -> None:
        """Replace the settings of an entity, such as ``users/ann``, by those of its znode.

        Raises InvalidZnode, KafkaError: they are refused; ZooKeeperError.
        """
        parts = entity.split("/")
        if not all(part.isascii() and part.isprintable() and part not in {"", ".", ".."} for part in parts):
            raise InvalidZnode(f"{entity[:_SHOWN]!r} is not the path of an entity")
        znode = await znodes.get(f"/config/{entity}")
        configs = {} if znode is None else decode_config(znode.data)
        if parts[0] == _BROKERS and len(parts) == 2:
            await self._apply_to_broker("" if parts[1] == _DEFAULT else parts[1], configs)
            return
        pairs = [(_TYPES.get(kind, ""), name) for kind, name in zip(parts[::2], parts[1::2], strict=False)]
        if len(parts) % 2 or tuple(kind for kind, _ in pairs) not in _OF_QUOTAS:
            raise InvalidZnode(f"{entity[:_SHOWN]} is not a topic, client, user, IP address or broker")
        found = ClientQuotaEntity.of((kind, None if name == _DEFAULT else unquote(name)) for kind, name in pairs)
        await self._apply_to_clients(found, configs)

    async def _apply_to_broker(self, name: str, configs: Mapping[str, str]) -> None:
        known = self._configs.config.known()
        for key in configs:
            if key in known and known[key].is_secret:
                raise InvalidZnode(f"{key} is encrypted by password.encoder.secret, which this broker cannot decrypt")

        def change(now: Mapping[str, str], _: object) -> Mapping[str, str]:
            """Keep what clients cannot delete either (KIP-966), and tools of Kafka before 4.1 do not know."""
            must_stay = not name and has_eligible_leader_replicas(self._configs.config, self._configs.stored)
            return {**{key: now[key] for key in (MIN_ISR,) if must_stay and key in now}, **configs}

        await self._resources.alter(ResourceType.BROKER, name, change, validate_only=False)

    async def _apply_to_clients(self, entity: ClientQuotaEntity, configs: Mapping[str, str]) -> None:
        """Replace the quotas of an entity, and the credentials of a user."""
        name = entity.get(USER) if not entity.has(CLIENT_ID) else None
        credentials = {key: _credential(key, configs[key]) for key in HASHES if name and key in configs}
        quotas = {key: _number(key, value) for key, value in configs.items() if key not in credentials}
        ops = [OpData(key=key, value=value) for key, value in quotas.items()]
        ops += [OpData(key=key, remove=True) for key in _QUOTAS if key not in quotas]
        for error in (await self._quotas.alter([(entity, ops)], validate_only=False)).values():
            if error is not None:
                raise error
        if name:
            await self._users.use_registered(name, credentials)


def _number(key: str, value: str) -> float:
    """The value of a quota. Raises InvalidZnode, with the value only if it is one of a quota."""
    if key not in _QUOTAS:
        raise InvalidZnode(f"{key[:_SHOWN]} is neither a quota nor a SCRAM mechanism of a user")
    try:
        return float(value)
    except ValueError:
        raise InvalidZnode(f"{key} is {value[:_SHOWN]!r}, not a number") from None


def _credential(mechanism: str, text: str) -> ScramCredential:
    """The credential of a setting such as ``SCRAM-SHA-256``. Raises InvalidZnode, without its content."""
    fields = dict(part.strip().partition("=")[::2] for part in text.split(","))
    size, iterations = hashlib.new(HASHES[mechanism]).digest_size, fields.get("iterations", "")
    try:
        if fields.keys() != _FIELDS or not iterations.isascii() or len(iterations) > _MAX_DIGITS:
            raise ValueError
        salt, stored_key, server_key = (
            base64.b64decode(fields[name], validate=True) for name in ("salt", "stored_key", "server_key")
        )
        is_valid = salt and len(stored_key) == len(server_key) == size and MIN_ITERATIONS <= int(iterations) <= INT_MAX
    except ValueError:
        is_valid = False
    if not is_valid:
        problem = "salt=...,stored_key=...,server_key=...,iterations=... in base64"
        raise InvalidZnode(f"{mechanism} is not {problem}, with {MIN_ITERATIONS} iterations or more")
    return ScramCredential(
        salt=salt, stored_key=stored_key, server_key=server_key, iterations=int(iterations), is_registered=True
    )
