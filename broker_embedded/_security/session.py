"""The session of a connection: its user, and the order of SASL requests, as in Apache Kafka.

With SASL a connection begins with ApiVersions, at most once, and SaslHandshake, which selects a mechanism. The messages
of the mechanism follow, as bare frames after SaslHandshake v0, in SaslAuthenticate after v1 (KIP-152). Other requests
close the connection. When the session ends (``connections.max.reauth.ms``, KIP-368), the client must authenticate again
on the same connection, with the same mechanism and user, or its next request closes the connection.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from broker_embedded._security.credentials import ScramCredential, ScramUser
from broker_embedded._security.mechanisms import PLAIN, PlainServer, SaslRefused, ScramServer, ServerMechanism
from spark_kafka_native._net.secret import Secret
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from spark_kafka_native._protocol.messages.sasl_handshake import SaslHandshakeResponse

ANONYMOUS: Final = "ANONYMOUS"
"""Kafka's name of unauthenticated users."""
_SASL_HANDSHAKE: Final = 17
_API_VERSIONS: Final = 18
_SASL_AUTHENTICATE: Final = 36
_SOONEST_REAUTHENTICATION_MS: Final = 1000
"""A re-authentication within this time is answered ILLEGAL_SASL_STATE."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslListener:
    """The SASL settings of one listener.

    ``max_reauth_ms``: the session lifetime by mechanism; 0 is unlimited. ``max_receive_bytes``: the largest frame of a
    client before its login.
    """

    mechanisms: tuple[str, ...]
    plain_users: Mapping[str, Secret] = field(default_factory=dict)
    max_reauth_ms: Mapping[str, int]
    max_receive_bytes: int


class _SaslState(Enum):
    NEW = 1
    HANDSHAKE = 2
    TOKENS = 3
    OPEN = 4
    FAILED = 5


class Session:
    """The client of one connection. ``user`` is its name; ``failure`` is why the connection must be closed, or None.

    Without SASL there is no login: every request except those of SASL is allowed.
    """

    def __init__(
        self,
        listener: SaslListener,
        *,
        scram_credential: Callable[[ScramUser], ScramCredential | None],
        now_ms: Callable[[], int],
        on_open: Callable[[], None] = lambda: None,
        needs_login: bool = True,
    ) -> None:
        """``now_ms`` is a monotonic clock; ``on_open`` is called after a login; without SASL there is none."""
        self.user = ANONYMOUS
        self.failure: str | None = None
        self._listener = listener
        self._scram_credential = scram_credential
        self._now_ms = now_ms
        self._on_open = on_open
        self._state = _SaslState.NEW if needs_login else _SaslState.OPEN
        self._mechanism_name = ""
        self._mechanism: ServerMechanism | None = None
        self._bare_tokens = False
        self._is_known = False
        self._ends_ms: int | None = None
        self._last_began_ms: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether the client is authenticated, and not re-authenticating."""
        return self._state is _SaslState.OPEN

    @property
    def expects_bare_token(self) -> bool:
        """Whether the next frame is a bare message of the mechanism, for ``take``."""
        return self._state is _SaslState.TOKENS and self._bare_tokens

    def refusal(self, api_key: int) -> str | None:
        """The reason to close the connection because of a request of an API, or None."""
        match self._state:
            case _SaslState.OPEN:
                if self._ends_ms is None or self._now_ms() <= self._ends_ms or api_key == _SASL_HANDSHAKE:
                    return None
                return "its session has ended (connections.max.reauth.ms), and it did not log in again"
            case _SaslState.NEW:
                allowed = {_API_VERSIONS, _SASL_HANDSHAKE}
            case _SaslState.HANDSHAKE:
                allowed = {_SASL_HANDSHAKE}
            case _SaslState.TOKENS:
                allowed = {_SASL_HANDSHAKE, _SASL_AUTHENTICATE}
            case _SaslState.FAILED:
                allowed = set()
        return None if api_key in allowed else f"it sent a request with API key {api_key} before its login"

    def api_versions_answered(self) -> None:
        """After ApiVersions comes SaslHandshake."""
        if self._state is _SaslState.NEW:
            self._state = _SaslState.HANDSHAKE

    def handshake(self, mechanism: str, *, bare_tokens: bool) -> SaslHandshakeResponse:
        """Answer a SaslHandshake. ``bare_tokens``: the mechanism's messages follow as bare frames."""
        if self._state is _SaslState.OPEN and not self._begin_reauthentication():
            return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
        if self._state is _SaslState.TOKENS:
            self._fail("it sent SaslHandshake during a login")
            return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
        mechanisms = self._listener.mechanisms
        if mechanism not in mechanisms:
            self._fail(f"it requested the SASL mechanism {mechanism!r}; enabled are {', '.join(mechanisms)}")
            return SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=mechanisms)
        self._bare_tokens = bare_tokens
        self._mechanism = None if self._is_known and mechanism != self._mechanism_name else self._server_of(mechanism)
        if not self._is_known:
            self._mechanism_name = mechanism
        self._state = _SaslState.TOKENS
        return SaslHandshakeResponse(mechanisms=mechanisms)

    def authenticate(self, token: bytes) -> SaslAuthenticateResponse:
        """Answer a SaslAuthenticate."""
        if self._state is not _SaslState.TOKENS:
            problem = "no login is in progress on this connection"
            return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=problem)
        try:
            response = self.take(token)
        except SaslRefused as refused:
            return SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=str(refused), auth_bytes=b""
            )
        lifetime_ms = self._lifetime_ms if self.is_open else 0
        return SaslAuthenticateResponse(auth_bytes=response, session_lifetime_ms=lifetime_ms)

    def take(self, token: bytes) -> bytes:
        """Answer a message of the mechanism. Raises SaslRefused: the connection must be closed."""
        try:
            if self._mechanism is None:
                raise SaslRefused(f"Re-authentication must use the same mechanism, {self._mechanism_name}")
            response = self._mechanism.take(token)
            if self._mechanism.user is not None:
                self._open(self._mechanism.user)
        except SaslRefused as refused:
            self._fail(f"it did not log in: {refused}")
            raise
        return response

    def _open(self, user: str) -> None:
        if self._is_known and user != self.user:
            raise SaslRefused(f"Cannot change principals during re-authentication from User.{self.user}: User.{user}")
        self.user = user
        self._is_known = True
        self._mechanism = None
        self._ends_ms = self._now_ms() + self._lifetime_ms if self._lifetime_ms else None
        self._state = _SaslState.OPEN
        self._on_open()

    def _begin_reauthentication(self) -> bool:
        """Begin a re-authentication, if sessions end; whether it is allowed now."""
        now_ms = self._now_ms()
        if self._ends_ms is None:
            return False
        if self._last_began_ms is not None and now_ms - self._last_began_ms < _SOONEST_REAUTHENTICATION_MS:
            return False
        self._last_began_ms = now_ms
        self._state = _SaslState.HANDSHAKE
        return True

    @property
    def _lifetime_ms(self) -> int:
        return self._listener.max_reauth_ms[self._mechanism_name]

    def _server_of(self, mechanism: str) -> ServerMechanism:
        if mechanism == PLAIN:
            return PlainServer(self._listener.plain_users)
        return ScramServer(mechanism, lambda name: self._scram_credential(ScramUser(name, mechanism)))

    def _fail(self, reason: str) -> None:
        self._state = _SaslState.FAILED
        self.failure = reason


NO_SASL: Final = Session(
    SaslListener(mechanisms=(), max_reauth_ms={}, max_receive_bytes=0),
    scram_credential=lambda _: None,
    now_ms=lambda: 0,
    needs_login=False,
)
"""The session of every connection without SASL. Its state never changes."""
