"""The consumer's part of transactions (KIP-98): which batches of a Fetch response belong to aborted ones.

A broker sends, with the batches, the aborted transactions that overlap them: a producer id and the offset of the
transaction's first record in the partition. From that offset to the producer's ABORT marker, its transactional batches
are dropped. Its batches after the marker belong to the next transaction.
"""

from collections import deque
from collections.abc import Iterable
from typing import Protocol

from spark_kafka_native._records.batch import BatchHeader
from spark_kafka_native._records.control import ControlType, decode_control

_NEVER = 2**63 - 1


class AbortedTransaction(Protocol):
    """An aborted transaction as a Fetch response names it; any object with these two will do."""

    @property
    def producer_id(self) -> int:
        """Whose transaction it is."""

    @property
    def first_offset(self) -> int:
        """Offset of its first record in the partition."""


class AbortedTransactions:
    """State of the walk over one Fetch response: which producers are within an aborted transaction just now."""

    def __init__(self, transactions: Iterable[AbortedTransaction]) -> None:
        self._ahead = deque(sorted(transactions, key=lambda transaction: transaction.first_offset))
        self._open: dict[int, AbortedTransaction] = {}

    @property
    def next_offset(self) -> int:
        """Up to this offset, not including it, no more transactions begin; 2**63 - 1 if none does at all."""
        return self._ahead[0].first_offset if self._ahead else _NEVER

    @property
    def is_one_open(self) -> bool:
        """Whether any producer is within an aborted transaction."""
        return bool(self._open)

    def drops(self, header: BatchHeader) -> bool:
        """Whether the batch is part of an aborted transaction. Ask for every batch, in order, markers included."""
        while self._ahead and self._ahead[0].first_offset <= header.last_offset:
            transaction = self._ahead.popleft()
            self._open[transaction.producer_id] = transaction
        return header.is_transactional and header.producer_id in self._open

    def end(self, producer_id: int) -> None:
        """The producer's ABORT marker was met."""
        self._open.pop(producer_id, None)

    def left(self) -> tuple[AbortedTransaction, ...]:
        """The transactions that are open or still to come, for the next call in the same buffer."""
        return (*self._open.values(), *self._ahead)


def is_visible(view: memoryview, position: int, header: BatchHeader, transactions: AbortedTransactions | None) -> bool:
    """Whether the batch has records for users. Call it for every batch, in order: markers end transactions."""
    aborted = transactions is not None and transactions.drops(header)
    if not header.is_control:
        return not aborted
    if transactions is not None and header.has_producer_id:
        record = decode_control(view, position, header)
        if record is not None and record.type is ControlType.ABORT:
            transactions.end(header.producer_id)
    return False
