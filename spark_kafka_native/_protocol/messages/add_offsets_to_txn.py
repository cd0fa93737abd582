"""AddOffsetsToTxn (25): make the offsets of a group part of a transaction (KIP-98).

v1  brokers answer before they throttle
v2  PRODUCER_FENCED
v3  flexible
v4  TRANSACTION_ABORTABLE (KIP-890)
"""

from spark_kafka_native._protocol.schema import Request, Response, message
from spark_kafka_native._protocol.wire import Int16, Int32, Int64, String


@message(api_key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnResponse(Response):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0


@message(api_key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnRequest(Request[AddOffsetsToTxnResponse]):
    """Add the partition of ``__consumer_offsets`` that keeps a group."""

    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    group_id: String = ""
