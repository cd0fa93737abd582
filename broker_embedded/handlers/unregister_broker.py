"""UnregisterBroker (64) v0: take a broker that is gone off the cluster's list.

v0  flexible

The one broker on the list is this one, which is not gone: INVALID_REQUEST, where Kafka's controller would let it go.
"""

from broker_embedded.handlers.support.registry import RequestContext, handles
from broker_embedded.metadata.topics import Topics
from spark_kafka_native.protocol.errors import ErrorCode
from spark_kafka_native.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


@handles(UnregisterBrokerRequest, "0")
def unregister_broker(
    request: UnregisterBrokerRequest, _context: RequestContext, topics: Topics
) -> UnregisterBrokerResponse:
    """Refuse: no other broker was ever on the list."""
    if request.broker_id in topics.image.broker_ids:
        code, message = ErrorCode.INVALID_REQUEST, f"Broker {request.broker_id} is the one that answers"
    else:
        code = ErrorCode.BROKER_ID_NOT_REGISTERED
        message = f"Broker ID {request.broker_id} is not currently registered"
    return UnregisterBrokerResponse(error_code=code, error_message=message)
