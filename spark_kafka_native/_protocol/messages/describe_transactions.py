"""DescribeTransactions (65): state and partitions of transactions (KIP-664).

v0  flexible from the first
"""

from spark_kafka_native._protocol.schema import Request, Response, Struct, message, struct
from spark_kafka_native._protocol.wire import Int16, Int32, Int64, String


@struct
class TopicData(Struct):
    topic: String = ""
    partitions: tuple[Int32, ...] = ()


@struct
class TransactionState(Struct):
    error_code: Int16 = 0
    transactional_id: String = ""
    transaction_state: String = ""
    transaction_timeout_ms: Int32 = 0
    transaction_start_time_ms: Int64 = 0
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    topics: tuple[TopicData, ...] = ()


@message(api_key=65, versions="0", flexible="0+")
class DescribeTransactionsResponse(Response):
    throttle_time_ms: Int32 = 0
    transaction_states: tuple[TransactionState, ...] = ()


@message(api_key=65, versions="0", flexible="0+")
class DescribeTransactionsRequest(Request[DescribeTransactionsResponse]):
    transactional_ids: tuple[String, ...] = ()
