"""The rules of changing and describing credentials, those of Apache Kafka's KRaft controller (KIP-554)."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from broker_embedded._security.credentials import Credentials, ScramCredential, ScramUser
from spark_kafka_native._net.sasl.scram import MAX_STORED_ITERATIONS, MECHANISMS, MIN_ITERATIONS
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.alter_user_scram_credentials import (
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

Results: TypeAlias = dict[str, KafkaError | None]
"""The error of each user, or None."""


def altered(
    credentials: Credentials,
    deletions: Sequence[ScramCredentialDeletion],
    upsertions: Sequence[ScramCredentialUpsertion],
) -> tuple[Credentials, Results]:
    """The credentials after a change, and the result of each user. A user must not be repeated."""
    accepted: dict[str, tuple[ScramUser, ScramCredential | None]] = {}
    results = Results()
    items: tuple[ScramCredentialDeletion | ScramCredentialUpsertion, ...] = (*deletions, *upsertions)
    for item in items:
        if results.get(item.name) is not None:
            continue
        results[item.name] = None
        try:
            if accepted.pop(item.name, None) is not None:
                raise KafkaError(ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in a request")
            user = _user(item)
            accepted[item.name] = user, _credential(credentials, user, item)
        except KafkaError as error:
            results[item.name] = error
    changed = dict(credentials)
    for user, credential in accepted.values():
        changed.pop(user, None)
        if credential is not None:
            changed[user] = credential
    return changed, results


def described(credentials: Credentials, names: Iterable[str] | None) -> dict[str, dict[str, int] | KafkaError]:
    """The iterations of each user's mechanisms, or its error; of all users for None or no names."""
    found: dict[str, dict[str, int]] = {}
    for user, credential in credentials.items():
        found.setdefault(user.name, {})[user.mechanism] = credential.iterations
    times = Counter(names or ())
    if not times:
        return dict(found)
    return {name: _description(name, found.get(name), times[name]) for name in times}


def _description(name: str, mechanisms: dict[str, int] | None, times: int) -> dict[str, int] | KafkaError:
    if times > 1:
        return KafkaError(ErrorCode.DUPLICATE_RESOURCE, f"The request contains the user {name} more than once")
    if mechanisms is None:
        return KafkaError(ErrorCode.RESOURCE_NOT_FOUND, f"The user {name} has no SCRAM credentials")
    return mechanisms


def _user(item: ScramCredentialDeletion | ScramCredentialUpsertion) -> ScramUser:
    if not item.name:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    mechanism = MECHANISMS.get(item.mechanism)
    if mechanism is None:
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    return ScramUser(item.name, mechanism)


def _credential(
    credentials: Credentials, user: ScramUser, item: ScramCredentialDeletion | ScramCredentialUpsertion
) -> ScramCredential | None:
    """The new credential; None to delete it."""
    if isinstance(item, ScramCredentialDeletion):
        if user not in credentials:
            raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, "There is no such user credential to delete")
        return None
    if item.iterations < MIN_ITERATIONS:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if item.iterations > MAX_STORED_ITERATIONS:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    salted = bytes(item.salted_password)
    return ScramCredential.of_salted(user.mechanism, salted, salt=bytes(item.salt), iterations=item.iterations)
