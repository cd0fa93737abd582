"""ListTransactions (66): the transactional ids that a broker coordinates (KIP-664).

v0  flexible from the first
v1  only those that have been running for some time (KIP-994)
v2  only those whose id matches an RE2 expression (KIP-1152)
"""

from spark_kafka_native._protocol.schema import Request, Response, Struct, field, message, struct
from spark_kafka_native._protocol.wire import Int16, Int32, Int64, String


@struct
class TransactionState(Struct):
    transactional_id: String = ""
    producer_id: Int64 = 0
    transaction_state: String = ""


@message(api_key=66, versions="0-2", flexible="0+")
class ListTransactionsResponse(Response):
    """Transactional ids with producer and state."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: tuple[String, ...] = ()
    transaction_states: tuple[TransactionState, ...] = ()


@message(api_key=66, versions="0-2", flexible="0+")
class ListTransactionsRequest(Request[ListTransactionsResponse]):
    """Ask for transactional ids, all or those that fit."""

    state_filters: tuple[String, ...] = ()
    producer_id_filters: tuple[Int64, ...] = ()
    duration_filter: Int64 = field("1+", default=-1)
    transactional_id_pattern: String | None = field("2+", default=None)
