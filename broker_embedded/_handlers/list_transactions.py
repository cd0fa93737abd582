"""ListTransactions (66) v0-v2: the transactional ids that this broker coordinates (KIP-664).

v1  a filter by the duration of transactions (KIP-994)
v2  a filter by an RE2 expression, which must match the whole id (KIP-1152)

Unknown states are listed in the response. An invalid expression is INVALID_REGULAR_EXPRESSION.
"""

from broker_embedded._coordinator.pattern_matcher import PatternMatcher
from broker_embedded._coordinator.transactions import Transactions
from broker_embedded._groups.pattern import PatternError
from broker_embedded._handlers.support.registry import RequestContext, handles
from broker_embedded._platform.timers import Timers
from broker_embedded._transactions.views import list_matching
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse


@handles(ListTransactionsRequest, "0-2")
async def list_transactions(
    request: ListTransactionsRequest,
    _context: RequestContext,
    patterns: PatternMatcher,
    timers: Timers,
    transactions: Transactions,
) -> ListTransactionsResponse:
    """Id, producer and state of each transactional id that matches the filters."""
    pattern = request.transactional_id_pattern
    try:
        matched = await patterns.matching(pattern, transactions.all) if pattern else None
        return list_matching(transactions.all.values(), request, timers.now_ms(), matched)
    except PatternError:
        return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    except KafkaError as error:
        return ListTransactionsResponse(error_code=error.code)
