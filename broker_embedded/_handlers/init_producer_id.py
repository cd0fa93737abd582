"""InitProducerId (22) v0-v5: a producer id for an idempotent producer, or the epoch of a transactional one (KIP-98).

v2  flexible
v3  a transactional producer sends its id and epoch, to continue with a new epoch (KIP-360)
v4  PRODUCER_FENCED; before it, INVALID_PRODUCER_EPOCH
v5  TRANSACTION_ABORTABLE, which is not answered here

An ongoing transaction of the transactional id is aborted before the response. Kafka responds CONCURRENT_TRANSACTIONS
instead, and the client retries.
"""

from typing import Final

from broker_embedded._coordinator.transactions import Transactions
from broker_embedded._handlers.support.registry import RequestContext, handles
from broker_embedded._handlers.support.responses import producer_error_code
from broker_embedded._metadata.producer_ids import ProducerIdManager
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch

_NONE: Final = -1
_FENCED_SINCE: Final = 4


@handles(InitProducerIdRequest, "0-5")
async def init_producer_id(
    request: InitProducerIdRequest, context: RequestContext, producer_ids: ProducerIdManager, transactions: Transactions
) -> InitProducerIdResponse:
    """A new producer id, or a new epoch of a transactional id."""
    name = request.transactional_id
    try:
        claimed = _claimed(request)
        if name is None:
            return InitProducerIdResponse(producer_id=await producer_ids.next(), producer_epoch=0)
        producer = await transactions.begin_producer(name, request.transaction_timeout_ms, claimed)
    except KafkaError as error:
        code = producer_error_code(error, context.version, fenced_since=_FENCED_SINCE)
        return InitProducerIdResponse(error_code=code, producer_id=_NONE, producer_epoch=_NONE)
    return InitProducerIdResponse(producer_id=producer.producer_id, producer_epoch=producer.epoch)


def _claimed(request: InitProducerIdRequest) -> ProducerIdAndEpoch | None:
    """The producer id and epoch of the request. Raises KafkaError INVALID_REQUEST: only one of them is set."""
    if (request.producer_id == _NONE) != (request.producer_epoch == _NONE):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "producer id and epoch must be set together")
    if request.producer_id == _NONE:
        return None
    return ProducerIdAndEpoch(producer_id=request.producer_id, epoch=request.producer_epoch)
