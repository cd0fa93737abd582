"""The transaction coordinator.

Every request about a transactional id is decided under its lock, by a pure function of its transaction
(`broker_embedded._transactions`). The steps that end a transaction:

1. EndTxn, a timeout, or InitProducerId of another producer decides it: a Prepare record is appended to the id's
   partition of ``__transaction_state``. Crash before: the transaction is ongoing, and times out. Crash here: it is
   decided if the append is complete, but no client got a response.
2. A marker is written to each of its partitions. Crash here: some have it; the next start writes all of them again.
3. A Complete record is appended. Crash before: as in 2. Crash here: the transaction is complete.

If a partition's log cannot be written, the marker is retried until it can. Requests of the producer are answered
CONCURRENT_TRANSACTIONS until then. A transactional append is verified and made without another task of the event loop
between, or under the id's lock, so that no marker is written between.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from broker_embedded._config.config import BrokerConfig
from broker_embedded._coordinator.log import TRANSACTIONS_TOPIC, CoordinatorLog
from broker_embedded._coordinator.markers import TransactionMarkers
from broker_embedded._coordinator.transaction_table import TransactionTable
from broker_embedded._platform.periodic import PeriodicTask
from broker_embedded._platform.shielded_tasks import ShieldedTasks
from broker_embedded._platform.timers import Timer, Timers
from broker_embedded._transactions import decisions
from broker_embedded._transactions.state import Transaction, TransactionState, TransactionVersion
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch
from spark_kafka_native._protocol.topic import TopicPartition

logger = logging.getLogger(__name__)

_AGAIN_MS: Final = 1000
"""Time until markers or a Complete record that could not be written are retried."""
_AT_ONCE: Final = 50
"""Ids that a periodic task processes before other tasks of the event loop run."""
_SUPERSEDED: Final = {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED}
"""A newer epoch of the producer or coordinator has ended the transaction, for example by an administrator."""
_NOTHING_TO_DO: Final = {
    ErrorCode.NONE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
} | _SUPERSEDED
"""Codes after which no marker is necessary any more: the marker is written, or the partition was deleted, or a newer
marker is written, or its old message format has no transactions.
"""


class Transactions:
    """All transactional ids, and ``__transaction_state``. Belongs to one event loop."""

    def __init__(
        self,
        *,
        log: CoordinatorLog,
        markers: TransactionMarkers,
        timers: Timers,
        shielded_tasks: ShieldedTasks,
        new_producer_id: Callable[[], Awaitable[int]],
        config: Callable[[], BrokerConfig],
        level: Callable[[], TransactionVersion],
    ) -> None:
        """``level`` returns the present level of the feature transaction.version."""
        self._table = TransactionTable(log, level)
        self._markers = markers
        self._clock = timers
        self._shielded_tasks = shielded_tasks
        self._new_producer_id = new_producer_id
        self._config = config
        self._level = level
        self._missing: dict[str, frozenset[TopicPartition]] = {}
        """Partitions to which the marker of a decided transaction must be written again, by transactional id."""
        self._again: dict[str, Timer] = {}
        self._resumed = False
        self._released = False

    # --- from start to stop ------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Replay the log. Blocks; called before the broker serves requests."""
        self._table.load()

    def resume(self) -> None:
        """Complete the transactions that were decided before a crash.

        Called on the event loop; a second call does nothing.
        """
        if self._resumed:
            return
        self._resumed = True
        for name, known in self._table.all.items():
            if known.state.is_prepared:
                self._shielded_tasks.start(self._complete_later(name))

    def release(self) -> None:
        """Refuse new requests: the broker stops. Requests in progress are completed, now or by the next start."""
        self._released = True
        self._stop_timers()

    def abandon(self) -> None:
        """Stop without responses, as a crash of the process would."""
        self._released = True
        self._table.load_epoch += 1
        self._stop_timers()

    async def make_ready(self) -> None:
        """Create ``__transaction_state`` if necessary. Raises KafkaError: it cannot be created now."""
        await self._table.log.make_ready()
        self.resume()

    # --- what there is -----------------------------------------------------------------------------------------------

    @property
    def all(self) -> Mapping[str, Transaction]:
        """All transactions, by transactional id."""
        return self._table.all

    @contextlib.asynccontextmanager
    async def lock(self, transactional_id: str) -> AsyncIterator[None]:
        """Hold the id's lock within the block. Raises KafkaError NOT_COORDINATOR: the broker stops.

        For transactional appends that wait between the verification and the append. Within the block
        `check_partitions` and `add_partitions_locked` may be called, and no other method that takes a lock.
        """
        async with self._table.lock(transactional_id):
            self._check_released()
            yield

    # --- InitProducerId ----------------------------------------------------------------------------------------------

    async def begin_producer(
        self, transactional_id: str, timeout_ms: int, claimed: ProducerIdAndEpoch | None
    ) -> ProducerIdAndEpoch:
        """Assign the id to a producer with a new epoch. ``claimed``: producer id and epoch of the request (KIP-360).

        An ongoing transaction is aborted first. Raises KafkaError, also INVALID_REQUEST, INVALID_TRANSACTION_TIMEOUT;
        CONCURRENT_TRANSACTIONS: the last transaction is decided and not complete.
        """
        _check_id(transactional_id)
        longest_ms = self._config().transaction_max_timeout_ms
        if not 0 < timeout_ms <= longest_ms:
            detail = f"the timeout {timeout_ms} ms is not between 1 and transaction.max.timeout.ms = {longest_ms}"
            raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT, f"{transactional_id}: {detail}")
        await self.make_ready()
        return await self._shielded_tasks.run(self._begin_producer(transactional_id, timeout_ms, claimed))

    async def _begin_producer(
        self, name: str, timeout_ms: int, claimed: ProducerIdAndEpoch | None
    ) -> ProducerIdAndEpoch:
        async with self.lock(name):
            load_epoch = self._table.load_epoch
            known = self._table.get(name)
            if known is None:
                producer_id = await self._new_producer_id()
                known = decisions.new_transaction(name, producer_id, timeout_ms, self._clock.now_ms())
            decisions.check_claim(known, claimed)
            if known.state is TransactionState.ONGOING:
                logger.info("%s is initialized again during a transaction: aborting the transaction", name)
                known = await self._fence(known, load_epoch, claimed)
            elif known.state.is_prepared:
                known = await self._complete(known)
            fresh = None
            if decisions.needs_producer_id_to_begin(known, claimed):
                fresh = await self._new_producer_id()
            begun = decisions.begin_producer(known, claimed, timeout_ms, self._clock.now_ms(), fresh_producer_id=fresh)
            await self._table.write(begun, load_epoch)
            return ProducerIdAndEpoch(producer_id=begun.producer_id, epoch=begun.producer_epoch)

    # --- partitions --------------------------------------------------------------------------------------------------

    async def add_partitions(
        self,
        transactional_id: str,
        claimed: ProducerIdAndEpoch,
        partitions: AbstractSet[TopicPartition],
        version: TransactionVersion,
    ) -> None:
        """Add partitions to a producer's transaction, which begins if none is ongoing. Raises KafkaError.

        Must not be called within ``lock``.
        """
        _check_id(transactional_id)
        await self.make_ready()

        async def add() -> None:
            async with self.lock(transactional_id):
                await self.add_partitions_locked(transactional_id, claimed, partitions, version)

        await self._shielded_tasks.run(add())

    async def add_partitions_locked(
        self,
        transactional_id: str,
        claimed: ProducerIdAndEpoch,
        partitions: AbstractSet[TopicPartition],
        version: TransactionVersion,
    ) -> None:
        """As `add_partitions`, within ``lock``. The task must not be cancelled (`ShieldedTasks`)."""
        load_epoch = self._table.load_epoch
        known = decisions.check_producer(self._table.get(transactional_id), claimed, transactional_id)
        wanted = decisions.add_partitions(known, partitions, version, self._clock.now_ms())
        if wanted is not known:
            await self._table.write(wanted, load_epoch)

    def missing_partitions(
        self, transactional_id: str, claimed: ProducerIdAndEpoch, partitions: AbstractSet[TopicPartition]
    ) -> frozenset[TopicPartition]:
        """The partitions that are not in the producer's transaction. Raises KafkaError: it has none, or is fenced."""
        _check_id(transactional_id)
        self._check_released()
        known = decisions.check_producer(self._table.get(transactional_id), claimed, transactional_id)
        return decisions.missing_partitions(known, partitions)

    def check_partitions(
        self, transactional_id: str, claimed: ProducerIdAndEpoch, partitions: AbstractSet[TopicPartition]
    ) -> None:
        """Raise KafkaError unless all partitions are in the producer's transaction.

        TRANSACTION_ABORTABLE: some are not. An append before the next await, or within ``lock``, is before the
        transaction's markers.
        """
        missing = self.missing_partitions(transactional_id, claimed, partitions)
        if missing:
            names = ", ".join(str(partition) for partition in sorted(missing))
            raise KafkaError(ErrorCode.TRANSACTION_ABORTABLE, f"not part of {transactional_id}'s transaction: {names}")

    # --- EndTxn ------------------------------------------------------------------------------------------------------

    async def end(
        self, transactional_id: str, claimed: ProducerIdAndEpoch, *, commit: bool, version: TransactionVersion
    ) -> ProducerIdAndEpoch:
        """Commit or abort a producer's transaction. Returns the producer id and epoch from then on. Raises KafkaError.

        The decision is in the log then, and the markers are, unless a partition's log cannot be written.
        """
        _check_id(transactional_id)
        await self.make_ready()
        return await self._shielded_tasks.run(self._end(transactional_id, claimed, commit, version))

    async def _end(
        self, name: str, claimed: ProducerIdAndEpoch, commit: bool, version: TransactionVersion
    ) -> ProducerIdAndEpoch:
        async with self.lock(name):
            load_epoch = self._table.load_epoch
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
                await self._table.write(decided, load_epoch)
                await self._complete(decided)
            return decisions.producer_after(decided)

    # --- by the clock ------------------------------------------------------------------------------------------------

    def periodic_tasks(self, config: BrokerConfig) -> list[PeriodicTask]:
        """The aborts and expiries, with the intervals at the start of the broker."""
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
            await self._shielded_tasks.run(self._abort_timed_out(name))
        except KafkaError as error:
            logger.warning("aborting the timed-out transaction of %s failed, retrying at next check: %s", name, error)

    async def _abort_timed_out(self, name: str) -> None:
        async with self.lock(name):
            known = self._table.get(name)
            if known is not None and self._table.has_timed_out(name, self._clock.elapsed_ms()):
                logger.warning("the transaction of %s has timed out after %d ms: aborted", name, known.timeout_ms)
                await self._fence(known, self._table.load_epoch)

    async def expire_ids(self) -> None:
        """Delete ids by transactional.id.expiration.ms."""
        now_ms, expiration_ms = self._clock.now_ms(), self._config().transactional_id_expiration_ms
        old = [name for name, known in self._table.all.items() if known.expires(now_ms, expiration_ms)]
        for number, name in enumerate(old, 1):
            try:
                await self._shielded_tasks.run(self._expire(name, expiration_ms))
            except KafkaError as error:
                logger.warning("the expired transactional id %s cannot be deleted: %s", name, error)
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)

    async def _expire(self, name: str, expiration_ms: int) -> None:
        async with self.lock(name):
            known, load_epoch = self._table.get(name), self._table.load_epoch
            if known is not None and known.expires(self._clock.now_ms(), expiration_ms):
                await self._table.forget(name, load_epoch)

    # --- deleted topics ----------------------------------------------------------------------------------------------

    async def forget_topic(self, topic: str) -> None:
        """Handle the deletion of a topic: with ``__transaction_state`` unload all ids and abort open transactions.

        Other topics need no action: their transactions end without them.
        """
        if topic != TRANSACTIONS_TOPIC:
            return
        self._stop_timers()
        self._missing.clear()
        for name, known in self._table.unload().items():
            last = known
            if known.state is TransactionState.ONGOING:
                last = decisions.fence(known, TransactionVersion.TV_0, self._clock.now_ms())
            if last.state.is_prepared:
                async with self._table.lock(name):
                    await self._write_markers(last, last.partitions)

    # --- the steps ---------------------------------------------------------------------------------------------------

    async def _fence(
        self, known: Transaction, load_epoch: int, claimed: ProducerIdAndEpoch | None = None
    ) -> Transaction:
        """Abort the open transaction of an id whose lock is held; return the id's new state."""
        level = self._level()
        fresh = await self._new_producer_id() if decisions.needs_producer_id_to_end(known, level) else None
        decided = decisions.fence(known, level, self._clock.now_ms(), claimed=claimed, fresh_producer_id=fresh)
        await self._table.write(decided, load_epoch)
        return await self._complete(decided)

    async def _complete(self, decided: Transaction) -> Transaction:
        """Write the markers of a decided transaction, then its Complete record; the id's new state. Within its lock.

        Does not raise: failed writes are retried later.
        """
        name, load_epoch = decided.transactional_id, self._table.load_epoch
        level = logging.DEBUG if name in self._missing else logging.WARNING
        missing = await self._write_markers(decided, self._missing.pop(name, decided.partitions))
        if missing:
            logger.log(
                level, "markers of %s's transaction cannot be written yet, will be retried: %d", name, len(missing)
            )
        else:
            over = decisions.complete(decided, self._clock.now_ms())
            try:
                await self._table.write(over, load_epoch)
            except KafkaError as error:
                logger.log(
                    level,
                    "the Complete record of %s's transaction cannot be written yet, will be retried: %s",
                    name,
                    error,
                )
            else:
                return over
        if load_epoch == self._table.load_epoch:
            self._missing[name] = missing
            self._retry_later(name)
        return decided

    async def _write_markers(
        self, decided: Transaction, partitions: AbstractSet[TopicPartition]
    ) -> frozenset[TopicPartition]:
        """Write markers. Returns the partitions to which they could not be written."""
        name = decided.transactional_id
        codes = await self._markers.write(
            partitions,
            ProducerIdAndEpoch(producer_id=decided.producer_id, epoch=decided.producer_epoch),
            commit=decided.state is TransactionState.PREPARE_COMMIT,
            coordinator_epoch=self._table.log.epoch(name),
            version=decided.client_version,
        )
        for partition, code in codes.items():
            if code in _SUPERSEDED:
                logger.warning("%s needs no marker of %s's transaction any more: %s", partition, name, code.name)
        return frozenset(partition for partition, code in codes.items() if code not in _NOTHING_TO_DO)

    def _retry_later(self, name: str) -> None:
        if self._released or name in self._again:
            return

        def again() -> None:
            del self._again[name]
            self._shielded_tasks.start(self._complete_later(name))

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
