"""Errors of transactions. Their classes show whether the producer can continue."""

from typing import Final

from spark_kafka_native._client.transactions.handle import TransactionalIdentity
from spark_kafka_native._protocol.errors import ErrorCode, RestatedError

FENCED: Final = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
"""Responses to a producer whose epoch is an old one."""


class TransactionError(RestatedError):
    """A transaction, or its producer, failed, because of ``reason``."""

    _retriable = False
    """It was tried again for as long as allowed."""

    def __init__(self, transactional_id: str, code: ErrorCode, reason: str) -> None:
        self.transactional_id = transactional_id
        self.reason = reason
        super().__init__(code, f"transactional id {transactional_id}: {reason}")


class TransactionFailed(TransactionError):
    """The open transaction can only be aborted. The producer can begin another one then."""


class ProducerFailed(TransactionError):
    """The producer can only be closed. Its transaction is over, or will be when its time is up."""


class ProducerFenced(ProducerFailed):
    """The producer's epoch is an old one: another producer was initialised, or the broker ended its transaction."""


class TransactionInDoubt(TransactionError):
    """No response shows how a transaction ended. ``end_transaction`` may be called again, from any process."""

    def __init__(self, handle: TransactionalIdentity, *, commit: bool, code: ErrorCode, reason: str) -> None:
        self.handle = handle
        self.commit = commit
        super().__init__(handle.transactional_id, code, reason)
