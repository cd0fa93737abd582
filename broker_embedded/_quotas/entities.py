"""Quota entities: users, client ids and addresses, and the defaults of each (KIP-546). Pure.

A quota belongs to an entity, for example user ``ann`` with client id ``etl``, or every client id without its own quota.
The validation is that of Apache Kafka.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Self, TypeAlias

from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.alter_client_quotas import OpData
from spark_kafka_native._protocol.messages.describe_client_quotas import ComponentData

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
TYPES: Final = (USER, CLIENT_ID, IP)

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

_WHOLE: Final[Mapping[str, float]] = MappingProxyType(
    {PRODUCER_BYTE_RATE: 2**63 - 1, CONSUMER_BYTE_RATE: 2**63 - 1, CONNECTION_CREATION_RATE: 2**31 - 1}
)
"""Quotas that are whole numbers, and their largest value."""
_OF_CLIENTS: Final = {PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE}
_OF_ADDRESSES: Final = {CONNECTION_CREATION_RATE}
_NEARLY_WHOLE: Final = 1e-6

_EXACT: Final = 0
_DEFAULT: Final = 1
_ANY: Final = 2

Values: TypeAlias = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ClientQuotaEntity:
    """Types and names, in the order of `TYPES`. The name None is the default of its type."""

    parts: tuple[tuple[str, str | None], ...]

    @classmethod
    def of(cls, parts: Iterable[tuple[str, str | None]]) -> Self:
        """An entity of these parts, in any order. The last part of a type is used."""
        return cls(tuple(sorted(dict(parts).items(), key=lambda part: TYPES.index(part[0]) if part[0] in TYPES else 9)))

    def get(self, kind: str) -> str | None:
        """The name of the part of a type; empty if it has none, None for the default."""
        return next((name for type_, name in self.parts if type_ == kind), "")

    def has(self, kind: str) -> bool:
        """Whether there is a part of a type."""
        return any(type_ == kind for type_, _ in self.parts)

    def __str__(self) -> str:
        return ", ".join(f"{type_} {'<default>' if name is None else name}" for type_, name in self.parts)


def altered(entity: ClientQuotaEntity, ops: Sequence[OpData], values: Values) -> dict[str, float]:
    """The quotas that an entity has after a change. Raises KafkaError INVALID_REQUEST."""
    allowed = _allowed_keys(entity)
    for key, times in Counter(op.key for op in ops).items():
        if times > 1:
            raise _invalid(f"{key} is repeated for {entity}")
    result = dict(values)
    for op in ops:
        if op.remove:
            result.pop(op.key, None)
        else:
            result[op.key] = _checked(op.key, op.value, allowed)
    return result


def _allowed_keys(entity: ClientQuotaEntity) -> set[str]:
    if not entity.parts:
        raise _invalid("an entity needs a user, a client-id or an ip")
    for kind, name in entity.parts:
        if kind not in TYPES:
            raise _invalid(f"{kind!r} is not a type of entity; the types are {', '.join(TYPES)}")
        if name == "":
            raise _invalid(f"the name of a {kind} must not be empty")
    if not entity.has(IP):
        return _OF_CLIENTS
    if len(entity.parts) > 1:
        raise _invalid("an ip cannot be combined with a user or a client-id")
    return _OF_ADDRESSES


def _checked(key: str, value: float, allowed: set[str]) -> float:
    if key not in allowed:
        raise _invalid(f"{key!r} is not a quota of such an entity; its quotas are {', '.join(sorted(allowed))}")
    if not value > 0:
        raise _invalid(f"{key} must be greater than 0, not {value}")
    largest = _WHOLE.get(key)
    if largest is not None:
        if value > largest:
            raise _invalid(f"{key} must not be greater than {largest}")
        if math.modf(value)[0] > _NEARLY_WHOLE:
            raise _invalid(f"{key} must be a whole number, not {value}")
    return value


class EntityFilter:
    """The filter of a DescribeClientQuotas."""

    def __init__(self, components: Iterable[ComponentData], *, strict: bool) -> None:
        """``strict``: entities with parts of other types do not match.

        Raises KafkaError: INVALID_REQUEST, UNSUPPORTED_VERSION for an unknown type.
        """
        self._names: dict[str, str | None] = {}
        self._kinds: set[str] = set()
        self._strict = strict
        for component in components:
            self._add(component)
        kinds = self._names.keys() | self._kinds
        if IP in kinds and len(kinds) > 1:
            raise _invalid("an ip cannot be combined with a user or a client-id")

    def _add(self, component: ComponentData) -> None:
        kind = component.entity_type
        if not kind:
            raise _invalid("the type of an entity must not be empty")
        if kind in self._names or kind in self._kinds:
            raise _invalid(f"{kind} may be in a filter once")
        if kind not in TYPES:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION, f"{kind!r} is not a type of entity; the types are {', '.join(TYPES)}"
            )
        if component.match_type not in {_EXACT, _DEFAULT, _ANY}:
            raise _invalid(f"match type {component.match_type} is not 0, 1 or 2")
        if (component.match is None) == (component.match_type == _EXACT):
            raise _invalid(
                f"match type {component.match_type} {'needs' if component.match is None else 'takes no'} name"
            )
        if component.match_type == _ANY:
            self._kinds.add(kind)
        else:
            self._names[kind] = component.match

    def matches(self, entity: ClientQuotaEntity) -> bool:
        """Whether an entity matches."""
        if self._strict and len(entity.parts) != len(self._names) + len(self._kinds):
            return False
        if not all(entity.has(kind) and entity.get(kind) == name for kind, name in self._names.items()):
            return False
        return all(entity.has(kind) for kind in self._kinds)


def _invalid(detail: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, detail)
