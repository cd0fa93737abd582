"""Errors of client properties, and errors between a client and one broker, which name the broker's address."""

from collections.abc import Mapping

from spark_kafka_native._net.address import HostPort
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError, PicklableError


class ConfigError(PicklableError, ValueError):
    """An invalid client property; ``option`` is its Kafka name, ``message`` what is wrong with it, without a secret."""

    def __init__(self, option: str, message: str) -> None:
        self.option = option
        self.message = message
        super().__init__(f"{option}: {message}")


class PropertyReason(str):
    """A reason that names a client property as its possible cause."""

    __slots__ = ()


class UnknownHost(str):
    """A reason: the host name of the address cannot be resolved."""

    __slots__ = ()


class BrokerUnreachable(KafkaError):
    """No connection could be made. ``tried`` has the reason for every address, ``after`` the error before, if any.

    ``bootstrap`` is the option with the bootstrap servers, if no broker of a cluster could be reached. The text advises
    to check it, unless a reason is a PropertyReason.
    """

    _shows_code = False

    def __init__(self, tried: Mapping[HostPort, str], purpose: str = "", after: str = "", bootstrap: str = "") -> None:
        self.tried = dict(tried)
        self.purpose = purpose
        self.after = after
        self.bootstrap = bootstrap
        reasons = "; ".join(f"{address}: {reason}" for address, reason in self.tried.items())
        names_property = any(isinstance(reason, PropertyReason) for reason in self.tried.values())
        super().__init__(
            ErrorCode.NETWORK_EXCEPTION,
            f"no broker could be reached{purpose and f' {purpose}'} ({reasons}){after and f', after {after}'}"
            f"{f'; check {bootstrap}' if bootstrap and not names_property else ''}",
        )


class ConnectionLost(KafkaError):
    """A connection ended, or broke the protocol, while requests were without a response.

    Whether the broker carried them out is unknown.
    """

    _shows_code = False

    def __init__(self, address: HostPort, reason: str) -> None:
        self.address = address
        self.reason = reason
        super().__init__(ErrorCode.NETWORK_EXCEPTION, f"{address}: {reason}")


class RequestTimeout(KafkaError):
    """A broker gave no response in time. Its connection is closed: the response may still be on its way."""

    _shows_code = False

    def __init__(self, address: HostPort, api_name: str, waited_ms: int) -> None:
        self.address = address
        self.api_name = api_name
        super().__init__(ErrorCode.REQUEST_TIMED_OUT, f"{address}: no response to {api_name} within {waited_ms} ms")


class Throttled(KafkaError):
    """A broker throttles the client for longer than the request may wait (KIP-219)."""

    _shows_code = False

    def __init__(self, address: HostPort, api_name: str, throttle_ms: int) -> None:
        self.address = address
        self.api_name = api_name
        self.throttle_ms = throttle_ms
        super().__init__(
            ErrorCode.THROTTLING_QUOTA_EXCEEDED,
            f"{address}: the broker throttles this client for {throttle_ms} ms more, because of a client quota "
            f"(consumer_byte_rate, producer_byte_rate or request_percentage); {api_name} has to wait",
        )


class UnsupportedApiVersion(KafkaError):
    """A broker and this client have no version of an API in common. Nothing was sent."""

    _shows_code = False

    def __init__(self, address: HostPort, api_name: str, client_has: str, broker_has: str) -> None:
        self.address = address
        self.api_name = api_name
        super().__init__(
            ErrorCode.UNSUPPORTED_VERSION,
            f"{address}: {api_name}: this client has {client_has}, the broker has {broker_has}",
        )


class AuthenticationFailed(KafkaError):
    """The TLS handshake or the authentication with a broker failed; a retry fails, too.

    ``option`` is the Kafka property to look at. The text holds no secret, and no address if the cause is ``local``.
    """

    _retriable = False
    """Certificates and passwords do not change by waiting."""
    _shows_code = False

    def __init__(
        self,
        address: HostPort,
        option: str,
        reason: str,
        code: ErrorCode = ErrorCode.SASL_AUTHENTICATION_FAILED,
        *,
        local: bool = False,
    ) -> None:
        self.address = address
        self.option = option
        self.reason = reason
        self.local = local
        super().__init__(code, f"{option}: {reason}" if local else f"{address}: {option}: {reason}")
