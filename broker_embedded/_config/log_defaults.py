"""Broker settings that are the defaults of topic settings, such as ``log.retention.ms`` of ``retention.ms``."""

import dataclasses
import functools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from broker_embedded._config.log_config import LogConfig
from broker_embedded._config.settings import Setting, SettingError

LOG_SYNONYMS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "log.segment.bytes": "segment.bytes",
        "log.roll.ms": "segment.ms",
        "log.roll.jitter.ms": "segment.jitter.ms",
        "log.index.size.max.bytes": "segment.index.bytes",
        "log.index.interval.bytes": "index.interval.bytes",
        "log.retention.ms": "retention.ms",
        "log.retention.bytes": "retention.bytes",
        "message.max.bytes": "max.message.bytes",
        "log.message.timestamp.type": "message.timestamp.type",
        "log.message.timestamp.before.max.ms": "message.timestamp.before.max.ms",
        "log.message.timestamp.after.max.ms": "message.timestamp.after.max.ms",
        "log.segment.delete.delay.ms": "file.delete.delay.ms",
        "log.flush.interval.messages": "flush.messages",
        "log.flush.interval.ms": "flush.ms",
        "min.insync.replicas": "min.insync.replicas",
        "log.cleanup.policy": "cleanup.policy",
        "log.cleaner.min.cleanable.ratio": "min.cleanable.dirty.ratio",
        "log.cleaner.min.compaction.lag.ms": "min.compaction.lag.ms",
        "log.cleaner.max.compaction.lag.ms": "max.compaction.lag.ms",
        "log.cleaner.delete.retention.ms": "delete.retention.ms",
        "compression.type": "compression.type",
        "compression.gzip.level": "compression.gzip.level",
        "compression.lz4.level": "compression.lz4.level",
        "compression.zstd.level": "compression.zstd.level",
        "log.message.format.version": "message.format.version",
        "log.message.timestamp.difference.max.ms": "message.timestamp.difference.max.ms",
        "log.message.downconversion.enable": "message.downconversion.enable",
        "log.preallocate": "preallocate",
        "unclean.leader.election.enable": "unclean.leader.election.enable",
        "log.local.retention.ms": "local.retention.ms",
        "log.local.retention.bytes": "local.retention.bytes",
    }
)
"""Broker settings, with the topic settings that they are the defaults of."""

TWINS: Final[Mapping[str, str]] = MappingProxyType({topic_key: key for key, topic_key in LOG_SYNONYMS.items()})
"""The inverse: broker settings by topic setting."""

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 60 * _MINUTE_MS
LONGER_UNITS: Final[Mapping[str, tuple[tuple[str, int], ...]]] = MappingProxyType(
    {
        "log.retention.ms": (("log.retention.minutes", _MINUTE_MS), ("log.retention.hours", _HOUR_MS)),
        "log.roll.ms": (("log.roll.hours", _HOUR_MS),),
        "log.roll.jitter.ms": (("log.roll.jitter.hours", _HOUR_MS),),
    }
)
"""The same time in longer units; the setting in milliseconds wins, then the shorter unit."""

_NULL_BY_DEFAULT: Final = {*LONGER_UNITS, "log.flush.interval.ms"}
"""Settings that are not set by default, because another one holds the default."""


def parse_log_defaults(given: Mapping[str, object], defaults: LogConfig) -> LogConfig:
    """The settings of logs, from the broker's names. Other settings are those of ``defaults``.

    Raises SettingError, naming the broker's setting.
    """
    set_here = {key: value for key, value in given.items() if key not in _NULL_BY_DEFAULT or value not in {None, ""}}
    try:
        return LogConfig.parse({LOG_SYNONYMS[key]: value for key, value in set_here.items()}, defaults)
    except SettingError as error:
        raise SettingError(TWINS[error.key], error.problem) from None


def in_milliseconds(given: Mapping[str, object], in_longer_units: Mapping[str, Any]) -> dict[str, object]:
    """``given`` with values in minutes or hours converted; ``in_longer_units`` has parsed values by field name."""
    found = dict(given)
    for key, units in LONGER_UNITS.items():
        for unit, factor in units:
            amount = in_longer_units.get(unit.replace(".", "_"))
            if amount is not None and found.get(key) in {None, ""}:
                found[key] = amount * factor if amount >= 0 else -1
    return found


@functools.cache
def log_default_settings() -> Mapping[str, Setting]:
    """Every setting of logs under the broker's name for it."""
    of_logs = LogConfig.settings()
    return MappingProxyType({key: _twin(key, of_logs[topic_key]) for key, topic_key in LOG_SYNONYMS.items()})


def _twin(key: str, of_topic: Setting) -> Setting:
    twin = dataclasses.replace(of_topic, key=key, dynamic=True)
    return dataclasses.replace(twin, default=None, nullable=True) if key in _NULL_BY_DEFAULT else twin
