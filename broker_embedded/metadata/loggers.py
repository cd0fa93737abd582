"""The broker's loggers as Kafka's admin clients see and set them (KIP-412): names and levels in Kafka's words.

``root`` is the logger of the whole broker, ``broker_embedded``; that of the program around it is not touched. A level
lasts as long as the process.
"""

import logging
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from broker_embedded.metadata.config_changes import ConfigChange, Operation
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError

ROOT: Final = "root"
_PACKAGE: Final = __name__.partition(".")[0]
_LEVELS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "TRACE": 5,
        "DEBUG": logging.DEBUG,
        "INFO": logging.INFO,
        "WARN": logging.WARNING,
        "ERROR": logging.ERROR,
        "FATAL": logging.CRITICAL,
    }
)


def logger_levels() -> dict[str, str]:
    """The level that each logger goes by."""
    names = sorted(name for name in logging.root.manager.loggerDict if name.startswith(f"{_PACKAGE}."))
    return {ROOT: _level(_PACKAGE)} | {name: _level(name) for name in names}


def change_levels(changes: Sequence[ConfigChange], *, validate_only: bool) -> None:
    """Set levels; a logger whose level is deleted goes by that of the one above it.

    Raises KafkaError, and nothing has changed: INVALID_CONFIG, no such logger or level; INVALID_REQUEST, what cannot be
    done to a logger.
    """
    known = logger_levels()
    for change in changes:
        _check(change, known)
    if not validate_only:
        for change in changes:
            level = logging.NOTSET if change.operation is Operation.DELETE else _LEVELS[change.value or ""]
            logging.getLogger(_PACKAGE if change.key == ROOT else change.key).setLevel(level)


def _check(change: ConfigChange, known: Mapping[str, str]) -> None:
    if change.operation not in {Operation.SET, Operation.DELETE}:
        detail = f"{change.operation.name} operation is not allowed for the BROKER_LOGGER resource"
        raise KafkaError(ErrorCode.INVALID_REQUEST, detail)
    if change.key not in known:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {change.key} does not exist!")
    if change.operation is Operation.DELETE:
        if change.key == ROOT:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "The root logger cannot be without a level")
    elif change.value not in _LEVELS:
        detail = f"{change.value} is no level of a logger; {', '.join(sorted(_LEVELS))} are"
        raise KafkaError(ErrorCode.INVALID_CONFIG, detail)


def _level(name: str) -> str:
    """The level in Kafka's words, the next lower one for a level that has no name there."""
    effective = logging.getLogger(name).getEffectiveLevel()
    return next((text for text, level in reversed([*_LEVELS.items()]) if level <= effective), "TRACE")
