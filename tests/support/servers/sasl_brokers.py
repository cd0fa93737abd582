"""The bundled broker and Apache Kafka with listeners where clients log in, and the users that both have."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from broker_embedded.testing import BrokerProcess
from tests.support.report import skip_if
from tests.support.servers.apache_kafka import ApacheKafka, apache_kafka_unavailable
from tests.support.servers.brokers import Server

USERS: Mapping[str, str] = {"alice": "alice-hunter2", "bob": "bob,=hunter2"}
SCRAM_USERS: Mapping[str, str] = {"alice": "alice-hunter2", "carol": "carol-hunter2"}
"""Kafka's kafka-storage.sh knows no way to write a comma."""
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
LEASE_MS = 2_000
SHORT_SESSIONS = {f"{mechanism}.connections.max.reauth.ms": str(LEASE_MS) for mechanism in ("plain", "scram-sha-256")}

MODULES = "org.apache.kafka.common.security"
_PROTOCOLS = {"SASL": "SASL_PLAINTEXT", "LEASE": "SASL_PLAINTEXT", "SCRAMONLY": "SASL_PLAINTEXT"}
"""LEASE has short sessions, SCRAMONLY one mechanism."""


class SaslServer(Server, Protocol):
    """A broker with these listeners, and one without SASL at `bootstrap_servers`."""

    def servers_of(self, listener: str) -> str:
        """`host:port` of SASL, LEASE or SCRAMONLY."""
        ...


def plain_jaas(user: str, password: str | None = None) -> str:
    """`sasl.jaas.config` of a user, with the right password unless one is given."""
    return f'{MODULES}.plain.PlainLoginModule required username="{user}" password="{password or USERS[user]}";'


def scram_jaas(user: str, password: str | None = None, more: str = "") -> str:
    password = password or {**USERS, **SCRAM_USERS}[user]
    return f'{MODULES}.scram.ScramLoginModule required username="{user}" password="{password}"{more};'


def jaas(mechanism: str, user: str, password: str | None = None) -> str:
    return plain_jaas(user, password) if mechanism == "PLAIN" else scram_jaas(user, password)


def settings() -> dict[str, str]:
    """The settings of both brokers, by Kafka's names."""
    users = " ".join(f'user_{user}="{word}"' for user, word in USERS.items())
    common = {"plain.sasl.jaas.config": f"{MODULES}.plain.PlainLoginModule required {users};"}
    common |= {f"{name.lower()}.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;" for name in SCRAM}
    listeners: dict[str, dict[str, str]] = {
        "sasl": {**common, "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"},
        "lease": {**common, **SHORT_SESSIONS, "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"},
        "scramonly": {**common, "sasl.enabled.mechanisms": "SCRAM-SHA-512"},
    }
    return {f"listener.name.{name}.{key}": value for name, part in listeners.items() for key, value in part.items()}


@contextmanager
def sasl_broker(kind: str, directory: Path) -> Iterator[SaslServer]:
    """A broker of one of `tests.support.servers.both_brokers.BOTH` kinds; skips where it cannot be had."""
    users = [f"{name}=[name={user},password={word}]" for name in SCRAM for user, word in SCRAM_USERS.items()]
    if kind == "bundled":
        names = {"PLAINTEXT": "PLAINTEXT", **_PROTOCOLS}
        listeners = {
            "listeners": ",".join(f"{name}://127.0.0.1:0" for name in names),
            "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in names.items()),
            "add.scram": " ".join(users),
        }
        with BrokerProcess(directory, settings={**settings(), **listeners}) as broker:
            yield broker
        return
    skip_if(apache_kafka_unavailable())
    options = [part for user in users for part in ("--add-scram", user)]
    with ApacheKafka(settings=settings(), listeners=_PROTOCOLS, format_options=options) as kafka:
        yield kafka
