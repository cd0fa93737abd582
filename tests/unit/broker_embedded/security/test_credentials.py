import base64
import hashlib

import pytest

from broker_embedded.security.credentials import ScramCredential
from spark_kafka_native.net.sasl.scram import MECHANISMS
from spark_kafka_native.net.secret import Secret

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")  # of RFC 7677


def test_the_example_of_rfc_7677() -> None:
    made = ScramCredential.of_password("SCRAM-SHA-256", Secret("pencil"), salt=SALT)
    assert base64.b64encode(made.stored_key) == b"WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY="
    assert base64.b64encode(made.server_key) == b"wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
    assert (made.salt, made.iterations) == (SALT, 4096)


@pytest.mark.parametrize(("mechanism", "hash_name"), [("SCRAM-SHA-256", "sha256"), ("SCRAM-SHA-512", "sha512")])
def test_a_salted_password_gives_the_credential_of_the_password(mechanism: str, hash_name: str) -> None:
    salted = hashlib.pbkdf2_hmac(hash_name, b"pencil", SALT, 5000)
    assert ScramCredential.of_salted(mechanism, salted, salt=SALT, iterations=5000) == ScramCredential.of_password(
        mechanism, Secret("pencil"), salt=SALT, iterations=5000
    )


def test_salts_are_random() -> None:
    first, second = (ScramCredential.of_password("SCRAM-SHA-256", Secret("pencil")) for _ in range(2))
    assert first.salt != second.salt
    assert first.stored_key != second.stored_key
    assert len(first.salt) >= 16


def test_a_credential_does_not_print() -> None:
    made = ScramCredential.of_password("SCRAM-SHA-256", Secret("pencil"), salt=SALT)
    assert repr(made) == "ScramCredential(iterations=4096)"


def test_the_numbers_are_kafkas() -> None:
    assert dict(MECHANISMS) == {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
