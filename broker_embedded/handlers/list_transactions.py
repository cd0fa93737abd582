"""ListTransactions (66) v0-v2: the transactional ids that this broker coordinates (KIP-664).

v1  a filter by how long transactions have gone on (KIP-994)
v2  a filter by an RE2 expression, which must match the whole id (KIP-1152)

States that nobody knows are named in the answer. An expression that is none is INVALID_REGULAR_EXPRESSION.
"""

from broker_embedded.groups.pattern import PatternError
from broker_embedded.handlers.support.registry import RequestContext, handles
from broker_embedded.transactions.views import list_matching
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError
from spark_kafka_native.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse


@handles(ListTransactionsRequest, "0-2")
async def list_transactions(request: ListTransactionsRequest, context: RequestContext) -> ListTransactionsResponse:
    """Id, producer and state of each transactional id that passes the filters."""
    broker = context.broker
    pattern = request.transactional_id_pattern
    try:
        matched = await broker.patterns.matching(pattern, broker.transactions.all) if pattern else None
        return list_matching(broker.transactions.all.values(), request, broker.timers.now_ms(), matched)
    except PatternError:
        return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    except KafkaError as error:
        return ListTransactionsResponse(error_code=error.code)
