"""Entries of DescribeConfigs: the value of each setting, its source, and its synonyms.

Sources in Kafka's order of precedence: the topic or group, the dynamic settings of this broker, those of all brokers,
the settings at the broker's start, the default. A setting with several names, such as log.retention.ms and
log.retention.hours, has all of them as synonyms.
"""

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from broker_embedded._config.config import BrokerConfig
from broker_embedded._config.consumer_settings import GroupSettings
from broker_embedded._config.log_config import LogConfig
from broker_embedded._config.log_defaults import LONGER_UNITS, TWINS
from broker_embedded._config.old_names import OLD_NAMES
from broker_embedded._config.settings import INT_MAX, SHORT_MAX, Setting
from broker_embedded._metadata.dynamic_configs import DynamicConfigs


class ConfigSource(IntEnum):
    """The source of a value, with Kafka's codes."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_CLUSTER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    GROUP = 8


class ConfigType(IntEnum):
    """The type of a value, with Kafka's codes."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


_UNKNOWN: Final = "unknown"
_TYPES: Final[Mapping[str, ConfigType]] = MappingProxyType(
    {
        "bool": ConfigType.BOOLEAN,
        "str": ConfigType.STRING,
        "float": ConfigType.DOUBLE,
        "list": ConfigType.LIST,
        "class": ConfigType.CLASS,
        "Secret": ConfigType.PASSWORD,
        _UNKNOWN: ConfigType.UNKNOWN,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Synonym:
    """The value of a name in one source."""

    key: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One setting. ``value`` is None if it is not set or secret. The first of ``synonyms`` is its source."""

    key: str
    value: str | None
    source: ConfigSource = ConfigSource.DEFAULT
    read_only: bool = False
    is_secret: bool = False
    synonyms: tuple[Synonym, ...] = ()
    type: ConfigType = ConfigType.UNKNOWN
    doc: str | None = None


def config_type(setting: Setting) -> ConfigType:
    """The type of a setting's values."""
    if setting.kind in _TYPES:
        return _TYPES[setting.kind]
    if setting.at_most is None or setting.at_most > INT_MAX:
        return ConfigType.LONG
    return ConfigType.SHORT if setting.at_most == SHORT_MAX else ConfigType.INT


def broker_entries(config: BrokerConfig, dynamic: DynamicConfigs, *, log_dirs: str) -> list[ConfigEntry]:
    """Every setting of this broker, whose data is in ``log_dirs``, from all sources."""
    layers, known = _layers(dynamic), config.known()
    values = config.to_properties() | {"log.dirs": log_dirs, "log.dir": log_dirs}
    entries = []
    for key in sorted({*known, *dynamic.own, *dynamic.stored.cluster}):
        setting, synonyms = known.get(key), _synonyms(key, layers)
        if setting is None:
            entries.append(_unknown(key, synonyms))
        elif synonyms or not setting.is_hidden:
            is_set = setting.default is not None or synonyms
            entries.append(_entry(setting, values[key] if is_set else None, synonyms, read_only=not setting.dynamic))
    return entries


def cluster_entries(dynamic: DynamicConfigs) -> list[ConfigEntry]:
    """Every dynamic setting of all brokers."""
    known = BrokerConfig.all_settings()
    layers = [(ConfigSource.DYNAMIC_CLUSTER, dynamic.stored.cluster)]
    return [
        _entry(known[key], value, _synonyms(key, layers)) if key in known else _unknown(key, _synonyms(key, layers))
        for key, value in sorted(dynamic.stored.cluster.items())
    ]


def topic_entries(config: LogConfig, own: Mapping[str, str], dynamic: DynamicConfigs) -> list[ConfigEntry]:
    """Every setting of a topic. ``own`` are those of the topic itself."""
    layers = _layers(dynamic)
    values = config.to_properties()
    entries = []
    for key, setting in sorted(config.known().items()):
        here = [Synonym(key=key, value=values[key], source=ConfigSource.TOPIC)] if key in own else []
        entries.append(_entry(setting, values[key], (*here, *(_synonyms(TWINS[key], layers) if key in TWINS else ()))))
    return entries


def group_entries(own: Mapping[str, str], dynamic: DynamicConfigs) -> list[ConfigEntry]:
    """Every setting of a group. ``own`` are those of the group itself; the other values are the broker's."""
    layers = _layers(dynamic)
    entries = []
    for key, setting in sorted(GroupSettings.settings().items()):
        here = [Synonym(key=key, value=own[key], source=ConfigSource.GROUP)] if key in own else []
        synonyms = (*here, *_synonyms(f"group.{key}", layers))
        entries.append(_entry(setting, synonyms[0].value, synonyms))
    return entries


def _layers(dynamic: DynamicConfigs) -> Sequence[tuple[ConfigSource, Mapping[str, str]]]:
    """The settings of each source, in order of precedence."""
    given = dynamic.started_with.given
    given = {**given, **{old: given[name] for old, name in OLD_NAMES.items() if name in given}}
    return (
        (ConfigSource.DYNAMIC_BROKER, dynamic.own),
        (ConfigSource.DYNAMIC_CLUSTER, dynamic.stored.cluster),
        (ConfigSource.STATIC_BROKER, given),
        (ConfigSource.DEFAULT, _defaults()),
    )


@functools.cache
def _defaults() -> Mapping[str, str]:
    """The default of every setting of the broker that has one."""
    settings = BrokerConfig.all_settings().items()
    return {key: setting.default_text for key, setting in settings if setting.default is not None}


def _synonyms(key: str, layers: Iterable[tuple[ConfigSource, Mapping[str, str]]]) -> tuple[Synonym, ...]:
    """The values of a broker's setting under all its names, from the first one under its own name on."""
    found = [
        Synonym(key=name, value=values[name], source=source)
        for source, values in layers
        for name in _names(key)
        if name in values
    ]
    first = next((index for index, synonym in enumerate(found) if synonym.key == key), len(found))
    return tuple(found[first:])


@functools.cache
def _names(key: str) -> tuple[str, ...]:
    """Every name of a setting, in order of precedence."""
    for short, longer in LONGER_UNITS.items():
        names = (short, *(name for name, _ in longer))
        if key in names:
            return names
    return (key,)


def _unknown(key: str, synonyms: tuple[Synonym, ...]) -> ConfigEntry:
    """A setting that this broker does not know. Its value is not shown, because it may be a secret."""
    return _entry(Setting(key=key, kind=_UNKNOWN, default=None, doc=""), None, synonyms, read_only=True)


def _entry(
    setting: Setting, value: str | None, synonyms: tuple[Synonym, ...], *, read_only: bool = False
) -> ConfigEntry:
    is_secret = setting.is_secret or setting.kind == _UNKNOWN
    if is_secret:
        value, synonyms = None, tuple(replace(synonym, value=None) for synonym in synonyms)
    return ConfigEntry(
        key=setting.key,
        value=value,
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        read_only=read_only,
        is_secret=is_secret,
        synonyms=synonyms,
        type=config_type(setting),
        doc=setting.doc or None,
    )
