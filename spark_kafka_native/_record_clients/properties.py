"""The names of a record client's properties: its own, those of earlier releases of Kafka, and those that are errors."""

import contextlib
import dataclasses
import logging
from collections.abc import Iterator, Mapping
from typing import Any

from spark_kafka_native._client.config import PROPERTIES, REFUSED, WITHOUT_EFFECT
from spark_kafka_native._client.config_def import Property
from spark_kafka_native._client.discovery_config import DISCOVERY_OLD_NAMES, DISCOVERY_PROPERTIES
from spark_kafka_native._net.errors import ConfigError
from spark_kafka_native._protocol.nearest import did_you_mean

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ClientProperties:
    """The properties of one record client, besides those of ``ClientConfig`` and ``DiscoveryConfig``."""

    client: str
    """What errors call the client, as "producer"."""
    own: Mapping[str, Property]
    old_names: Mapping[str, str]
    """Names of earlier releases, with today's."""
    old_values: Mapping[tuple[str, str], object] = dataclasses.field(default_factory=dict)
    """Old name and value -> the value of today's property, where that has another form."""
    required: frozenset[str] = frozenset()
    """Own properties without a default."""
    refused: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Properties that are errors, and why."""
    without_effect: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Properties that are ignored with a warning, and why."""
    copied: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Old name -> a second property with the same value, unless the options have it."""

    def parse(self, options: Mapping[str, object]) -> tuple[dict[str, Any], dict[str, object]]:
        """The values of the client's own properties by field name, and all other options by their current names.

        Raises ConfigError: an option is unknown, refused, given twice, or an own property with a wrong value.
        TypeError: ``options`` is no mapping.
        """
        if not isinstance(options, Mapping):
            raise TypeError(f"options must be a mapping of property names to values, not {type(options).__name__}")
        current = self._current_names(options)
        values = {
            name.replace(".", "_"): _parse(self.own[name], current.pop(name))
            for name in list(current)
            if name in self.own
        }
        return values, current

    @contextlib.contextmanager
    def naming(self, options: Mapping[str, object]) -> Iterator[None]:
        """Name properties in errors as ``options`` do."""
        try:
            yield
        except ConfigError as error:
            names = {_folded(key) for key in options}
            given = {self.old_names[name]: name for name in names if name in self.old_names}
            if error.option in names or error.option not in given:
                raise
            raise ConfigError(given[error.option], error.message) from None

    def warn_of(self, name: str, reason: str) -> None:
        """Log that a property is ignored, and why."""
        _log.warning("property %s of the %s has no effect: %s", name, self.client, reason)

    def _current_names(self, options: Mapping[str, object]) -> dict[str, object]:
        current: dict[str, object] = {}
        given: dict[str, str] = {}
        copies: dict[str, object] = {}
        for key, value in options.items():
            old = _folded(key)
            self._check_name(old)
            if old in self.refused:
                raise ConfigError(old, f"is not supported: {self.refused[old]}")
            if isinstance(value, bytes):
                raise ConfigError(old, "must not be bytes")
            if value is None:
                is_required = self.old_names.get(old, old) in self.required
                text = "is required, and must not be None" if is_required else "must not be None; leave it out"
                raise ConfigError(old, text)
            if old in self.without_effect:
                self.warn_of(old, self.without_effect[old])
                continue
            name = self.old_names.get(old, old)
            if name in given:
                raise ConfigError(name, f"given twice, as {given[name]!r} and {key!r}")
            given[name] = key
            current[name] = self.old_values.get((old, str(value).strip()), value)
            if old in self.copied:
                copies[self.copied[old]] = current[name]
        return copies | current

    def _check_name(self, name: str) -> None:
        """Raise ConfigError for a name that no part of the client knows."""
        others = (self.old_names, self.refused, self.without_effect, DISCOVERY_PROPERTIES, DISCOVERY_OLD_NAMES)
        known = set(self.own).union(*others, PROPERTIES, WITHOUT_EFFECT, REFUSED)
        if name in known:
            return
        if name.startswith("kafka.") and name.removeprefix("kafka.") in known:
            raise ConfigError(name, f"is an option of Spark; the property is {name.removeprefix('kafka.')}")
        raise ConfigError(name or "''", f"is not a property of the {self.client}{did_you_mean(name, known)}")


def _folded(key: object) -> str:
    return str(key).strip().lower()


def _parse(declared: Property, value: object) -> Any:
    try:
        return declared.type.parse(value)
    except (ValueError, LookupError, TypeError) as error:
        raise ConfigError(declared.name, str(error)) from error
