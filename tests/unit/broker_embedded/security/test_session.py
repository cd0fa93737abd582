from collections.abc import Mapping
from typing import Final

import pytest

from broker_embedded._security.credentials import ScramCredential, ScramUser
from broker_embedded._security.mechanisms import SaslRefused
from broker_embedded._security.session import ANONYMOUS, NO_SASL, SaslListener, Session
from spark_kafka_native._net.sasl.mechanism import Mechanism
from spark_kafka_native._net.sasl.plain import Plain
from spark_kafka_native._net.sasl.scram import Scram
from spark_kafka_native._net.secret import Secret
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.sasl_authenticate import SaslAuthenticateResponse

METADATA, HANDSHAKE, VERSIONS, AUTHENTICATE = 3, 17, 18, 36
WORD: Final = Secret("hunter2")
WRONG: Final = Secret("wrong")
USERS: Mapping[ScramUser, ScramCredential] = {
    ScramUser(name, "SCRAM-SHA-256"): ScramCredential.of_password("SCRAM-SHA-256", WORD) for name in ("alice", "bob")
}


class SaslConnection:
    """A connection with a client and a clock."""

    def __init__(self, *, lasts_ms: int = 0) -> None:
        mechanisms = ("PLAIN", "SCRAM-SHA-256")
        listener = SaslListener(
            mechanisms=mechanisms,
            plain_users={"alice": WORD, "bob": WORD},
            max_reauth_ms=dict.fromkeys(mechanisms, lasts_ms),
            max_receive_bytes=1000,
        )
        self.now_ms = 50_000
        self.opened = 0
        self.session = Session(listener, scram_credential=USERS.get, now_ms=lambda: self.now_ms, on_open=self._on_open)

    def _on_open(self) -> None:
        self.opened += 1

    @property
    def allowed(self) -> set[int]:
        """Which of some APIs do not close the connection."""
        return {key for key in (METADATA, HANDSHAKE, VERSIONS, AUTHENTICATE) if self.session.refusal(key) is None}

    def shake(self, mechanism: str = "PLAIN", *, bare_tokens: bool = False) -> ErrorCode:
        return ErrorCode.of(self.session.handshake(mechanism, bare_tokens=bare_tokens).error_code)

    def say(self, mechanism: Mechanism) -> SaslAuthenticateResponse:
        """All messages of a client; the last response."""
        token: bytes | None = mechanism.first()
        while token is not None:
            response = self.session.authenticate(token)
            if response.error_code:
                return response
            token = mechanism.reply(bytes(response.auth_bytes))
        return response

    def log_in(self, name: str = "alice", password: Secret = WORD) -> SaslAuthenticateResponse:
        assert self.shake() is ErrorCode.NONE
        return self.say(Plain(name, password))


@pytest.fixture
def connection() -> SaslConnection:
    return SaslConnection()


def test_a_login_with_plain(connection: SaslConnection) -> None:
    assert (connection.allowed, connection.session.user) == ({HANDSHAKE, VERSIONS}, ANONYMOUS)
    connection.session.api_versions_answered()
    assert connection.allowed == {HANDSHAKE}
    assert connection.session.handshake("PLAIN", bare_tokens=False).mechanisms == ("PLAIN", "SCRAM-SHA-256")
    assert AUTHENTICATE in connection.allowed
    assert METADATA not in connection.allowed
    assert not connection.session.expects_bare_token
    response = connection.say(Plain("alice", WORD))
    assert (response.error_code, response.error_message, response.session_lifetime_ms) == (ErrorCode.NONE, "", 0)
    assert connection.allowed == {METADATA, HANDSHAKE, VERSIONS, AUTHENTICATE}
    assert (connection.session.user, connection.session.is_open, connection.opened) == ("alice", True, 1)


def test_scram_takes_two_messages(connection: SaslConnection) -> None:
    connection.shake("SCRAM-SHA-256")
    client = Scram("SCRAM-SHA-256", "alice", WORD)
    assert connection.say(client).error_code == ErrorCode.NONE
    assert client.complete
    assert connection.session.user == "alice"


def test_a_session_is_not_authenticated_amid_scram(connection: SaslConnection) -> None:
    connection.shake("SCRAM-SHA-256")
    response = connection.session.authenticate(Scram("SCRAM-SHA-256", "alice", WORD).first())
    assert (response.error_code, response.session_lifetime_ms) == (ErrorCode.NONE, 0)
    assert (connection.session.user, connection.session.is_open, METADATA in connection.allowed) == (
        ANONYMOUS,
        False,
        False,
    )


@pytest.mark.parametrize(
    "mechanism", [Plain("alice", Secret("wrong")), Scram("SCRAM-SHA-256", "alice", Secret("wrong"))]
)
def test_a_wrong_password(mechanism: Mechanism, connection: SaslConnection) -> None:
    connection.shake(mechanism.name)
    response = connection.say(mechanism)
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert connection.session.failure == f"it did not log in: {response.error_message}"
    assert (connection.allowed, connection.opened, connection.session.user) == (set(), 0, ANONYMOUS)


