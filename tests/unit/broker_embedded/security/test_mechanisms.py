import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_embedded._security.credentials import ScramCredential
from broker_embedded._security.mechanisms import PlainServer, SaslRefused, ScramServer, ServerMechanism
from spark_kafka_native._net.sasl.plain import Plain
from spark_kafka_native._net.secret import Secret

KNOWN = ScramCredential.of_password("SCRAM-SHA-256", Secret("hunter2"))
GOOD = (b"n,,n=alice,r=abc", b"c=biws,r=abcxyz,p=" + b"A" * 43 + b"=", b"\0alice\0hunter2")
MECHANISMS: list[ServerMechanism] = [
    PlainServer({"alice": Secret("hunter2")}),
    ScramServer("SCRAM-SHA-256", {"alice": KNOWN}.get),
]


@given(st.lists(st.one_of(st.binary(max_size=60), st.sampled_from(GOOD)), max_size=3))
def test_no_bytes_break_a_mechanism(tokens: list[bytes]) -> None:
    scram = ScramServer("SCRAM-SHA-256", {"alice": KNOWN}.get, nonce="xyz")
    for mechanism in (PlainServer({"alice": Secret("hunter2")}), scram):
        for token in tokens:
            with contextlib.suppress(SaslRefused):
                mechanism.take(token)
    assert scram.user is None


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("token", [b"", b"\0", b"\xff\xfe", b"n,,", b"\0\0\0\0\0", b"n=" * 100_000])
def test_random_bytes_are_refused_with_a_message(mechanism: ServerMechanism, token: bytes) -> None:
    with pytest.raises(SaslRefused) as caught:
        mechanism.take(token)
    assert str(caught.value)
    assert mechanism.user is None


USERS = {"alice": Secret("alice-hunter2"), "bøb": Secret("bøb-hunter2")}


def refused(token: bytes) -> str:
    server = PlainServer(USERS)
    with pytest.raises(SaslRefused) as caught:
        server.take(token)
    assert server.user is None
    return str(caught.value)


@pytest.mark.parametrize("name", USERS)
def test_our_client_logs_in(name: str) -> None:
    server = PlainServer(USERS)
    assert server.user is None
    assert server.take(Plain(name, USERS[name]).first()) == b""
    assert server.user == name


def test_an_equal_authorization_id_is_accepted() -> None:
    server = PlainServer(USERS)
    server.take(b"alice\0alice\0alice-hunter2")
    assert server.user == "alice"


def test_a_wrong_name_and_a_wrong_password_look_the_same() -> None:
    assert refused(b"\0alice\0wrong") == refused(b"\0nobody\0wrong") == refused(b"\0nobody\0alice-hunter2")
    assert refused(b"\0alice\0alice-hunter") == refused(b"\0alice\0\xff")


@pytest.mark.parametrize(
    ("token", "words"),
    [
        (b"", "expected 3 tokens, got 1"),
        (b"\0alice", "expected 3 tokens, got 2"),
        (b"\0alice\0alice-hunter2\0", "expected 3 tokens, got 4"),
        (b"\0" * 9, "expected 3 tokens, got 4"),
        (b"\0\0alice-hunter2", "username not specified"),
        (b"\0alice\0", "password not specified"),
        (b"bob\0alice\0alice-hunter2", "different from username"),
        (b"alice\0alice\0wrong", "Invalid username or password"),
    ],
)
def test_invalid_logins_are_refused(token: bytes, words: str) -> None:
    assert words in refused(token)


def test_without_users_every_login_fails() -> None:
    with pytest.raises(SaslRefused, match="Invalid username"):
        PlainServer({}).take(b"\0alice\0alice-hunter2")
