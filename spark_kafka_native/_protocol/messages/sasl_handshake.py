"""SaslHandshake (17): name the SASL mechanism that authenticates a connection.

v0  what follows are the mechanism's messages, each with its size in front and no header (brokers from 0.10)
v1  what follows are SaslAuthenticate requests (KIP-152)
"""

from spark_kafka_native._protocol.schema import Request, Response, message
from spark_kafka_native._protocol.wire import Int16, String


@message(api_key=17, versions="0-1", flexible="none")
class SaslHandshakeResponse(Response):
    """Whether the listener has the mechanism, and those that it has."""

    error_code: Int16 = 0
    mechanisms: tuple[String, ...] = ()


@message(api_key=17, versions="0-1", flexible="none")
class SaslHandshakeRequest(Request[SaslHandshakeResponse]):
    """The client's mechanism."""

    mechanism: String = ""
