"""Which transactions a compaction is amid, while it goes through a log from its start.

From it follow which batches were aborted, so that their records go whatever their keys; which markers may go, because
no record of their transactions is left; and which entries the transaction index of a compacted segment gets. Only what
lies before the last stable offset is compacted, so that every transaction met here has ended.

Pure: headers and index entries in, decisions out.
"""

import heapq
from collections.abc import Iterable

from broker_embedded.log.transaction_index import AbortedTransaction
from spark_kafka_native.records.batch import BatchHeader
from spark_kafka_native.records.control import ControlType


class CleanedTransactions:
    """The transactions of a log, as far as one pass over it has come. One for each pass."""

    def __init__(self) -> None:
        self._ahead: list[tuple[int, AbortedTransaction]] = []  # a heap, by first offset
        self._aborted: dict[int, AbortedTransaction] = {}  # by producer id: those that the pass is amid
        self._with_records: set[int] = set()  # producers of those, once a batch of theirs was met
        self._committed: set[int] = set()  # producers amid a transaction that is none of those
        self._to_index: list[AbortedTransaction] = []

    def expect(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Hear of aborted transactions with records in the segment that comes next; again, too."""
        for transaction in aborted:
            heapq.heappush(self._ahead, (transaction.first_offset, transaction))

    def is_aborted(self, header: BatchHeader) -> bool:
        """Go on past a batch of records; whether it belongs to an aborted transaction."""
        self._go_on_to(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborted:
            self._with_records.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def may_go(self, header: BatchHeader, control_type: ControlType | None) -> bool:
        """Go on past a control batch; whether no record is left of what its marker ends.

        ``control_type`` is None for a batch that was emptied before.
        """
        self._go_on_to(header.last_offset)
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
        """The aborted transactions whose markers were met since the last call and stay."""
        entries, self._to_index = self._to_index, []
        return entries

    def _go_on_to(self, offset: int) -> None:
        while self._ahead and self._ahead[0][0] <= offset:
            _, transaction = heapq.heappop(self._ahead)
            self._aborted.setdefault(transaction.producer_id, transaction)
