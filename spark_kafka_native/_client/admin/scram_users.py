"""SCRAM credentials of users: describe, set and delete them (KIP-554). Passwords are salted here."""

import dataclasses
import secrets
from collections.abc import Iterable
from typing import Final

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._net.sasl.scram import MECHANISMS, MIN_ITERATIONS, salted_password
from spark_kafka_native._net.secret import Secret
from spark_kafka_native._protocol.errors import ErrorCode, check_code
from spark_kafka_native._protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from spark_kafka_native._protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)

_NUMBERS: Final = {name: number for number, name in MECHANISMS.items()}
_SALT_BYTES: Final = 16


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Password:
    """A new password of a mechanism."""

    mechanism: str
    password: Secret
    iterations: int = MIN_ITERATIONS


def describe_scram_users(cluster: Cluster, name: str | None = None) -> dict[str, dict[str, int]]:
    """The iterations of each mechanism of a user, or of all users for None, by name. Raises KafkaError.

    A user that does not exist is left out.
    """
    users = None if name is None else (UserName(name=name),)
    response = cluster.send(None, DescribeUserScramCredentialsRequest(users=users))
    check_code(response.error_code, "users of SCRAM", response.error_message, operation="DESCRIBE")
    found = {}
    for result in response.results:
        if result.error_code == ErrorCode.RESOURCE_NOT_FOUND:
            continue
        check_code(result.error_code, f"user {result.user}", result.error_message, operation="DESCRIBE")
        infos = result.credential_infos
        found[result.user] = {MECHANISMS.get(info.mechanism, "unknown"): info.iterations for info in infos}
    return found


def alter_scram_user(
    cluster: Cluster, name: str, passwords: Iterable[Password] = (), deleted: Iterable[str] = ()
) -> None:
    """Set passwords of a user, and delete credentials by mechanism. Raises KafkaError."""
    request = AlterUserScramCredentialsRequest(
        deletions=tuple(ScramCredentialDeletion(name=name, mechanism=_NUMBERS[mechanism]) for mechanism in deleted),
        upsertions=tuple(_upsertion(name, password) for password in passwords),
    )
    for result in cluster.send(None, request).results:
        check_code(result.error_code, f"user {result.user}", result.error_message, operation="ALTER")


def _upsertion(name: str, password: Password) -> ScramCredentialUpsertion:
    salt = secrets.token_bytes(_SALT_BYTES)
    return ScramCredentialUpsertion(
        name=name,
        mechanism=_NUMBERS[password.mechanism],
        iterations=password.iterations,
        salt=salt,
        salted_password=salted_password(password.mechanism, password.password, salt, password.iterations),
    )
