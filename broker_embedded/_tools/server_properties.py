"""Settings of the broker from a ``server.properties`` that is written for Apache Kafka.

The broker knows the settings of Apache Kafka 4.3, and those of ZooKeeper in earlier releases. It logs those that have
no effect. It ignores unknown settings with a warning, and refuses to start with one that restricts clients or that
needs a feature it does not have (`REFUSED`), or with a listener that needs TLS.
docs/security.md lists the security settings that are refused and those that are ignored.
"""

import dataclasses
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from broker_embedded._config.config import BrokerConfig
from broker_embedded._config.listener_settings import PREFIX, SASL_PLAINTEXT, prefixed_settings
from broker_embedded._config.old_names import renamed
from broker_embedded._config.settings import Setting, SettingError, no_such_setting
from broker_embedded._config.unused_settings import unused_settings
from broker_embedded._tools.jaas_file import jaas_settings
from spark_kafka_native._command_line.output import InvalidOption
from spark_kafka_native._command_line.properties import properties_in

logger = logging.getLogger(__name__)

REFUSED: Final[Mapping[str, Setting]] = {key: item for key, item in unused_settings().items() if item.refused}
"""Settings that can only have their default, because this broker cannot honour another value.

Each may be set for one listener, too: ``listener.name.LISTENER.plain.sasl.server.callback.handler.class``.
"""
_OF_AUTHORIZERS: Final = frozenset({"allow.everyone.if.no.acl.found", "super.users"})
_DEFAULT_DATA_DIR: Final = "/tmp/kafka-logs"  # noqa: S108  # Kafka's own default
_DEFAULT_LISTENER: Final = "PLAINTEXT://:9092"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ServerProperties:
    """The settings of a server.properties."""

    config: BrokerConfig
    data_dir: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StorageProperties:
    """The settings of a server.properties that its data directory depends on."""

    data_dir: str
    node_id: int


def read_server_properties(
    path: Path, overrides: Mapping[str, str] | None = None, jvm_options: str = ""
) -> ServerProperties:
    """Read a file. Settings in ``overrides`` replace its own. ``jvm_options`` are those of ``KAFKA_OPTS``.

    Raises InvalidOption naming the file, or ``--override``, and the setting; ToolFailed: the file cannot be read.
    """
    with _naming(path, overrides or {}):
        return understand({**properties_in(path), **(overrides or {})}, jvm_options)


def read_storage_properties(path: Path) -> StorageProperties:
    """Read a file as far as ``kafka-storage.sh`` needs it, which has no users. Raises as ``read_server_properties``."""
    with _naming(path):
        entries = _renamed(properties_in(path))
        declared = BrokerConfig.settings()["node.id"]
        node_id = declared.parse(entries.get("node.id", declared.default))
        assert isinstance(node_id, int)
        return StorageProperties(data_dir=_data_dir(entries), node_id=node_id)


def understand(given: Mapping[str, str], jvm_options: str = "") -> ServerProperties:
    """Settings of Apache Kafka as settings of this broker. Raises SettingError."""
    entries = _renamed(given)
    protocols = _listeners(entries)
    without_restriction = _without_restriction(entries)
    with_sasl = [name for name, protocol in protocols.items() if protocol == SASL_PLAINTEXT]
    if with_sasl:
        entries = {**jaas_settings(jvm_options, with_sasl), **entries}
    data_dir = _data_dir(entries)
    settings = BrokerConfig.settings_for(entries)
    for name in protocols:
        settings |= prefixed_settings(name.lower())
    known = {key: value for key, value in entries.items() if key in settings and key not in without_restriction}
    _log_ignored(sorted(entries.keys() - known.keys()), settings)
    return ServerProperties(config=BrokerConfig.parse(known), data_dir=data_dir)


def _log_ignored(keys: Sequence[str], settings: Collection[str]) -> None:
    """Log which settings are ignored: those of Apache Kafka in one line, and each one that it does not have."""
    known = {*settings, *BrokerConfig.settings(), *unused_settings(), *_OF_AUTHORIZERS}
    ours = [key for key in keys if key in known or _is_of_listener(key, known)]
    if ours:
        logger.warning("settings without effect here: %s", ", ".join(ours))
    for key in keys:
        if key not in ours:
            logger.warning("ignored %s: %s", key, no_such_setting(key, known))


