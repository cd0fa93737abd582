"""The transactions of a log during one compaction, which reads the log from its start.

They decide which batches were aborted, so that all their records are dropped; which markers are dropped, because no
record of their transactions is left; and the entries of the compacted segment's transaction index. Only batches before
the last stable offset are compacted, so that every transaction has ended.

Pure: headers and index entries in, decisions out.
"""

import heapq
from collections.abc import Iterable

from broker_embedded._log.transaction_index import AbortedTransaction
from spark_kafka_native._records.batch import BatchHeader
from spark_kafka_native._records.control import ControlType


class CleanedTransactions:
    """The open and aborted transactions at the present offset of one compaction."""

    def __init__(self) -> None:
        self._ahead: list[tuple[int, AbortedTransaction]] = []  # a heap, by first offset
        self._aborted: dict[int, AbortedTransaction] = {}  # by producer id: those that include the present offset
        self._with_records: set[int] = set()  # producers of those, once a batch of them was read
        self._committed: set[int] = set()  # producers in a transaction that is committed later
        self._to_index: list[AbortedTransaction] = []

    def expect(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Add the aborted transactions of the next segment. Known ones are ignored."""
        for transaction in aborted:
            heapq.heappush(self._ahead, (transaction.first_offset, transaction))

    def is_aborted(self, header: BatchHeader) -> bool:
        """Move to a batch of records; whether it belongs to an aborted transaction."""
        self._advance_to(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborted:
            self._with_records.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def may_drop(self, header: BatchHeader, control_type: ControlType | None) -> bool:
        """Move to a control batch; whether no record of its transaction is left.

        ``control_type`` is None for a batch that was emptied before.
        """
        self._advance_to(header.last_offset)
        producer_id = header.producer_id
        match control_type:
            case None:
                return True
            case ControlType.ABORT:
                transaction = self._aborted.pop(producer_id, None)
                if transaction is None or producer_id not in self._with_records:
                    return True
                self._with_records.discard(producer_id)
                self._to_index.append(transaction)
                return False
            case ControlType.COMMIT:
                had_records = producer_id in self._committed
                self._committed.discard(producer_id)
                return not had_records
            case _:
                return False

    def take_index_entries(self) -> list[AbortedTransaction]:
        """The aborted transactions whose markers were read since the last call and are kept."""
        entries, self._to_index = self._to_index, []
        return entries

    def _advance_to(self, offset: int) -> None:
        while self._ahead and self._ahead[0][0] <= offset:
            _, transaction = heapq.heappop(self._ahead)
            self._aborted.setdefault(transaction.producer_id, transaction)
