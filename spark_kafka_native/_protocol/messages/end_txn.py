"""EndTxn (26): commit or abort a transaction (KIP-98).

v1  brokers answer before they throttle
v2  PRODUCER_FENCED
v3  flexible
v4  TRANSACTION_ABORTABLE (KIP-890)
v5  the epoch rises with every transaction; the response has the new one (KIP-890)
"""

from spark_kafka_native._protocol.schema import Request, Response, field, message
from spark_kafka_native._protocol.wire import Bool, Int16, Int32, Int64, String


@message(api_key=26, versions="0-5", flexible="3+")
class EndTxnResponse(Response):
    """The error code, and from v5 on the producer id and epoch of the next transaction."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = field("5+", default=-1, ignorable=True)
    producer_epoch: Int16 = field("5+", default=-1, ignorable=True)


@message(api_key=26, versions="0-5", flexible="3+")
class EndTxnRequest(Request[EndTxnResponse]):
    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    committed: Bool = False
