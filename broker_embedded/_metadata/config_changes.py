"""The rules of dynamic config changes: present settings and a request give the new settings.

Rules and error codes are those of Apache Kafka 4.x. `_config.settings` validates the values.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from broker_embedded._config.settings import Setting
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError


class ResourceType(IntEnum):
    """Kinds of resources with settings, with Kafka's codes."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Operation(IntEnum):
    """Operations on a setting, with Kafka's codes."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    """One change of one setting. ``value`` is None for one that is deleted."""

    key: str
    operation: Operation
    value: str | None


def incremental(entries: Iterable[tuple[str, int, str | None]]) -> tuple[ConfigChange, ...]:
    """The changes of an IncrementalAlterConfigs entry: key, operation and value of each.

    Raises KafkaError INVALID_REQUEST: a key twice, a value missing, an operation that does not exist.
    """
    entries = tuple(entries)
    _check([(key, value, operation == Operation.DELETE) for key, operation, value in entries])
    for key, operation, _ in entries:
        if operation not in set(Operation):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{key}: there is no operation {operation}.")
    return tuple(
        ConfigChange(key=key, operation=Operation(operation), value=value) for key, operation, value in entries
    )


def changed(
    current: Mapping[str, str], changes: Sequence[ConfigChange], known: Mapping[str, Setting]
) -> dict[str, str]:
    """The settings after the changes.

    Raises KafkaError INVALID_CONFIG: APPEND or SUBTRACT for a setting that is not a list.
    """
    result = dict(current)
    for change in changes:
        value = change.value or ""
        match change.operation:
            case Operation.SET:
                result[change.key] = value
            case Operation.DELETE:
                result.pop(change.key, None)
            case Operation.APPEND | Operation.SUBTRACT:
                old = _items(change, result, known)
                named = value.split(",")
                if change.operation is Operation.APPEND:
                    new = [*old, *(item for item in named if item not in old)]
                else:
                    new = [item for item in old if item not in named]
                result[change.key] = ",".join(new)
    return result


def unsupported(entries: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """All settings of an AlterConfigs entry, which replace the present ones: key and value of each.

    Raises KafkaError INVALID_REQUEST: a key twice, a value missing.
    """
    entries = tuple(entries)
    _check([(key, value, False) for key, value in entries])
    return {key: value or "" for key, value in entries}


def _check(entries: Sequence[tuple[str, str | None, bool]]) -> None:
    if len({key for key, _, _ in entries}) < len(entries):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    missing = [key for key, value, may_miss in entries if value is None and not may_miss]
    if missing:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(missing)}")


def _items(change: ConfigChange, current: Mapping[str, str], known: Mapping[str, Setting]) -> list[str]:
    """The present value of a list."""
    setting = known.get(change.key)
    if setting is None or setting.kind != "list":
        detail = f"Can't {change.operation.name} to key {change.key} because its type is not LIST."
        raise KafkaError(ErrorCode.INVALID_CONFIG, detail)
    return [item for item in current.get(change.key, setting.default_text).split(",") if item]
