"""What mechanisms have in common."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_embedded.security.credentials import ScramCredential
from broker_embedded.security.mechanisms import PlainServer, SaslRefused, ScramServer, ServerMechanism
from spark_kafka_native.net.secret import Secret

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
def test_whatever_comes_is_refused_in_words(mechanism: ServerMechanism, token: bytes) -> None:
    with pytest.raises(SaslRefused) as caught:
        mechanism.take(token)
    assert str(caught.value)
    assert mechanism.user is None
