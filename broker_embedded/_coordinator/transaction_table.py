"""The transactions by transactional id, and their log. A change takes effect once its record is in the log."""

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from types import MappingProxyType

from broker_embedded._coordinator.key_locks import KeyLocks
from broker_embedded._coordinator.log import TRANSACTIONS_TOPIC, CoordinatorLog
from broker_embedded._records.coordinator_record import CoordinatorRecord
from broker_embedded._transactions.records import read_transaction_record, transaction_record, transaction_tombstone
from broker_embedded._transactions.state import Transaction, TransactionState, TransactionVersion
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._records.errors import CorruptBatch

logger = logging.getLogger(__name__)


class TransactionTable:
    """Transactions by id. A caller that changes one holds its lock, and passes the ``load_epoch`` of its decision.

    ``load_epoch`` increases when all transactions are unloaded, because the log was deleted or the broker is abandoned.
    Decisions of an older epoch are not written any more. Belongs to one event loop.
    """

    def __init__(self, log: CoordinatorLog, level: Callable[[], TransactionVersion]) -> None:
        """``level`` returns the present level of the feature transaction.version."""
        self.log = log
        self.load_epoch = 0
        self._level = level
        self._transactions: dict[str, Transaction] = {}
        self._ongoing: dict[str, int | None] = {}
        """When each open transaction began, by `Timers.elapsed_ms`; None until ``timed_out`` sees it first."""
        self._looked_ms: int | None = None
        self._locks = KeyLocks()

    def load(self) -> None:
        """Replay the log. Blocks."""
        for record in self.log.records():
            try:
                read = read_transaction_record(record)
            except CorruptBatch as error:
                logger.error("a record of %s cannot be decoded, ignored: %s", TRANSACTIONS_TOPIC, error)
                continue
            if read is not None and read[1] is not None:
                self._put(read[1])

    @property
    def all(self) -> Mapping[str, Transaction]:
        """All transactions, by transactional id."""
        return MappingProxyType(self._transactions)

    def timed_out(self, now_ms: int, elapsed_ms: int) -> list[str]:
        """The transactional ids whose transactions have timed out.

        Age is measured by the monotonic ``elapsed_ms``, so that a jump of the wall clock does not change it. The
        recorded start and the wall clock ``now_ms`` are used only for the time before the previous call, such as the
        time before the broker's start.
        """
        longest_ms = None if self._looked_ms is None else elapsed_ms - self._looked_ms
        self._looked_ms = elapsed_ms
        for name, began_ms in self._ongoing.items():
            if began_ms is None:
                age_ms = max(0, now_ms - self._transactions[name].started_ms)
                self._ongoing[name] = elapsed_ms - (age_ms if longest_ms is None else min(age_ms, longest_ms))
        return [name for name in self._ongoing if self.has_timed_out(name, elapsed_ms)]

    def has_timed_out(self, transactional_id: str, elapsed_ms: int) -> bool:
        """Whether a transaction that ``timed_out`` has seen is still open and past its timeout."""
        began_ms = self._ongoing.get(transactional_id)
        return began_ms is not None and self._transactions[transactional_id].times_out(elapsed_ms - began_ms)

    def get(self, transactional_id: str) -> Transaction | None:
        """The transaction of an id, or None."""
        return self._transactions.get(transactional_id)

    def lock(self, transactional_id: str) -> AbstractAsyncContextManager[None]:
        """Hold the id's lock within the block."""
        return self._locks.hold(transactional_id)

    async def write(self, transaction: Transaction, load_epoch: int) -> None:
        """Write a transaction. Raises KafkaError: nothing has changed."""
        name = transaction.transactional_id
        flexible = self._level() >= TransactionVersion.TV_1
        await self._append(name, transaction_record(transaction, flexible=flexible), load_epoch)
        self._put(transaction)
        logger.debug("%s is %s", name, transaction.state.label)

    async def forget(self, transactional_id: str, load_epoch: int) -> None:
        """Delete an id. Raises KafkaError: nothing has changed."""
        await self._append(transactional_id, transaction_tombstone(transactional_id), load_epoch)
        del self._transactions[transactional_id]
        self._ongoing.pop(transactional_id, None)

    def unload(self) -> Mapping[str, Transaction]:
        """Unload all transactions, and increase ``load_epoch``. Returns the transactions."""
        known, self._transactions = self._transactions, {}
        self._ongoing.clear()
        self.load_epoch += 1
        return known

    def _put(self, transaction: Transaction) -> None:
        name = transaction.transactional_id
        self._transactions[name] = transaction
        if transaction.state is TransactionState.ONGOING:
            self._ongoing.setdefault(name, None)
        else:
            self._ongoing.pop(name, None)

    async def _append(self, name: str, record: CoordinatorRecord, load_epoch: int) -> None:
        self._check(name, load_epoch)
        self.log.check_replicas(name)
        if self.log.waits_for_disk(name):
            await self.log.append_on_disk(name, (record,))
        else:
            self.log.append(name, (record,))
        self._check(name, load_epoch)

    def _check(self, name: str, load_epoch: int) -> None:
        if load_epoch != self.load_epoch:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"{name!r} was unloaded meanwhile")
