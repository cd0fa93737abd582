import pytest

from spark_kafka_native._net.sasl.mechanism import SaslError
from spark_kafka_native._net.sasl.oauthbearer import BearerToken, OAuthBearer
from spark_kafka_native._net.secret import Secret


def mechanism(value: str = "a.b.c", **extensions: str) -> OAuthBearer:
    return OAuthBearer(BearerToken(value=Secret(value), extensions=extensions))


def test_a_token_with_extensions() -> None:
    assert mechanism().first() == b"n,,\x01auth=Bearer a.b.c\x01\x01"
    assert mechanism(trace="7", who="me too").first() == b"n,,\x01auth=Bearer a.b.c\x01trace=7\x01who=me too\x01\x01"


def test_an_accepted_token() -> None:
    oauth = mechanism()
    oauth.first()
    assert oauth.reply(b"") is None
    assert oauth.complete
    assert oauth.refusal == ""


@pytest.mark.parametrize(
    ("challenge", "refusal"),
    [
        (b'{"status":"invalid_token"}', "the broker refuses the token: invalid_token"),
        (b'{"status":"insufficient_scope","scope":"x"}', "the broker refuses the token: insufficient_scope, scope x"),
        (b'{"status":"a.b.c is bad"}', "the broker refuses the token: (hidden) is bad"),
        (b"nonsense", "the broker refuses the token"),
        (b"[]", "the broker refuses the token"),
    ],
)
def test_an_error_challenge_gets_the_response_that_lets_the_broker_end_it(challenge: bytes, refusal: str) -> None:
    oauth = mechanism()
    assert oauth.reply(challenge) == b"\x01"
    assert oauth.refusal == refusal
    assert not oauth.complete


@pytest.mark.parametrize("value", ["", "a b", "a\x01b", "a\nb"])
def test_what_is_no_token_is_not_sent(value: str) -> None:
    with pytest.raises(SaslError, match="the token is empty or has characters"):
        mechanism(value).first()


@pytest.mark.parametrize(("name", "value"), [("auth", "x"), ("a1", "x"), ("a", ""), ("a", "\x01")])
def test_what_is_no_extension_is_not_sent(name: str, value: str) -> None:
    with pytest.raises(SaslError, match="extension"):
        mechanism(**{name: value}).first()


def test_a_token_does_not_show() -> None:
    assert "a.b.c" not in repr(BearerToken(value=Secret("a.b.c")))
