"""InitProducerId (22): a producer id and epoch for idempotent or transactional producing (KIP-98).

v1  brokers answer before they throttle
v2  flexible
v3  a producer names its id and epoch to have the epoch raised (KIP-360)
v4  PRODUCER_FENCED
v5  TRANSACTION_ABORTABLE (KIP-890)
v6  two-phase commit (KIP-939); not stable in any release yet, brokers advertise up to v5
"""

from spark_kafka_native._protocol.schema import Request, Response, field, message
from spark_kafka_native._protocol.wire import Bool, Int16, Int32, Int64, String


@message(api_key=22, versions="0-6", flexible="2+")
class InitProducerIdResponse(Response):
    """The producer id and epoch to put into record batches."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
    ongoing_txn_producer_id: Int64 = field("6+", default=-1)
    ongoing_txn_producer_epoch: Int16 = field("6+", default=-1)


@message(api_key=22, versions="0-6", flexible="2+")
class InitProducerIdRequest(Request[InitProducerIdResponse]):
    """Ask for a producer id; without ``transactional_id`` any broker gives one."""

    transactional_id: String | None = ""
    transaction_timeout_ms: Int32 = 0
    producer_id: Int64 = field("3+", default=-1)
    producer_epoch: Int16 = field("3+", default=-1)
    enable2pc: Bool = field("6+", default=False)
    keep_prepared_txn: Bool = field("6+", default=False)
