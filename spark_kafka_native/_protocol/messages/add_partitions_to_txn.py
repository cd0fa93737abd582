"""AddPartitionsToTxn (24): make partitions part of a transaction (KIP-98).

v1  brokers answer before they throttle
v2  PRODUCER_FENCED
v3  flexible; the last version that clients send
v4  several transactions, and asking without adding: between brokers (KIP-890)
v5  TRANSACTION_ABORTABLE
"""

from spark_kafka_native._protocol.schema import Request, Response, Struct, field, message, struct
from spark_kafka_native._protocol.wire import Bool, Int16, Int32, Int64, String


@struct
class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: Int32 = 0
    partition_error_code: Int16 = 0


@struct
class AddPartitionsToTxnTopicResult(Struct):
    name: String = ""
    results_by_partition: tuple[AddPartitionsToTxnPartitionResult, ...] = ()


@struct
class AddPartitionsToTxnResult(Struct):
    transactional_id: String = field("4+", default="")
    topic_results: tuple[AddPartitionsToTxnTopicResult, ...] = field("4+", default=())


@message(api_key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnResponse(Response):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = field("4+", default=0, ignorable=True)
    results_by_transaction: tuple[AddPartitionsToTxnResult, ...] = field("4+", default=())
    results_by_topic_v3_and_below: tuple[AddPartitionsToTxnTopicResult, ...] = field("0-3", default=())


@struct
class AddPartitionsToTxnTopic(Struct):
    name: String = ""
    partitions: tuple[Int32, ...] = ()


@struct
class AddPartitionsToTxnTransaction(Struct):
    transactional_id: String = field("4+", default="")
    producer_id: Int64 = field("4+", default=0)
    producer_epoch: Int16 = field("4+", default=0)
    verify_only: Bool = field("4+", default=False)
    topics: tuple[AddPartitionsToTxnTopic, ...] = field("4+", default=())


@message(api_key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnRequest(Request[AddPartitionsToTxnResponse]):
    """Add partitions to a transaction before anything is written to them."""

    transactions: tuple[AddPartitionsToTxnTransaction, ...] = field("4+", default=())
    v3_and_below_transactional_id: String = field("0-3", default="")
    v3_and_below_producer_id: Int64 = field("0-3", default=0)
    v3_and_below_producer_epoch: Int16 = field("0-3", default=0)
    v3_and_below_topics: tuple[AddPartitionsToTxnTopic, ...] = field("0-3", default=())
