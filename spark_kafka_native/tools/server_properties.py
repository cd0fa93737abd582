"""A ``server.properties`` written for Apache Kafka, as this broker understands it.

The broker honours the settings that it has. It ignores Apache Kafka's other settings with a warning, and refuses to
start with one that restricts clients (`REFUSED`) or with a listener that needs TLS. docs/security.md lists the security
settings that are refused and those that are ignored.
"""

import dataclasses
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from broker_embedded.config import BrokerConfig
from broker_embedded.listener_settings import PREFIX, SASL_PLAINTEXT, prefixed_settings
from broker_embedded.settings import ConfigError, read_properties
from spark_kafka_native.tools.connection import ToolError

logger = logging.getLogger(__name__)

_KAFKA_PRINCIPALS: Final = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
REFUSED: Final[Mapping[str, str]] = {
    "authorizer.class.name": "access rules (ACLs) are not supported, every client could do everything, which "
    "allow.everyone.if.no.acl.found=true would ask for",
    "principal.builder.class": "principals are the users that log in, so quotas of other principals would not apply",
    "client.quota.callback.class": "quotas of a plug-in would not be enforced",
    "create.topic.policy.class.name": "a policy of a plug-in would not be enforced, every topic could be created",
    "alter.config.policy.class.name": "a policy of a plug-in would not be enforced, every config could be set",
    "sasl.server.callback.handler.class": "logins are checked by PLAIN and SCRAM themselves, not by a plug-in",
}
"""Settings that restrict what clients may do and that this broker does not have, and what ignoring them would mean.

Each may be set for one listener, too: ``listener.name.LISTENER.plain.sasl.server.callback.handler.class``.
"""
_OLD_NAMES: Final = {"broker.id": "node.id", "log.dir": "log.dirs"}
_DEFAULT_DATA_DIR: Final = "/tmp/kafka-logs"  # noqa: S108  # Kafka's own default
_DEFAULT_LISTENER: Final = "PLAINTEXT://:9092"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ServerProperties:
    """What a server.properties comes to. ``zookeeper``: it is one for a cluster on ZooKeeper."""

    config: BrokerConfig
    data_dir: str
    zookeeper: bool


def read_server_properties(path: Path, overrides: Mapping[str, str] | None = None) -> ServerProperties:
    """Read a file; ``overrides`` go before it. Raises ToolError naming the file and the setting."""
    try:
        given = {**read_properties(path), **(overrides or {})}
        return understand(given)
    except (OSError, UnicodeDecodeError, ConfigError) as error:
        raise ToolError(f"{path}: {error}") from error


def understand(given: Mapping[str, str]) -> ServerProperties:
    """Settings of Apache Kafka as settings of this broker. Raises ConfigError."""
    entries = {_OLD_NAMES.get(key, key): value for key, value in given.items()}
    _refuse_restrictions(entries)
    zookeeper = "zookeeper.connect" in entries
    entries["listeners"] = _listeners(entries)
    data_dirs = [part.strip() for part in entries.pop("log.dirs", _DEFAULT_DATA_DIR).split(",") if part.strip()]
    if len(data_dirs) != 1:
        raise ConfigError("log.dirs", f"this broker keeps its data in one directory, not in {len(data_dirs)}")
    if _number(entries.get("node.id")) == -1:
        del entries["node.id"]  # an id of the broker's own choice, in clusters on ZooKeeper
    settings = BrokerConfig.settings_for(entries)
    for listener in entries["listeners"].split(","):
        settings |= prefixed_settings(_name(listener).lower())
    known = {key: value for key, value in entries.items() if key in settings}
    passed_over = sorted(entries.keys() - known.keys())
    if passed_over:
        logger.warning("settings without effect here: %s", ", ".join(passed_over))
    return ServerProperties(config=BrokerConfig.parse(known), data_dir=data_dirs[0], zookeeper=zookeeper)


def _refuse_restrictions(entries: Mapping[str, str]) -> None:
    """Raise ConfigError for a setting of ``REFUSED``, unless it restricts nobody."""
    everyone = entries.get("allow.everyone.if.no.acl.found", "").strip().lower() == "true"  # and ACLs cannot be created
    for key, value in entries.items():
        for refused, reason in REFUSED.items():
            named = key == refused or (key.startswith(PREFIX) and key.endswith(f".{refused}"))
            harmless = value in {"", _KAFKA_PRINCIPALS} or (everyone and refused == "authorizer.class.name")
            if named and not harmless:
                raise ConfigError(key, f"{reason}; remove the setting to start the broker without it")


def _number(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def _listeners(entries: dict[str, str]) -> str:
    """The listeners for clients, those of a controller left out; takes what it has dealt with out of ``entries``.

    Raises ConfigError: one of them is to speak TLS.
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
        raise ConfigError("listeners", f"{text!r} has no listener for clients")
    for part in kept:
        protocol = protocols.setdefault(_name(part), _name(part))
        if protocol not in {"PLAINTEXT", SASL_PLAINTEXT}:
            raise ConfigError("listeners", f"{part} needs {protocol}, which this broker does not speak")
    advertised = entries.get("advertised.listeners")
    if advertised:
        parts = [part.strip() for part in advertised.split(",") if _name(part) not in controllers]
        entries["advertised.listeners"] = ",".join(parts)
    names = sorted({_name(part) for part in kept})
    entries["listener.security.protocol.map"] = ",".join(f"{name}:{protocols[name]}" for name in names)
    return ",".join(kept)


def _name(listener: str) -> str:
    return listener.strip().partition("://")[0].upper()
