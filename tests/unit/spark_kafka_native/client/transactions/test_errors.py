import pickle

import pytest

from spark_kafka_native.client.transactions.errors import (
    ProducerFailed,
    ProducerFenced,
    TransactionError,
    TransactionFailed,
    TransactionInDoubt,
)
from spark_kafka_native.client.transactions.handle import TransactionalIdentity
from spark_kafka_native.protocol.errors import ErrorCode

IDENTITY = TransactionalIdentity(
    transactional_id="sink", producer_id=1, producer_epoch=0, timeout_ms=1000, transaction_version=1
)


@pytest.mark.parametrize(
    "error",
    [
        TransactionFailed("sink", ErrorCode.MESSAGE_TOO_LARGE, "t-0: too large"),
        ProducerFailed("sink", ErrorCode.INVALID_PRODUCER_ID_MAPPING, "forgotten"),
        ProducerFenced("sink", ErrorCode.PRODUCER_FENCED, "commit"),
        TransactionInDoubt(IDENTITY, commit=True, code=ErrorCode.CONCURRENT_TRANSACTIONS, reason="commit"),
    ],
)
def test_errors_travel_and_are_final(error: TransactionError) -> None:
    found = pickle.loads(pickle.dumps(error))
    assert (type(found), str(found), found.code, found.reason) == (type(error), str(error), error.code, error.reason)
    assert not found.retriable
    assert str(error).startswith(f"transactional id sink: {error.reason}: ")
    assert error.code.name in str(error)


def test_doubt_keeps_what_is_needed_to_ask_again() -> None:
    found = pickle.loads(
        pickle.dumps(TransactionInDoubt(IDENTITY, commit=False, code=ErrorCode.NETWORK_EXCEPTION, reason="abort"))
    )
    assert (found.handle, found.commit) == (IDENTITY, False)
