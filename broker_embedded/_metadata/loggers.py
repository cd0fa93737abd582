"""The broker's loggers for Kafka's admin clients (KIP-412), with Kafka's names of levels.

``root`` is the logger of the broker, ``broker_embedded``. The root logger of the process is not changed. Levels are not
stored, so that a restart resets them.
"""

import logging
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from broker_embedded._metadata.config_changes import ConfigChange, Operation
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError

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
    """The effective level of each logger."""
    names = sorted(name for name in logging.root.manager.loggerDict if name.startswith(f"{_PACKAGE}."))
    return {ROOT: _level(_PACKAGE)} | {name: _level(name) for name in names}


def change_levels(changes: Sequence[ConfigChange], *, validate_only: bool) -> None:
    """Set levels. A logger whose level is deleted inherits that of its parent.

    Raises KafkaError, and nothing has changed: INVALID_CONFIG, unknown logger or level; INVALID_REQUEST, an operation
    that loggers do not have.
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
            raise KafkaError(ErrorCode.INVALID_REQUEST, "The level of the root logger cannot be deleted")
    elif change.value not in _LEVELS:
        detail = f"{change.value} is not a log level; valid levels are {', '.join(sorted(_LEVELS))}"
        raise KafkaError(ErrorCode.INVALID_CONFIG, detail)


def _level(name: str) -> str:
    """Kafka's name of the level, or of the next lower one."""
    effective = logging.getLogger(name).getEffectiveLevel()
    return next((text for text, level in reversed([*_LEVELS.items()]) if level <= effective), "TRACE")
