"""EndTxn (26) v0-v5: commit or abort a transaction (KIP-98).

v2  PRODUCER_FENCED; before it, INVALID_PRODUCER_EPOCH
v3  flexible
v4  TRANSACTION_ABORTABLE, which is not answered here
v5  every transaction bumps the epoch; the response has the new producer id and epoch (KIP-890)
"""

from typing import Final

from broker_embedded._coordinator.transactions import Transactions
from broker_embedded._handlers.support.registry import RequestContext, handles
from broker_embedded._handlers.support.responses import producer_error_code
from broker_embedded._transactions.state import TransactionVersion
from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch

_FENCED_SINCE: Final = 2
_EPOCHS_SINCE: Final = 5


@handles(EndTxnRequest, "0-5")
async def end_txn(request: EndTxnRequest, context: RequestContext, transactions: Transactions) -> EndTxnResponse:
    """Commit or abort the transaction, and write its markers."""
    raises_epoch = context.version >= _EPOCHS_SINCE
    try:
        producer = await transactions.end(
            request.transactional_id,
            ProducerIdAndEpoch(producer_id=request.producer_id, epoch=request.producer_epoch),
            commit=request.committed,
            version=TransactionVersion.TV_2 if raises_epoch else TransactionVersion.TV_0,
        )
    except KafkaError as error:
        return EndTxnResponse(error_code=producer_error_code(error, context.version, fenced_since=_FENCED_SINCE))
    return EndTxnResponse(producer_id=producer.producer_id, producer_epoch=producer.epoch)
