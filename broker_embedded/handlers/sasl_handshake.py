"""SaslHandshake (17) v0-v1: the client names the mechanism by which it logs in.

v1  the mechanism's messages come in SaslAuthenticate requests (KIP-152); after v0 they come without requests
"""

from broker_embedded.handlers.support.registry import RequestContext, handles
from spark_kafka_native.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

_IN_REQUESTS_SINCE = 1


@handles(SaslHandshakeRequest, "0-1")
def sasl_handshake(request: SaslHandshakeRequest, context: RequestContext) -> SaslHandshakeResponse:
    """The mechanisms that there are, with an error if it is none of them, or if the client need not log in."""
    return context.session.handshake(request.mechanism, bare_tokens=context.version < _IN_REQUESTS_SINCE)
