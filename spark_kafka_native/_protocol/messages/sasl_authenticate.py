"""SaslAuthenticate (36): one message of a SASL mechanism, and the broker's reply (KIP-152).

v1  the broker says how long the session lasts (KIP-368)
v2  flexible
"""

from spark_kafka_native._protocol.schema import Request, Response, field, message
from spark_kafka_native._protocol.wire import Bytes, Int16, Int64, String


@message(api_key=36, versions="0-2", flexible="2+")
class SaslAuthenticateResponse(Response):
    """The broker's part; ``session_lifetime_ms`` of 0 means that the session does not end."""

    error_code: Int16 = 0
    error_message: String | None = ""
    auth_bytes: Bytes = b""
    session_lifetime_ms: Int64 = field("1+", default=0, ignorable=True)


@message(api_key=36, versions="0-2", flexible="2+")
class SaslAuthenticateRequest(Request[SaslAuthenticateResponse]):
    auth_bytes: Bytes = b""
