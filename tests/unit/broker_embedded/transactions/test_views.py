from typing import Any

import pytest

from broker_embedded._groups.pattern import Pattern
from broker_embedded._transactions.state import Transaction, TransactionState
from broker_embedded._transactions.views import describe, list_matching
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages import describe_transactions, list_transactions
from spark_kafka_native._protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from spark_kafka_native._protocol.topic import TopicPartition

NOW_MS = 10_000


def known(name: str, producer_id: int, state: TransactionState, started_ms: int = -1) -> Transaction:
    return Transaction(
        transactional_id=name,
        producer_id=producer_id,
        producer_epoch=3,
        timeout_ms=60_000,
        state=state,
        partitions=frozenset({TopicPartition("u", 1), TopicPartition("t", 11), TopicPartition("t", 2)}),
        started_ms=started_ms,
    )


ALL = [
    known("job-1", 1, TransactionState.EMPTY),
    known("job-2", 2, TransactionState.ONGOING, 9000),
    known("job-3", 3, TransactionState.ONGOING, 8000),
    known("other.4", 4, TransactionState.PREPARE_COMMIT, 7000),
    known("größe-5", 5, TransactionState.COMPLETE_ABORT, 1000),
]


def matching(**filters: Any) -> ListTransactionsResponse:
    request = ListTransactionsRequest(**filters)
    expression = request.transactional_id_pattern
    names = [each.transactional_id for each in ALL]
    matched = set(filter(Pattern(expression).fullmatch, names)) if expression else None
    return list_matching(ALL, request, NOW_MS, matched)


def ids(**filters: Any) -> list[int]:
    return [found.producer_id for found in matching(**filters).transaction_states]


def test_all_are_listed_with_producer_and_state() -> None:
    response = matching()
    assert (response.error_code, response.unknown_state_filters) == (ErrorCode.NONE, ())
    assert response.transaction_states[1] == list_transactions.TransactionState(
        transactional_id="job-2", producer_id=2, transaction_state="Ongoing"
    )
    assert ids() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"producer_id_filters": (2, 5, 77)}, [2, 5]),
        ({"producer_id_filters": (77,)}, []),
        ({"state_filters": ("Ongoing",)}, [2, 3]),
        ({"state_filters": ("Empty", "CompleteAbort")}, [1, 5]),
        ({"state_filters": ("Dead", "PrepareEpochFence")}, []),
        ({"duration_filter": 0}, [1, 2, 3, 4, 5]),
        ({"duration_filter": 999}, [1, 2, 3, 4, 5]),
        ({"duration_filter": 1000}, [1, 3, 4, 5]),
        ({"duration_filter": 2000}, [1, 4, 5]),
        ({"duration_filter": -5}, [1, 2, 3, 4, 5]),
        ({"transactional_id_pattern": "job-.*"}, [1, 2, 3]),
        ({"transactional_id_pattern": "job"}, []),
        ({"transactional_id_pattern": r"other\.\d"}, [4]),
        ({"transactional_id_pattern": "gr.*"}, [5]),
        ({"transactional_id_pattern": "größe-5|x"}, [5]),
        ({"transactional_id_pattern": ""}, [1, 2, 3, 4, 5]),
        ({"transactional_id_pattern": "job-.*", "state_filters": ("Ongoing",), "duration_filter": 1500}, [3]),
        ({"state_filters": ("Ongoing",), "producer_id_filters": (1, 3)}, [3]),
    ],
)
def test_list_transactions_filters(filters: dict[str, Any], expected: list[int]) -> None:
    assert ids(**filters) == expected
    assert matching(**filters).unknown_state_filters == ()


def test_unknown_states_are_listed_and_match_nothing() -> None:
    response = matching(state_filters=("ongoing", "Ongoing", "Nonsense", "ongoing"))
    assert response.unknown_state_filters == ("ongoing", "Nonsense")
    assert [found.producer_id for found in response.transaction_states] == [2, 3]
    assert matching(state_filters=("Nonsense",)).transaction_states == ()


def test_describe_transactions_has_every_field() -> None:
    assert describe(ALL[2], "job-3") == describe_transactions.TransactionState(
        error_code=ErrorCode.NONE,
        transactional_id="job-3",
        transaction_state="Ongoing",
        transaction_timeout_ms=60_000,
        transaction_start_time_ms=8000,
        producer_id=3,
        producer_epoch=3,
        topics=(
            describe_transactions.TopicData(topic="t", partitions=(2, 11)),
            describe_transactions.TopicData(topic="u", partitions=(1,)),
        ),
    )


@pytest.mark.parametrize(
    ("name", "code"), [("x", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND), ("", ErrorCode.INVALID_REQUEST)]
)
def test_unknown_ids_are_not_described(name: str, code: ErrorCode) -> None:
    assert describe(None, name) == describe_transactions.TransactionState(error_code=code, transactional_id=name)
