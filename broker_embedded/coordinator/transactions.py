"""The transactions that this broker coordinates: who has which id, what is decided, and who still has to hear of it.

Every request about a transactional id is decided under its lock, by a pure function of what is known of the id
(`broker_embedded.transactions`). A transaction ends in these steps:

1. EndTxn, a timeout, or another producer that takes the id over decides it: a Prepare record is appended to the id's
   partition of ``__transaction_state``. Crash before: it goes on, and times out. Crash here: it is decided, unless the
   append was cut short; nobody has been told.
2. A marker is written into each of its partitions. Crash here: some have it; the start writes all of them again.
3. A Complete record is appended. Crash before: as in 2. Crash here: it is over.

A partition whose log cannot be written is tried again until it can; meanwhile the id is busy, which its producer hears
as CONCURRENT_TRANSACTIONS. Whoever appends in the name of a transaction checks it and appends without giving way in
between, or holds the id's lock meanwhile: so no marker comes between.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from broker_embedded.config.config import BrokerConfig
from broker_embedded.coordinator.log import TRANSACTIONS_TOPIC, CoordinatorLog
from broker_embedded.coordinator.markers import TransactionMarkers
from broker_embedded.coordinator.transaction_table import TransactionTable
from broker_embedded.platform.finishing import Finishing
from broker_embedded.platform.periodic import PeriodicTask
from broker_embedded.platform.timers import Timer, Timers
from broker_embedded.transactions import decisions
from broker_embedded.transactions.state import Producer, Transaction, TransactionState, TransactionVersion
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError
from spark_kafka_native.protocol.topic import TopicPartition

logger = logging.getLogger(__name__)

_AGAIN_MS: Final = 1000
"""When to come back to markers or a Complete record that could not be written."""
_AT_ONCE: Final = 50
"""Ids looked after by the clock after which requests get a chance."""
_OVERTAKEN: Final = {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED}
"""A later epoch of the producer, or another coordinator, has ended what was; an administrator may do so."""
_NOTHING_TO_DO: Final = {
    ErrorCode.NONE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
} | _OVERTAKEN
"""After these a partition needs no marker any more: it has it, or is deleted, or was overtaken, or its old message
format has no transactions.
"""


class Transactions:
    """All transactional ids, and ``__transaction_state`` behind them. Belongs to one event loop."""

    def __init__(
        self,
        *,
        log: CoordinatorLog,
        markers: TransactionMarkers,
        timers: Timers,
        finishing: Finishing,
        new_producer_id: Callable[[], Awaitable[int]],
        config: Callable[[], BrokerConfig],
        level: Callable[[], TransactionVersion],
    ) -> None:
        """``level`` is that of the feature transaction.version, at present."""
        self._table = TransactionTable(log, level)
        self._markers = markers
        self._clock = timers
        self._finishing = finishing
        self._new_producer_id = new_producer_id
        self._config = config
        self._level = level
        self._untold: dict[str, frozenset[TopicPartition]] = {}
        """Partitions that still want the marker of a decided transaction, where the first attempt failed."""
        self._again: dict[str, Timer] = {}
        self._resumed = False
        self._released = False

    # --- from start to stop ------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Replay what is in the log. Blocks; called before the broker serves anybody."""
        self._table.load()

    def resume(self) -> None:
        """Complete what was decided before a crash. Called on the event loop; more than once does no harm."""
        if self._resumed:
            return
        self._resumed = True
        for name, known in self._table.all.items():
            if known.state.is_prepared:
                self._finishing.begin(self._complete_later(name))

    def release(self) -> None:
        """Take no more requests: the broker stops. What has begun is brought to its end, or to the next start's."""
        self._released = True
        self._stop_timers()

    def abandon(self) -> None:
        """Do nothing any more, as after a crash of the process: nobody is answered."""
        self._released = True
        self._table.term += 1
        self._stop_timers()

    async def make_ready(self) -> None:
        """See to it that transactions can be kept. Raises KafkaError: their log cannot be made now."""
        await self._table.log.make_ready()
        self.resume()

    # --- what there is -----------------------------------------------------------------------------------------------

    @property
    def all(self) -> Mapping[str, Transaction]:
        """What is known of every id."""
        return self._table.all

    @contextlib.asynccontextmanager
    async def lock(self, transactional_id: str) -> AsyncIterator[None]:
        """Let nothing be decided about an id within the block. Raises KafkaError NOT_COORDINATOR: the broker stops.

        For those who append in its name and wait between the check and the append, for the disk or for others. Within
        the block `check_partitions` and `add_partitions_locked` may be called, and nothing else that takes a lock.
        """
        async with self._table.lock(transactional_id):
            self._check_released()
            yield

    # --- InitProducerId ----------------------------------------------------------------------------------------------

    async def begin_producer(self, transactional_id: str, timeout_ms: int, claimed: Producer | None) -> Producer:
        """Give an id to a producer, with an epoch that nobody else has. ``claimed`` is what it says to be (KIP-360).

        A transaction that goes on is aborted first. Raises KafkaError, also INVALID_REQUEST,
        INVALID_TRANSACTION_TIMEOUT; CONCURRENT_TRANSACTIONS: the last transaction is decided, and not over yet.
        """
        _check_id(transactional_id)
        longest_ms = self._config().transaction_max_timeout_ms
        if not 0 < timeout_ms <= longest_ms:
            detail = f"a timeout of {timeout_ms} ms; it may be 1 to {longest_ms} (transaction.max.timeout.ms)"
            raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT, f"{transactional_id}: {detail}")
        await self.make_ready()
        return await self._finishing.finish(self._begin_producer(transactional_id, timeout_ms, claimed))

    async def _begin_producer(self, name: str, timeout_ms: int, claimed: Producer | None) -> Producer:
        async with self.lock(name):
            term = self._table.term
            known = self._table.get(name)
            if known is None:
                producer_id = await self._new_producer_id()
                known = decisions.new_transaction(name, producer_id, timeout_ms, self._clock.now_ms())
            decisions.check_claim(known, claimed)
            if known.state is TransactionState.ONGOING:
                logger.info("%s is taken over amid a transaction, which is aborted", name)
                known = await self._fence(known, term, claimed)
            elif known.state.is_prepared:
                known = await self._complete(known)
            fresh = None
            if decisions.needs_producer_id_to_begin(known, claimed):
                fresh = await self._new_producer_id()
            begun = decisions.begin_producer(known, claimed, timeout_ms, self._clock.now_ms(), fresh_producer_id=fresh)
            await self._table.write(begun, term)
            return Producer(producer_id=begun.producer_id, epoch=begun.producer_epoch)

    # --- partitions --------------------------------------------------------------------------------------------------

    async def add_partitions(
        self,
        transactional_id: str,
        claimed: Producer,
        partitions: AbstractSet[TopicPartition],
        version: TransactionVersion,
    ) -> None:
        """Make partitions part of a producer's transaction, which begins if none goes on. Raises KafkaError.

        Not to be called by a holder of the lock.
        """
        _check_id(transactional_id)
        await self.make_ready()

        async def add() -> None:
            async with self.lock(transactional_id):
                await self.add_partitions_locked(transactional_id, claimed, partitions, version)

        await self._finishing.finish(add())

    async def add_partitions_locked(
        self,
        transactional_id: str,
        claimed: Producer,
        partitions: AbstractSet[TopicPartition],
        version: TransactionVersion,
    ) -> None:
        """`add_partitions` for a holder of the lock, who must not be cancelled meanwhile (`Finishing`)."""
        term = self._table.term
        known = decisions.check_producer(self._table.get(transactional_id), claimed, transactional_id)
        wanted = decisions.add_partitions(known, partitions, version, self._clock.now_ms())
        if wanted is not known:
            await self._table.write(wanted, term)

    def missing_partitions(
        self, transactional_id: str, claimed: Producer, partitions: AbstractSet[TopicPartition]
    ) -> frozenset[TopicPartition]:
        """Those that are not part of the producer's transaction. Raises KafkaError: it has none, or another has it."""
        _check_id(transactional_id)
        self._check_released()
        known = decisions.check_producer(self._table.get(transactional_id), claimed, transactional_id)
        return decisions.missing_partitions(known, partitions)

    def check_partitions(
        self, transactional_id: str, claimed: Producer, partitions: AbstractSet[TopicPartition]
    ) -> None:
        """Raise KafkaError unless all partitions are part of the producer's transaction.

        TRANSACTION_ABORTABLE: some are not. What is appended before the caller gives way, or under the id's lock, is in
        front of the transaction's markers.
        """
        missing = self.missing_partitions(transactional_id, claimed, partitions)
        if missing:
            names = ", ".join(str(partition) for partition in sorted(missing))
            raise KafkaError(ErrorCode.TRANSACTION_ABORTABLE, f"not part of {transactional_id}'s transaction: {names}")

    # --- EndTxn ------------------------------------------------------------------------------------------------------

    async def end(
        self, transactional_id: str, claimed: Producer, *, commit: bool, version: TransactionVersion
    ) -> Producer:
        """Commit or abort a producer's transaction; who the producer is from then on. Raises KafkaError.

        The outcome is in the log then, and where all logs can be written, everybody knows it.
        """
        _check_id(transactional_id)
        await self.make_ready()
        return await self._finishing.finish(self._end(transactional_id, claimed, commit, version))

    async def _end(self, name: str, claimed: Producer, commit: bool, version: TransactionVersion) -> Producer:
        async with self.lock(name):
            term = self._table.term
            known = self._table.get(name)
            fresh = None
            if known is not None and decisions.needs_producer_id_to_end(known, version):
                fresh = await self._new_producer_id()
            decided = decisions.end(
                known,
                claimed,
                transactional_id=name,
                commit=commit,
                version=version,
                now_ms=self._clock.now_ms(),
                fresh_producer_id=fresh,
            )
            if decided is not known:
                await self._table.write(decided, term)
                await self._complete(decided)
            return decisions.producer_after(decided)

    # --- by the clock ------------------------------------------------------------------------------------------------

    def periodic_tasks(self, config: BrokerConfig) -> list[PeriodicTask]:
        """The aborts and expiries, with the intervals that a broker starts with."""
        return [
            PeriodicTask(
                "abort of transactions that have timed out",
                config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
                self.abort_timed_out,
            ),
            PeriodicTask(
                "transactional id expiry",
                config.transaction_remove_expired_transaction_cleanup_interval_ms,
                self.expire_ids,
            ),
        ]

    async def abort_timed_out(self) -> None:
        """Abort the transactions that have timed out, concurrently, because one abort may wait for a slow Produce."""
        names = self._table.timed_out(self._clock.now_ms(), self._clock.elapsed_ms())
        await asyncio.gather(*(self._try_to_abort(name) for name in names))

    async def _try_to_abort(self, name: str) -> None:
        try:
            await self._finishing.finish(self._abort_timed_out(name))
        except KafkaError as error:
            logger.warning("aborting the timed-out transaction of %s failed, retrying at next check: %s", name, error)

    async def _abort_timed_out(self, name: str) -> None:
        async with self.lock(name):
            known = self._table.get(name)
            if known is not None and self._table.has_timed_out(name, self._clock.elapsed_ms()):
                logger.warning("the transaction of %s has timed out after %d ms: aborted", name, known.timeout_ms)
                await self._fence(known, self._table.term)

    async def expire_ids(self) -> None:
        """Forget ids that were idle for transactional.id.expiration.ms."""
        now_ms, expiration_ms = self._clock.now_ms(), self._config().transactional_id_expiration_ms
        old = [name for name, known in self._table.all.items() if known.expires(now_ms, expiration_ms)]
        for number, name in enumerate(old, 1):
            try:
                await self._finishing.finish(self._expire(name, expiration_ms))
            except KafkaError as error:
                logger.warning("the id %s is idle for too long and stays: %s", name, error)
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)

    async def _expire(self, name: str, expiration_ms: int) -> None:
        async with self.lock(name):
            known, term = self._table.get(name), self._table.term
            if known is not None and known.expires(self._clock.now_ms(), expiration_ms):
                await self._table.forget(name, term)

    # --- deleted topics ----------------------------------------------------------------------------------------------

    async def forget_topic(self, topic: str) -> None:
        """A topic is deleted. With ``__transaction_state`` every id is forgotten, and what goes on is aborted.

        Partitions of other topics need nothing: their transactions end without them.
        """
        if topic != TRANSACTIONS_TOPIC:
            return
        self._stop_timers()
        self._untold.clear()
        for name, known in self._table.give_up().items():
            last = known
            if known.state is TransactionState.ONGOING:
                last = decisions.fence(known, TransactionVersion.TV_0, self._clock.now_ms())
            if last.state.is_prepared:
                async with self._table.lock(name):
                    await self._tell(last, last.partitions)

    # --- the steps ---------------------------------------------------------------------------------------------------

    async def _fence(self, known: Transaction, term: int, claimed: Producer | None = None) -> Transaction:
        """Abort the open transaction of an id whose lock is held; return the id's new state."""
        level = self._level()
        fresh = await self._new_producer_id() if decisions.needs_producer_id_to_end(known, level) else None
        decided = decisions.fence(known, level, self._clock.now_ms(), claimed=claimed, fresh_producer_id=fresh)
        await self._table.write(decided, term)
        return await self._complete(decided)

    async def _complete(self, decided: Transaction) -> Transaction:
        """Write the markers of a decided transaction, then its Complete record; the id's new state. Under its lock.

        Does not raise: what cannot be done now is done later.
        """
        name, term = decided.transactional_id, self._table.term
        level = logging.DEBUG if name in self._untold else logging.WARNING
        untold = await self._tell(decided, self._untold.pop(name, decided.partitions))
        if untold:
            logger.log(level, "%d partitions cannot take the marker of %s's transaction yet", len(untold), name)
        else:
            over = decisions.complete(decided, self._clock.now_ms())
            try:
                await self._table.write(over, term)
            except KafkaError as error:
                logger.log(level, "that %s's transaction is over cannot be written down yet: %s", name, error)
            else:
                return over
        if term == self._table.term:
            self._untold[name] = untold
            self._come_back_to(name)
        return decided

    async def _tell(self, decided: Transaction, partitions: AbstractSet[TopicPartition]) -> frozenset[TopicPartition]:
        """Write markers; the partitions that have none yet."""
        name = decided.transactional_id
        codes = await self._markers.write(
            partitions,
            Producer(producer_id=decided.producer_id, epoch=decided.producer_epoch),
            commit=decided.state is TransactionState.PREPARE_COMMIT,
            coordinator_epoch=self._table.log.epoch(name),
            version=decided.client_version,
        )
        for partition, code in codes.items():
            if code in _OVERTAKEN:
                logger.warning("%s takes no marker of %s's transaction any more: %s", partition, name, code.name)
        return frozenset(partition for partition, code in codes.items() if code not in _NOTHING_TO_DO)

    def _come_back_to(self, name: str) -> None:
        if self._released or name in self._again:
            return

        def again() -> None:
            del self._again[name]
            self._finishing.begin(self._complete_later(name))

        self._again[name] = self._clock.at(self._clock.now_ms() + _AGAIN_MS, again)

    async def _complete_later(self, name: str) -> None:
        async with self._table.lock(name):
            known = self._table.get(name)
            if not self._released and known is not None and known.state.is_prepared:
                await self._complete(known)

    def _check_released(self) -> None:
        if self._released:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, "the broker stops")

    def _stop_timers(self) -> None:
        for timer in self._again.values():
            timer.cancel()
        self._again.clear()


def _check_id(transactional_id: str) -> None:
    if not transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
