import pytest

from spark_kafka_native._net.sasl.mechanism import SaslError
from spark_kafka_native._net.sasl.scram import MAX_ITERATIONS, Scram
from spark_kafka_native._net.secret import Secret

NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"


def begun(password: str = "pencil") -> Scram:
    scram = Scram("SCRAM-SHA-256", "user", Secret(password), nonce=NONCE)
    assert scram.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    return scram


def test_the_example_of_rfc_7677() -> None:
    scram = begun()
    assert scram.reply(SERVER_FIRST) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert not scram.complete
    assert scram.reply(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None
    assert scram.complete


@pytest.mark.parametrize(
    ("response", "complaint"),
    [
        (b"\xff", "not UTF-8"),
        (b"e=unknown-user", "unknown-user"),
        (b"nonsense", "malformed"),
        (b"r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "nonce"),
        (b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "nonce"),
        (SERVER_FIRST.replace(b"Q==", b"Q="), "base64"),
        (SERVER_FIRST.replace(b"4096", b"4095"), "4095 iterations"),
        (SERVER_FIRST.replace(b"4096", str(MAX_ITERATIONS + 1).encode()), "iterations"),
        (b"m=must," + SERVER_FIRST, "malformed"),
    ],
)
def test_first_messages_that_no_broker_sends(response: bytes, complaint: str) -> None:
    with pytest.raises(SaslError, match=complaint):
        begun().reply(response)


@pytest.mark.parametrize("response", [b"v=AAAA", b"v=", b"", b"x=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", b"v=!"])
def test_a_broker_that_does_not_know_the_password(response: bytes) -> None:
    scram = begun()
    scram.reply(SERVER_FIRST)
    with pytest.raises(SaslError, match="signature is wrong"):
        scram.reply(response)
    assert not scram.complete


def test_a_refusal_repeats_no_password() -> None:
    scram = begun("hunter2")
    scram.reply(SERVER_FIRST)
    with pytest.raises(SaslError) as caught:
        scram.reply(b"e=hunter2 is wrong")
    assert "hunter2" not in str(caught.value)


def test_names_are_escaped_and_tokens_announced() -> None:
    scram = Scram("SCRAM-SHA-512", "a=b,c", Secret("x"), token_auth=True, nonce="n")
    assert scram.first() == b"n,,n=a=3Db=2Cc,r=n,tokenauth=true"


def test_nonces_are_new_each_time() -> None:
    firsts = {Scram("SCRAM-SHA-256", "a", Secret("x")).first() for _ in range(20)}
    assert len(firsts) == 20
