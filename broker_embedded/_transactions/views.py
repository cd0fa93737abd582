"""Responses of ListTransactions and DescribeTransactions (KIP-664, KIP-994, KIP-1152)."""

from collections.abc import Container, Iterable, Iterator
from typing import Final

from broker_embedded._transactions.state import Transaction, TransactionState
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages import describe_transactions, list_transactions
from spark_kafka_native._protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

_LABELS: Final = {state.label for state in TransactionState} | {"Dead", "PrepareEpochFence"}
"""Kafka's names of states. The last two do not occur here."""


def list_matching(
    transactions: Iterable[Transaction],
    request: ListTransactionsRequest,
    now_ms: int,
    matched: Container[str] | None,
) -> ListTransactionsResponse:
    """The response to ListTransactions. A filter that is not set matches everything.

    ``matched`` are the transactional ids that the request's pattern matches, None if it has no pattern.
    """
    return ListTransactionsResponse(
        unknown_state_filters=tuple(dict.fromkeys(name for name in request.state_filters if name not in _LABELS)),
        transaction_states=tuple(
            list_transactions.TransactionState(
                transactional_id=found.transactional_id,
                producer_id=found.producer_id,
                transaction_state=found.state.label,
            )
            for found in _matching(transactions, request, now_ms)
            if matched is None or found.transactional_id in matched
        ),
    )


def _matching(
    transactions: Iterable[Transaction], request: ListTransactionsRequest, now_ms: int
) -> Iterator[Transaction]:
    states, producer_ids = frozenset(request.state_filters), frozenset(request.producer_id_filters)
    longer_than_ms = request.duration_filter
    for known in transactions:
        if (
            (not producer_ids or known.producer_id in producer_ids)
            and (not states or known.state.label in states)
            and (longer_than_ms < 0 or now_ms - known.started_ms > longer_than_ms)
        ):
            yield known


def describe(known: Transaction | None, transactional_id: str) -> describe_transactions.TransactionState:
    """An entry of the response to DescribeTransactions. ``known`` is None for an unknown id."""
    if known is None:
        code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND if transactional_id else ErrorCode.INVALID_REQUEST
        return describe_transactions.TransactionState(error_code=code, transactional_id=transactional_id)
    return describe_transactions.TransactionState(
        transactional_id=transactional_id,
        transaction_state=known.state.label,
        transaction_timeout_ms=known.timeout_ms,
        transaction_start_time_ms=known.started_ms,
        producer_id=known.producer_id,
        producer_epoch=known.producer_epoch,
        topics=tuple(
            describe_transactions.TopicData(topic=topic, partitions=tuple(numbers))
            for topic, numbers in known.by_topic().items()
        ),
    )
