"""DescribeTransactions (65) v0: the state of transactional ids and the partitions of their transactions (KIP-664).

v0  flexible

An unknown id is TRANSACTIONAL_ID_NOT_FOUND, an empty one INVALID_REQUEST.
"""

from broker_embedded._coordinator.transactions import Transactions
from broker_embedded._handlers.support.registry import RequestContext, handles
from broker_embedded._transactions.views import describe
from spark_kafka_native._protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)


@handles(DescribeTransactionsRequest, "0")
def describe_transactions(
    request: DescribeTransactionsRequest, _context: RequestContext, transactions: Transactions
) -> DescribeTransactionsResponse:
    """One description per id, in the order of the request. A repeated id is answered once."""
    known = transactions.all
    return DescribeTransactionsResponse(
        transaction_states=tuple(describe(known.get(name), name) for name in dict.fromkeys(request.transactional_ids))
    )
