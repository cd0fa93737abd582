import hashlib

import pytest

from broker_embedded._security.alterations import altered, described
from broker_embedded._security.credentials import Credentials, ScramCredential, ScramUser
from spark_kafka_native._net.secret import Secret
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.alter_user_scram_credentials import ScramCredentialDeletion as Deletion
from spark_kafka_native._protocol.messages.alter_user_scram_credentials import ScramCredentialUpsertion as Upsertion

SALTED = hashlib.pbkdf2_hmac("sha256", b"hunter2", b"salt", 4096)
ALICE = ScramUser("alice", "SCRAM-SHA-256")
KNOWN: Credentials = {ALICE: ScramCredential.of_password("SCRAM-SHA-256", Secret("old"))}


def upsertion(name: str = "alice", mechanism: int = 1, iterations: int = 4096) -> Upsertion:
    return Upsertion(name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=SALTED)


def deletion(name: str = "alice", mechanism: int = 1) -> Deletion:
    return Deletion(name=name, mechanism=mechanism)


def codes(*items: Deletion | Upsertion) -> tuple[dict[str, ErrorCode], Credentials]:
    changed, results = altered(
        KNOWN,
        [item for item in items if isinstance(item, Deletion)],
        [item for item in items if isinstance(item, Upsertion)],
    )
    return {name: ErrorCode.NONE if error is None else error.code for name, error in results.items()}, changed


def test_a_password_is_set() -> None:
    for name in ("alice", "bob"):
        response, changed = codes(upsertion(name))
        assert response == {name: ErrorCode.NONE}
        expected = ScramCredential.of_password("SCRAM-SHA-256", Secret("hunter2"), salt=b"salt")
        assert changed == {**KNOWN, ScramUser(name, "SCRAM-SHA-256"): expected}


def test_mechanisms_are_apart() -> None:
    _, changed = codes(upsertion(mechanism=2))
    assert changed.keys() == {ALICE, ScramUser("alice", "SCRAM-SHA-512")}


def test_a_user_is_deleted() -> None:
    assert codes(deletion()) == ({"alice": ErrorCode.NONE}, {})


@pytest.mark.parametrize(
    ("item", "code"),
    [
        (deletion("bob"), ErrorCode.RESOURCE_NOT_FOUND),
        (deletion(mechanism=2), ErrorCode.RESOURCE_NOT_FOUND),
        (deletion(""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (deletion(mechanism=0), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsertion(""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(mechanism=3), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsertion(iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(iterations=16385), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(iterations=-1), ErrorCode.UNACCEPTABLE_CREDENTIAL),
    ],
)
def test_invalid_alterations_are_refused(item: Deletion | Upsertion, code: ErrorCode) -> None:
    assert codes(item) == ({item.name: code}, KNOWN)


@pytest.mark.parametrize("iterations", [4096, 16384])
def test_the_bounds_are_allowed(iterations: int) -> None:
    assert codes(upsertion(iterations=iterations))[0] == {"alice": ErrorCode.NONE}


@pytest.mark.parametrize(
    "items",
    [(upsertion(), upsertion(mechanism=2)), (deletion(), upsertion(mechanism=2)), (deletion(), deletion()),
     (upsertion(), upsertion(), upsertion())],
)  # fmt: skip
def test_a_user_may_be_changed_once_in_a_request(items: tuple[Deletion | Upsertion, ...]) -> None:
    response, changed = codes(*items, upsertion("bob"))
    assert response == {"alice": ErrorCode.DUPLICATE_RESOURCE, "bob": ErrorCode.NONE}
    assert changed.keys() == {ALICE, ScramUser("bob", "SCRAM-SHA-256")}
    assert changed[ALICE] == KNOWN[ALICE]


def test_the_first_error_counts() -> None:
    assert codes(deletion("bob"), upsertion("bob")) == ({"bob": ErrorCode.RESOURCE_NOT_FOUND}, KNOWN)


def test_users_are_described() -> None:
    many = {**KNOWN, ScramUser("alice", "SCRAM-SHA-512"): ScramCredential.of_password("SCRAM-SHA-512", Secret("x"))}
    everybody = {"alice": {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 4096}}
    assert described(many, None) == described(many, []) == described(many, ["alice"]) == everybody
    assert described({}, None) == {}


@pytest.mark.parametrize(
    ("names", "code"), [(["bob"], ErrorCode.RESOURCE_NOT_FOUND), (["alice", "alice"], ErrorCode.DUPLICATE_RESOURCE)]
)
def test_users_that_cannot_be_described(names: list[str], code: ErrorCode) -> None:
    (what,) = described(KNOWN, names).values()
    assert isinstance(what, KafkaError)
    assert what.code is code
