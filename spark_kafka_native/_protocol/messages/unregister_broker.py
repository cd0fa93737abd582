"""UnregisterBroker (64): take a broker that is gone off the list.

v0  flexible from the first
"""

from spark_kafka_native._protocol.schema import Request, Response, message
from spark_kafka_native._protocol.wire import Int16, Int32, String


@message(api_key=64, versions="0", flexible="0+")
class UnregisterBrokerResponse(Response):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


@message(api_key=64, versions="0", flexible="0+")
class UnregisterBrokerRequest(Request[UnregisterBrokerResponse]):
    broker_id: Int32 = 0
