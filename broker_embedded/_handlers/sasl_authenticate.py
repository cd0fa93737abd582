"""SaslAuthenticate (36) v0-v2: a message of the client's SASL mechanism (KIP-152).

v1  session lifetime in the response (KIP-368)
v2  flexible
"""

from broker_embedded._handlers.support.registry import RequestContext, handles
from spark_kafka_native._protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


@handles(SaslAuthenticateRequest, "0-2")
def sasl_authenticate(request: SaslAuthenticateRequest, context: RequestContext) -> SaslAuthenticateResponse:
    """The mechanism's response, or SASL_AUTHENTICATION_FAILED, which closes the connection."""
    return context.session.authenticate(bytes(request.auth_bytes))
