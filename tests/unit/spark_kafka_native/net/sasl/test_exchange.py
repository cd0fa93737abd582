import pytest

from spark_kafka_native._net.address import HostPort
from spark_kafka_native._net.errors import AuthenticationFailed
from spark_kafka_native._net.sasl.exchange import Exchange
from spark_kafka_native._net.sasl.oauthbearer import BearerToken, OAuthBearer
from spark_kafka_native._net.sasl.plain import Plain
from spark_kafka_native._net.sasl.scram import Scram
from spark_kafka_native._net.secret import Secret
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from spark_kafka_native._protocol.messages.sasl_handshake import SaslHandshakeResponse

BROKER = HostPort("broker", 9092)
OFFER = SaslHandshakeResponse(mechanisms=("PLAIN",))
WORD = Secret("hunter2")


def exchange(*, raw: bool = False) -> Exchange:
    return Exchange(Plain("alice", WORD), BROKER, raw=raw)


def test_handshake_token_response() -> None:
    plain = exchange()
    assert plain.handshake.mechanism == "PLAIN"
    assert plain.begin(OFFER) == b"\0alice\0hunter2"
    assert not plain.is_heard_out
    assert plain.take(SaslAuthenticateResponse(session_lifetime_ms=7)) is None
    assert plain.session_lifetime_ms == 7


@pytest.mark.parametrize(
    ("code", "option", "reason"),
    [
        (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "sasl.mechanism", "does not offer PLAIN, but PLAIN"),
        (ErrorCode.ILLEGAL_SASL_STATE, "security.protocol", "does not use SASL"),
        (ErrorCode.UNSUPPORTED_VERSION, "sasl.mechanism", "UNSUPPORTED_VERSION"),
    ],
)
def test_brokers_that_refuse_the_handshake(code: ErrorCode, option: str, reason: str) -> None:
    with pytest.raises(AuthenticationFailed, match=reason) as caught:
        exchange().begin(SaslHandshakeResponse(error_code=code, mechanisms=("PLAIN",)))
    assert (caught.value.option, caught.value.code) == (option, code)


def test_the_brokers_error_message_is_shown_without_the_password() -> None:
    plain = exchange()
    plain.begin(OFFER)
    refused = SaslAuthenticateResponse(error_code=58, error_message="alice is not hunter2")
    with pytest.raises(AuthenticationFailed) as caught:
        plain.take(refused)
    assert str(caught.value) == "broker:9092: sasl.jaas.config: PLAIN: alice is not (hidden)"
    assert not caught.value.retriable


def test_a_refused_token_names_the_brokers_reason_once() -> None:
    oauth = Exchange(OAuthBearer(BearerToken(value=Secret("a.b.c"))), BROKER, raw=False)
    oauth.begin(SaslHandshakeResponse())
    assert oauth.take(SaslAuthenticateResponse(auth_bytes=b'{"status":"invalid_token"}')) == b"\x01"
    with pytest.raises(AuthenticationFailed, match="OAUTHBEARER: the broker refuses the token: invalid_token; no"):
        oauth.take(SaslAuthenticateResponse(error_code=58, error_message="no"))


def test_a_broker_that_ends_before_it_has_proved_itself() -> None:
    scram = Exchange(Scram("SCRAM-SHA-256", "alice", WORD), BROKER, raw=False)
    scram.begin(SaslHandshakeResponse())
    with pytest.raises(AuthenticationFailed, match="malformed"):
        scram.take(SaslAuthenticateResponse())


def test_bare_tokens_of_old_brokers() -> None:
    plain = exchange(raw=True)
    plain.begin(OFFER)
    assert plain.next_token(b"") is None
    assert plain.is_heard_out
    assert "as old ones do" in str(plain.cut_off())


def test_a_mechanism_that_cannot_begin() -> None:
    with pytest.raises(AuthenticationFailed, match="NUL"):
        Exchange(Plain("a\0", WORD), BROKER, raw=False).begin(OFFER)