def test_a_mechanism_that_there_is_not(connection: SaslConnection) -> None:
    response = connection.session.handshake("GSSAPI", bare_tokens=False)
    assert response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert response.mechanisms == ("PLAIN", "SCRAM-SHA-256")
    assert connection.session.failure == "it requested the SASL mechanism 'GSSAPI'; enabled are PLAIN, SCRAM-SHA-256"
    assert connection.allowed == set()


def test_a_second_handshake_ends_it(connection: SaslConnection) -> None:
    connection.shake()
    assert connection.shake() is ErrorCode.ILLEGAL_SASL_STATE
    assert connection.allowed == set()


def test_a_token_without_a_handshake(connection: SaslConnection) -> None:
    assert AUTHENTICATE not in connection.allowed
    assert connection.session.authenticate(b"\0alice\0hunter2").error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert connection.session.user == ANONYMOUS


def test_sasl_tokens_without_a_kafka_header(connection: SaslConnection) -> None:
    connection.shake(bare_tokens=True)
    assert connection.session.expects_bare_token
    assert connection.session.take(b"\0alice\0hunter2") == b""
    assert not connection.session.expects_bare_token
    assert connection.session.user == "alice"


def test_a_bare_token_that_is_wrong(connection: SaslConnection) -> None:
    connection.shake(bare_tokens=True)
    with pytest.raises(SaslRefused):
        connection.session.take(b"\0alice\0wrong")
    assert (connection.allowed, connection.session.expects_bare_token) == (set(), False)


def test_logging_in_again_where_sessions_do_not_end(connection: SaslConnection) -> None:
    connection.log_in()
    assert connection.shake() is ErrorCode.ILLEGAL_SASL_STATE
    assert connection.session.authenticate(b"\0bob\0hunter2").error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert (connection.session.user, connection.session.failure) == ("alice", None)
    assert METADATA in connection.allowed


def test_a_sasl_session_ends_after_its_lifetime() -> None:
    connection = SaslConnection(lasts_ms=5000)
    assert connection.log_in().session_lifetime_ms == 5000
    connection.now_ms += 5000
    assert METADATA in connection.allowed
    connection.now_ms += 1
    assert connection.allowed == {HANDSHAKE}
    assert "connections.max.reauth.ms" in str(connection.session.refusal(METADATA))


@pytest.mark.parametrize("late_ms", [0, 9000])
def test_a_reauthenticated_session_continues(late_ms: int) -> None:
    connection = SaslConnection(lasts_ms=5000)
    connection.log_in()
    connection.now_ms += late_ms
    assert connection.shake() is ErrorCode.NONE
    assert METADATA not in connection.allowed
    assert connection.say(Plain("alice", WORD)).session_lifetime_ms == 5000
    connection.now_ms += 4000
    assert METADATA in connection.allowed
    assert connection.session.user == "alice"


def test_a_second_reauthentication_within_a_second_is_refused() -> None:
    connection = SaslConnection(lasts_ms=5000)
    connection.log_in()
    connection.log_in()
    connection.now_ms += 999
    assert connection.shake() is ErrorCode.ILLEGAL_SASL_STATE
    assert METADATA in connection.allowed
    connection.now_ms += 1
    assert connection.shake() is ErrorCode.NONE


def test_reauthentication_as_another_user_is_refused() -> None:
    connection = SaslConnection(lasts_ms=5000)
    connection.log_in("alice")
    response = connection.log_in("bob")
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "Cannot change principals" in str(response.error_message)
    assert (connection.session.user, connection.allowed) == ("alice", set())


def test_reauthentication_with_another_mechanism_is_refused() -> None:
    connection = SaslConnection(lasts_ms=5000)
    connection.log_in()
    assert connection.shake("SCRAM-SHA-256") is ErrorCode.NONE
    response = connection.say(Scram("SCRAM-SHA-256", "alice", WORD))
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "must use the same mechanism, PLAIN" in str(response.error_message)
    assert connection.allowed == set()


def test_a_wrong_password_ends_the_session_too() -> None:
    connection = SaslConnection(lasts_ms=5000)
    connection.log_in()
    assert connection.log_in(password=Secret("wrong")).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert connection.allowed == set()


def test_without_sasl_everything_is_allowed_but_sasl() -> None:
    NO_SASL.api_versions_answered()
    assert all(NO_SASL.refusal(key) is None for key in range(100))
    assert NO_SASL.user == ANONYMOUS
    assert NO_SASL.handshake("PLAIN", bare_tokens=False).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert NO_SASL.authenticate(b"").error_code == ErrorCode.ILLEGAL_SASL_STATE


def test_passwords_do_not_print() -> None:
    users = {"alice": Secret("hunter2")}
    listener = SaslListener(
        mechanisms=("PLAIN",), plain_users=users, max_reauth_ms={"PLAIN": 0}, max_receive_bytes=524288
    )
    assert "hunter2" not in repr(listener)
    assert listener.plain_users["alice"].reveal() == "hunter2"
