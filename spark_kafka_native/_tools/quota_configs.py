"""``kafka-configs.sh`` for users, clients and addresses: quotas, and credentials of SCRAM."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from spark_kafka_native._client.admin.quotas import ANY_NAME, alter_quotas, describe_quotas
from spark_kafka_native._client.admin.scram_users import Password, alter_scram_user, describe_scram_users
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._command_line.output import InvalidOption, say_record
from spark_kafka_native._net.sasl.scram import HASHES, MAX_STORED_ITERATIONS, MIN_ITERATIONS
from spark_kafka_native._net.secret import Secret
from spark_kafka_native._protocol.nearest import did_you_mean
from spark_kafka_native._tools.config_entities import Entity

_QUOTA_TYPES: Final = {"users": "user", "clients": "client-id", "ips": "ip"}
_OF_CLIENTS: Final = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
_OF_ADDRESSES: Final = ("connection_creation_rate",)
_SHOWN: Final = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}
_PASSWORD: Final = re.compile(r"(?:iterations=([0-9]{1,9}),)?password=(.+)", re.DOTALL)


def describe_client(cluster: Cluster, entities: Sequence[Entity], *, as_json: bool) -> None:
    """Print quotas, and of users without a client the credentials."""
    wanted = {_QUOTA_TYPES[entity.type]: ANY_NAME if entity.is_all else entity.name for entity in entities}
    for parts, quotas in describe_quotas(cluster, wanted).items():
        names = dict(parts)
        shown = ", ".join(_shown(kind, names[kind]) for kind in wanted if kind in names)
        text = f"Quota configs for {shown} are {', '.join(f'{key}={value}' for key, value in quotas.items())}"
        # A name that is null is that of the default.
        say_record({"entity": names, "quotas": quotas}, text, as_json=as_json)
    user = entities[0]
    if len(entities) == 1 and user.type == "users" and not user.is_default:
        for name, mechanisms in sorted(describe_scram_users(cluster, user.name).items()):
            iterations = dict(sorted(mechanisms.items()))
            shown = ", ".join(f"{mechanism}=iterations={count}" for mechanism, count in iterations.items())
            text = f"SCRAM credential configs for user-principal '{name}' are {shown}"
            say_record({"entity": {"user": name}, "scramIterations": iterations}, text, as_json=as_json)


def alter_client(
    cluster: Cluster, entities: Sequence[Entity], added: Mapping[str, str | None], deleted: Sequence[str]
) -> None:
    """Change quotas or credentials. Raises InvalidOption, KafkaError."""
    names = [*added, *deleted]
    credentials = [name for name in names if name in HASHES]
    if not credentials:
        _alter_quotas(cluster, entities, added, deleted)
        return
    if len(credentials) < len(names):
        raise InvalidOption("--alter: one command can change either quotas or SCRAM credentials, not both")
    entity, *others = entities
    if others or entity.type != "users" or entity.name is None:
        raise InvalidOption(f"--alter: {credentials[0]} needs one user: --entity-type users --entity-name NAME")
    passwords = [_password(mechanism, text or "") for mechanism, text in added.items()]
    alter_scram_user(cluster, entity.name, passwords, deleted)


def _alter_quotas(
    cluster: Cluster, entities: Sequence[Entity], added: Mapping[str, str | None], deleted: Sequence[str]
) -> None:
    known = _OF_ADDRESSES if entities[0].type == "ips" else _OF_CLIENTS
    unknown = sorted({*added, *deleted} - {*known})
    if unknown:
        all_known = (*known, *HASHES) if entities[0].type == "users" else known
        hint = did_you_mean(unknown[0], all_known)
        legal = ", ".join(all_known)
        raise InvalidOption(f"--alter: {unknown[0]} is not a config of {entities[0].type}, only {legal}{hint}")
    wanted = {_QUOTA_TYPES[entity.type]: entity.name for entity in entities}
    changes = {key: _number(key, text) for key, text in added.items()}
    present = next(iter(describe_quotas(cluster, wanted).values()), {}) if deleted else {}
    missing = sorted(set(deleted) - present.keys())
    if missing:
        raise InvalidOption(f"--delete-config: Invalid config(s): {', '.join(missing)}")
    alter_quotas(cluster, tuple(wanted.items()), {**changes, **dict.fromkeys(deleted)})


def _number(key: str, text: str | None) -> float:
    try:
        return float(text or "")
    except ValueError:
        raise InvalidOption(f"--add-config: {key}: {text!r} is not a number") from None


def _password(mechanism: str, text: str) -> Password:
    found = _PASSWORD.fullmatch(text)
    if found is None:
        raise InvalidOption(f"--add-config: the value of {mechanism} is not [iterations=N,password=TEXT]")
    iterations = int(found[1] or MIN_ITERATIONS)
    if not MIN_ITERATIONS <= iterations <= MAX_STORED_ITERATIONS:
        problem = f"iterations={iterations} is not between {MIN_ITERATIONS} and {MAX_STORED_ITERATIONS}"
        raise InvalidOption(f"--add-config: {mechanism}: {problem}")
    return Password(mechanism=mechanism, password=Secret(found[2]), iterations=iterations)


def _shown(kind: str, name: str | None) -> str:
    return f"the default {_SHOWN[kind]}" if name is None else f"{_SHOWN[kind]} '{name}'"
