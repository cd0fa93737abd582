"""Names that settings had in earlier releases of Apache Kafka, which are accepted beside the present ones."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeVar

from broker_embedded._config.settings import SettingError

OLD_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "broker.id": "node.id",
        "brokerid": "node.id",
        "log.dir": "log.dirs",
        "zk.connect": "zookeeper.connect",
        "zk.connectiontimeout.ms": "zookeeper.connection.timeout.ms",
        "zk.sessiontimeout.ms": "zookeeper.session.timeout.ms",
        "zk.synctime.ms": "zookeeper.sync.time.ms",
    }
)
"""The present name of each older one. Names without dots, and those with ``zk.``, are of Kafka 0.7."""
ValueT = TypeVar("ValueT")


def renamed(given: Mapping[str, ValueT]) -> dict[str, ValueT]:
    """The settings by their present names. Raises SettingError: two names of one setting have different values."""
    found: dict[str, ValueT] = {}
    origins: dict[str, str] = {}
    for key, value in given.items():
        name = OLD_NAMES.get(key, key)
        if name in found and str(found[name]).strip() != str(value).strip():
            old, present = (key, origins[name]) if key in OLD_NAMES else (origins[name], key)
            values = {key: value, origins[name]: found[name]}
            problem = f"the older name {old} is {values[old]!r}, and {present} is {values[present]!r}; remove {old}"
            raise SettingError(name, problem)
        found[name], origins[name] = value, key
    return found
