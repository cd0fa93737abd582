"""AddOffsetsToTxn (25) v0-v4: make the offsets of a group part of a transaction (KIP-98).

v2  PRODUCER_FENCED; before it, INVALID_PRODUCER_EPOCH
v3  flexible
v4  TRANSACTION_ABORTABLE, which is not answered here

The partition of ``__consumer_offsets`` that stores the group is added to the transaction.
"""

from typing import Final

from broker_embedded._coordinator.groups import Groups
from broker_embedded._coordinator.transactions import Transactions
from broker_embedded._handlers.support.registry import RequestContext, handles
from broker_embedded._handlers.support.responses import producer_error_code
from broker_embedded._transactions.state import TransactionVersion
from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch

_FENCED_SINCE: Final = 2


@handles(AddOffsetsToTxnRequest, "0-4")
async def add_offsets_to_txn(
    request: AddOffsetsToTxnRequest, context: RequestContext, groups: Groups, transactions: Transactions
) -> AddOffsetsToTxnResponse:
    """Add the group's partition."""
    try:
        await groups.make_ready()
        await transactions.add_partitions(
            request.transactional_id,
            ProducerIdAndEpoch(producer_id=request.producer_id, epoch=request.producer_epoch),
            {groups.log.partition_of(request.group_id)},
            TransactionVersion.TV_0,
        )
    except KafkaError as error:
        return AddOffsetsToTxnResponse(
            error_code=producer_error_code(error, context.version, fenced_since=_FENCED_SINCE)
        )
    return AddOffsetsToTxnResponse()
