"""The Kafka side of an authentication: requests out, responses in, without a socket.

``handshake`` names the mechanism; ``begin`` takes the response and gives the first token; ``take`` and ``next_token``
take the broker's tokens and give the next, until there is none. Brokers from 1.0 carry tokens in SaslAuthenticate
requests (KIP-152), older ones as bare frames (``raw``).
"""

from spark_kafka_native._net.address import HostPort
from spark_kafka_native._net.errors import AuthenticationFailed
from spark_kafka_native._net.sasl.mechanism import Mechanism, SaslError
from spark_kafka_native._net.secret import without_secrets
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from spark_kafka_native._protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


class Exchange:
    """One authentication over one connection. Every call raises AuthenticationFailed."""

    def __init__(self, mechanism: Mechanism, address: HostPort, *, raw: bool) -> None:
        """``address`` names the broker in errors."""
        self.raw = raw
        self.session_lifetime_ms = 0
        """Milliseconds until the broker requires another authentication; 0: never."""
        self._mechanism = mechanism
        self._address = address

    @property
    def handshake(self) -> SaslHandshakeRequest:
        """The request to send first, in version 0 if ``raw``."""
        return SaslHandshakeRequest(mechanism=self._mechanism.name)

    @property
    def is_heard_out(self) -> bool:
        """Whether a bare token that was sent has no response, because the mechanism is complete."""
        return self.raw and self._mechanism.complete

    def begin(self, response: SaslHandshakeResponse) -> bytes:
        """The first token."""
        code = ErrorCode.of(response.error_code)
        if code is ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            offered = ", ".join(response.mechanisms) or "none"
            raise self._failed(
                f"the broker does not offer {self._mechanism.name}, but {offered}", "sasl.mechanism", code
            )
        if code is ErrorCode.ILLEGAL_SASL_STATE:
            raise self._failed("the listener does not use SASL", "security.protocol", code)
        if code is not ErrorCode.NONE:
            raise self._failed(f"{code.message} ({code.name})", "sasl.mechanism", code)
        try:
            return self._mechanism.first()
        except SaslError as error:
            raise self._failed(str(error), error.option) from error

    def take(self, response: SaslAuthenticateResponse) -> bytes | None:
        """The token after a response; None: the authentication is complete."""
        code = ErrorCode.of(response.error_code)
        if code is not ErrorCode.NONE:
            broker_says = without_secrets(response.error_message or code.message, *self._mechanism.secrets)
            reasons = dict.fromkeys(filter(None, (self._mechanism.refusal, broker_says)))
            raise self._failed(f"{self._mechanism.name}: {'; '.join(reasons)}", code=code)
        self.session_lifetime_ms = response.session_lifetime_ms
        return self.next_token(response.auth_bytes)

    def next_token(self, challenge: bytes) -> bytes | None:
        """The token after the broker's; None: the authentication is complete."""
        try:
            token = self._mechanism.reply(bytes(challenge))
        except SaslError as error:
            raise self._failed(str(error), error.option) from error
        if token is None and not self._mechanism.complete:
            raise self._failed(f"{self._mechanism.name}: the broker ended the exchange without authenticating itself")
        return token

    def cut_off(self) -> AuthenticationFailed:
        """The error for a broker that hangs up on a bare token, which is how brokers before 1.0 refuse."""
        return self._failed(f"{self._mechanism.name}: the broker closed the connection, as old ones do that refuse")

    def _failed(
        self, reason: str, option: str = "sasl.jaas.config", code: ErrorCode = ErrorCode.SASL_AUTHENTICATION_FAILED
    ) -> AuthenticationFailed:
        return AuthenticationFailed(self._address, option, reason, code)
