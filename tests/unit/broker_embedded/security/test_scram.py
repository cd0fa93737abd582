import base64
import hashlib

import pytest

from broker_embedded._security.credentials import ScramCredential
from broker_embedded._security.mechanisms import SaslRefused, ScramServer
from spark_kafka_native._net.sasl.mechanism import SaslError
from spark_kafka_native._net.sasl.scram import HASHES, MECHANISMS, Scram
from spark_kafka_native._net.secret import Secret

NAMES = ("SCRAM-SHA-256", "SCRAM-SHA-512")


def known(name: str, password: str = "pencil", salt: str = "W22ZaJ0SNY7soEsUEjb6gQ==") -> ScramCredential:
    return ScramCredential.of_password(name, Secret(password), salt=base64.b64decode(salt))


def refused(server: ScramServer, token: str | bytes) -> str:
    with pytest.raises(SaslRefused) as caught:
        server.take(token.encode() if isinstance(token, str) else token)
    assert server.user is None
    return str(caught.value)


def begun(first: str = "n,,n=user,r=abc") -> ScramServer:
    server = ScramServer("SCRAM-SHA-256", {"user": known("SCRAM-SHA-256")}.get, nonce="xyz")
    assert server.take(first.encode()) == b"r=abcxyz,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    return server


def test_the_example_of_rfc_7677() -> None:
    server = ScramServer("SCRAM-SHA-256", {"user": known("SCRAM-SHA-256")}.get, nonce="%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    assert server.take(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO") == f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
    assert server.user is None
    final = f"c=biws,r={nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    assert server.take(final.encode()) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert server.user == "user"


def test_the_example_of_rfc_5802(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(HASHES, "SCRAM-SHA-1", "sha1")
    credential = known("SCRAM-SHA-1", salt="QSXCR+Q6sek8bf92")
    server = ScramServer("SCRAM-SHA-1", {"user": credential}.get, nonce="3rfcNHYJY1ZVvWVs7j")
    nonce = "fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j"
    assert server.take(b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL") == f"r={nonce},s=QSXCR+Q6sek8bf92,i=4096".encode()
    final = f"c=biws,r={nonce},p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts="
    assert server.take(final.encode()) == b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ="


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("user", ["alice", "a=b,c", "=2C", "bøb", "with blank"])
def test_our_client_logs_in_and_verifies_the_server(name: str, user: str) -> None:
    server, client = ScramServer(name, {user: known(name)}.get), Scram(name, user, Secret("pencil"))
    final = client.reply(server.take(client.first()))
    assert final is not None
    assert client.reply(server.take(final)) is None
    assert client.complete
    assert server.user == user


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_name_and_a_wrong_password_look_the_same(name: str) -> None:
    server, client = ScramServer(name, {"alice": known(name)}.get), Scram(name, "alice", Secret("wrong"))
    final = client.reply(server.take(client.first()))
    assert final is not None
    wrong_password = refused(server, final)
    assert wrong_password == refused(ScramServer(name, lambda _: None), Scram(name, "unknown", Secret("wrong")).first())
    assert name in wrong_password


def test_a_server_without_the_password_is_detected() -> None:
    name, client = "SCRAM-SHA-256", Scram("SCRAM-SHA-256", "alice", Secret("pencil"))
    right = known(name)
    cheat = ScramCredential(salt=right.salt, stored_key=right.stored_key, server_key=b"guess", iterations=4096)
    server = ScramServer(name, {"alice": cheat}.get)
    final = client.reply(server.take(client.first()))
    assert final is not None
    with pytest.raises(SaslError, match="signature is wrong"):
        client.reply(server.take(final))


def test_nonces_are_new_for_each_exchange() -> None:
    first, second = (
        ScramServer("SCRAM-SHA-256", {"user": known("SCRAM-SHA-256")}.get).take(b"n,,n=user,r=abc") for _ in range(2)
    )
    assert first != second


@pytest.mark.parametrize(
    "first",
    [
        "",
        "n,,n=user",
        "n,,n=user,r=",
        "n,,n=user,r=a b",
        "y,,n=user,r=abc",
        "p=tls-unique,,n=user,r=abc",
        "n,,m=must,n=user,r=abc",
        "n,,n=us=er,r=abc",
        "n,,n=,r=abc",
        "n,,n=user,r=abc,",
        "n,,n=user,r=abc,tokenauth=true",
        "n,,n=user\0,r=abc",
        b"n,,n=user,r=ab\xff",
    ],
)
def test_first_messages_that_are_refused(first: str | bytes) -> None:
    refused(ScramServer("SCRAM-SHA-256", {"user": known("SCRAM-SHA-256")}.get), first)


def test_another_authorization_id_is_refused() -> None:
    begun("n,a=user,n=user,r=abc")
    server = ScramServer("SCRAM-SHA-256", {"user": known("SCRAM-SHA-256")}.get)
    assert "different from username" in refused(server, "n,a=admin,n=user,r=abc")


@pytest.mark.parametrize(
    "final",
    [
        "",
        "c=biws,r=abcxyz",
        "c=biws,r=abcxyz,p=",
        "c=biws,r=abcxyz,p=AAAA",
        "c=biws,r=abcxyz,p=====",
        "c=biws,r=abcxy,p=" + "A" * 43 + "=",
        "c=biws,r=abcxyz,p=" + "A" * 43 + "=",
        "c=eSws,r=abcxyz,p=" + "A" * 43 + "=",
        b"\xff",
    ],
)
def test_final_messages_that_are_refused(final: str | bytes) -> None:
    refused(begun(), final)


def test_a_proof_is_of_the_whole_exchange() -> None:
    client = Scram("SCRAM-SHA-256", "user", Secret("pencil"), nonce="abc")
    final = client.reply(b"r=abcxyz,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    assert final is not None
    assert begun().take(final).startswith(b"v=")
    refused(begun("n,,n=user,r=abc,extension=1"), final)


SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")  # of RFC 7677


def test_the_credential_of_the_example_of_rfc_7677() -> None:
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