def _is_of_listener(key: str, known: Collection[str]) -> bool:
    """Whether a setting is one of ``known`` for a single listener, and maybe mechanism: ``listener.name.l.KEY``."""
    parts = key.removeprefix(PREFIX).split(".") if key.startswith(PREFIX) else []
    return any(".".join(parts[begin:]) in known for begin in range(1, len(parts)))


@contextmanager
def _naming(path: Path, overrides: Collection[str] = ()) -> Iterator[None]:
    try:
        yield
    except SettingError as error:
        raise InvalidOption(f"{'--override' if error.key in overrides else path}: {error}") from error


def _renamed(given: Mapping[str, str]) -> dict[str, str]:
    """The settings by their present names, without a node id of -1: brokers on ZooKeeper choose their own.

    Raises SettingError: both names of a setting have a value, and not the same.
    """
    entries = renamed(given)
    if _number(entries.get("node.id")) == -1:
        del entries["node.id"]
    return entries


def _data_dir(entries: dict[str, str]) -> str:
    """The one data directory, which is removed from ``entries``. Raises SettingError."""
    data_dirs = [part.strip() for part in entries.pop("log.dirs", _DEFAULT_DATA_DIR).split(",") if part.strip()]
    if len(data_dirs) != 1:
        raise SettingError("log.dirs", f"this broker supports one data directory, but {len(data_dirs)} are set")
    return data_dirs[0]


def _without_restriction(entries: Mapping[str, str]) -> set[str]:
    """The settings of ``REFUSED`` that restrict no client. Raises SettingError for one that does."""
    everyone = entries.get("allow.everyone.if.no.acl.found", "").strip().lower() == "true"  # and ACLs cannot be created
    found: set[str] = set()
    for key, value in entries.items():
        for name, setting in REFUSED.items():
            if key != name and not (key.startswith(PREFIX) and key.endswith(f".{name}")):
                continue
            if not value or (everyone and name == "authorizer.class.name"):
                found.add(key)
                continue
            try:
                setting.parse(value)
            except SettingError as error:
                problem = f"{error.problem}; remove the setting to start the broker without it"
                raise SettingError(key, problem) from None
    return found


def _number(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def _listeners(entries: dict[str, str]) -> dict[str, str]:
    """The protocols of the listeners for clients, by name. The settings of a controller's listeners are removed.

    Raises SettingError: a listener needs TLS.
    """
    protocols: dict[str, str] = {}
    for pair in filter(None, entries.pop("listener.security.protocol.map", "").split(",")):
        name, _, protocol = pair.strip().partition(":")
        protocols[name.strip().upper()] = protocol.strip().upper()
    controllers = {name.strip().upper() for name in entries.pop("controller.listener.names", "").split(",")}
    host, port = entries.pop("host.name", ""), entries.pop("port", "")
    text = entries.get("listeners") or (f"PLAINTEXT://{host}:{port or 9092}" if host or port else _DEFAULT_LISTENER)
    kept = [part.strip() for part in text.split(",") if _name(part) not in controllers]
    if not kept:
        raise SettingError("listeners", f"{text!r} has only listeners of controllers; add one for clients")
    for part in kept:
        protocol = protocols.setdefault(_name(part), _name(part))
        if protocol not in {"PLAINTEXT", SASL_PLAINTEXT}:
            raise SettingError("listeners", f"{part} needs {protocol}, which this broker does not support")
    advertised = entries.get("advertised.listeners")
    if advertised:
        parts = [part.strip() for part in advertised.split(",") if _name(part) not in controllers]
        entries["advertised.listeners"] = ",".join(parts)
    served = {name: protocols[name] for name in sorted({_name(part) for part in kept})}
    entries["listener.security.protocol.map"] = ",".join(f"{name}:{protocol}" for name, protocol in served.items())
    entries["listeners"] = ",".join(kept)
    return served


def _name(listener: str) -> str:
    return listener.strip().partition("://")[0].upper()
