"""SaslHandshake (17) v0-v1: the client selects a SASL mechanism.

v1  the mechanism's messages follow in SaslAuthenticate requests (KIP-152); after v0 they follow as bare frames
"""

from broker_embedded._handlers.support.registry import RequestContext, handles
from spark_kafka_native._protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

_IN_REQUESTS_SINCE = 1


@handles(SaslHandshakeRequest, "0-1")
def sasl_handshake(request: SaslHandshakeRequest, context: RequestContext) -> SaslHandshakeResponse:
    """The enabled mechanisms, with an error if the client's is not enabled, or if no login is possible now."""
    return context.session.handshake(request.mechanism, bare_tokens=context.version < _IN_REQUESTS_SINCE)
