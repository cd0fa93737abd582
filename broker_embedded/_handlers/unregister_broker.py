"""UnregisterBroker (64) v0: remove a broker from the cluster.

v0  flexible

The only registered broker is this one, which is not unregistered: INVALID_REQUEST. Kafka's controller would do it.
"""

from broker_embedded._handlers.support.registry import RequestContext, handles
from broker_embedded._metadata.topics import Topics
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


@handles(UnregisterBrokerRequest, "0")
def unregister_broker(
    request: UnregisterBrokerRequest, _context: RequestContext, topics: Topics
) -> UnregisterBrokerResponse:
    """Refuse: no other broker is registered."""
    if request.broker_id in topics.image.broker_ids:
        code, message = ErrorCode.INVALID_REQUEST, f"Broker {request.broker_id} is the one that answers"
    else:
        code = ErrorCode.BROKER_ID_NOT_REGISTERED
        message = f"Broker ID {request.broker_id} is not currently registered"
    return UnregisterBrokerResponse(error_code=code, error_message=message)
