"""The group coordinator.

Groups of all kinds share one space of ids: classic ones, consumer groups (KIP-848), and simple ones, which are classic
groups that never had a member. The steps of every request about a group:

1. Decide: a pure function of the group, the request and the time returns an `Outcome`.
2. Append the outcome's records to the group's partition of ``__consumer_offsets``. Crash here: the decision takes
   effect if the append is complete, but no client got a response.
3. Replay offsets, replace the group, set timers, respond.

The group's lock is held while step 2 waits for the disk, and other requests about the group wait for the lock. A
pending request (JoinGroup and SyncGroup wait for other members) has an id, which is stored in the group, and a future
here.
"""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, Generic, NamedTuple, TypeAlias

from broker_embedded._config.config import BrokerConfig
from broker_embedded._coordinator.group_timers import GroupTimers
from broker_embedded._coordinator.key_locks import KeyLocks
from broker_embedded._coordinator.log import OFFSETS_TOPIC, Appended, CoordinatorLog, Within
from broker_embedded._coordinator.pattern_matcher import PatternMatcher
from broker_embedded._groups import decisions
from broker_embedded._groups.consumer.draft import REGEX_TIMER
from broker_embedded._groups.group import Group, Outcome, Pending, Reply, ResponseT, SetTimer, TimerKey
from broker_embedded._groups.offsets import GroupOffsets, OffsetCommit
from broker_embedded._groups.pending_offsets import PendingTransaction
from broker_embedded._groups.replay import ReplayContext, replay
from broker_embedded._platform.periodic import PeriodicTask
from broker_embedded._platform.shielded_tasks import ShieldedTasks
from broker_embedded._platform.timers import Timers
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.offset_commit import OffsetCommitRequest
from spark_kafka_native._protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._records.errors import CorruptBatch

logger = logging.getLogger(__name__)

Decision: TypeAlias = Callable[[Group | None, int], Outcome[ResponseT]]
"""Decides about a group, or None if it does not exist, at a time in ms. Raises KafkaError: nothing changes."""

_RETRY_TIMER_MS: Final = 500
"""Time until a timer is retried whose records could not be written, as in Apache Kafka."""


class Groups:
    """All groups, their committed offsets, and ``__consumer_offsets``. Belongs to one event loop."""

    def __init__(
        self,
        *,
        log: CoordinatorLog,
        timers: Timers,
        shielded_tasks: ShieldedTasks,
        context: ReplayContext,
        patterns: PatternMatcher,
        max_metadata_chars: int,
        offsets_retention_ms: int,
    ) -> None:
        self.log = log
        self.context = context
        self.offsets = GroupOffsets(max_metadata_chars=max_metadata_chars)
        self._retention_ms = offsets_retention_ms
        self._clock = timers
        self._patterns = patterns
        self._shielded_tasks = shielded_tasks
        self._groups: dict[str, Group] = {}
        self._locks = KeyLocks()
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._request_ids = itertools.count(1)
        self._timers = GroupTimers(timers, self._on_timer)
        self._markers = _Markers()
        self._due: set[tuple[str, TimerKey]] = set()
        """Timers that have fired and wait for the group's lock. A decision that sets or cancels one removes it."""
        self._looking_up: set[str] = set()
        """Groups whose regular expressions are being looked up."""
        self._resumed = False
        self._released = False
        self._load_epoch = 0

    # --- from start to stop ------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Replay the log. Blocks; called before the broker serves requests."""
        for partition, logged in self.log.logged():
            transaction = None if logged.producer_id is None else PendingTransaction(partition, logged.producer_id)
            try:
                self.offsets.replay(logged.record, logged.offset, transaction)
                replay(self._groups, logged.record, self.context)
            except CorruptBatch as error:
                logger.error("a record of %s cannot be decoded, ignored: %s", OFFSETS_TOPIC, error)

    def resume(self) -> None:
        """Set the timers of loaded groups. Called on the event loop; a second call does nothing."""
        if self._resumed:
            return
        self._resumed = True
        for group in list(self._groups.values()):
            self._carry_out(group.group_id, decisions.resumed(group))

    def release(self) -> None:
        """Answer every pending request and refuse new ones: the broker stops."""
        self._released = True
        self._unload()

    def abandon(self) -> None:
        """Stop without responses, as a crash of the process would."""
        self._released = True
        self._load_epoch += 1
        self._timers.close()

    async def make_ready(self) -> None:
        """Create ``__consumer_offsets`` if necessary. Raises KafkaError: it cannot be created now."""
        await self.log.make_ready()
        self.resume()

    # --- what there is -----------------------------------------------------------------------------------------------

    @property
    def all(self) -> Mapping[str, Group]:
        """Every group, by id."""
        return MappingProxyType(self._groups)

    def get(self, group_id: str) -> Group | None:
        """A group, or None."""
        return self._groups.get(group_id)

    # --- decisions ---------------------------------------------------------------------------------------------------

    def new_request_id(self) -> int:
        """An id for a request that may become pending."""
        return next(self._request_ids)

    async def apply(self, group_id: str, decide: Decision[ResponseT], *, within: Within | None = None) -> ResponseT:
        """Decide about a group, execute the decision, and return its response, which may wait for later decisions.

        ``within`` a transaction a decision may only commit offsets.

        Raises KafkaError: nothing has changed. If the caller is cancelled, the decision is executed nevertheless.
        """
        await self.make_ready()
        self._check_released()
        if group_id in self._locks or self.log.waits_for_disk(group_id):
            decided = await self._shielded_tasks.run(self._decide_locked(group_id, decide, within))
        else:
            decided = self._decide_at_once(group_id, decide, within)
        return decided.response if isinstance(decided, _Answered) else await decided

    def _decide_at_once(
        self, group_id: str, decide: Decision[ResponseT], within: Within | None
    ) -> "_Answered[ResponseT] | asyncio.Future[ResponseT]":
        outcome = decide(self._groups.get(group_id), self._clock.now_ms())
        appended = None
        try:
            if outcome.records:
                appended = self.log.append(group_id, outcome.records, within)
        except KafkaError as error:
            outcome = _otherwise(outcome, error)
        return self._carry_out(group_id, outcome, appended, within)

    async def _decide_locked(
        self, group_id: str, decide: Decision[ResponseT], within: Within | None
    ) -> "_Answered[ResponseT] | asyncio.Future[ResponseT]":
        async with self._locks.hold(group_id):
            self._check_released()
            load_epoch = self._load_epoch
            outcome = decide(self._groups.get(group_id), self._clock.now_ms())
            appended = None
            with self._markers.meanwhile() as markers:
                try:
                    if outcome.records:
                        appended = await self.log.append_on_disk(group_id, outcome.records, within)
                except KafkaError as error:
                    outcome = _otherwise(outcome, error)
                if load_epoch != self._load_epoch:
                    raise KafkaError(ErrorCode.NOT_COORDINATOR, f"group {group_id!r} was unloaded meanwhile")
                decided = self._carry_out(group_id, outcome, appended, within)
                for marker in markers:
                    self._end(marker)
            return decided

    def _carry_out(
        self,
        group_id: str,
        outcome: Outcome[ResponseT],
        appended: Appended | None = None,
        within: Within | None = None,
    ) -> "_Answered[ResponseT] | asyncio.Future[ResponseT]":
        if appended is not None:
            transaction = None
            if within is not None:
                transaction = PendingTransaction(appended.partition, within.producer.producer_id)
            for offset, record in enumerate(outcome.records, appended.base_offset):
                self.offsets.replay(record, offset, transaction)
        if outcome.removed:
            self._groups.pop(group_id, None)
            self._timers.cancel_all(group_id)
            logger.info("group %s is deleted", group_id)
        elif outcome.group is not None:
            before = self._groups.get(group_id)
            self._groups[group_id] = outcome.group
            if before is None or before.state_name != outcome.group.state_name:
                logger.info("group %s is %s", group_id, outcome.group.state_name)
        self._forget_patterns(group_id)
        for change in outcome.timers:
            self._timers.change(group_id, change)
            self._due.discard((group_id, change.key))
        response: _Answered[ResponseT] | asyncio.Future[ResponseT]
        if isinstance(outcome.response, Pending):
            response = self._pending[outcome.response.request_id] = asyncio.get_running_loop().create_future()
        else:
            response = _Answered(outcome.response)
        self._reply(outcome.replies)
        return response

    def _reply(self, replies: tuple[Reply, ...]) -> None:
        for reply in replies:
            future = self._pending.pop(reply.request_id, None)
            if future is not None and not future.done():
                future.set_result(reply.response)

    # --- offsets ---------------------------------------------------------------------------------------------------

    async def commit(
        self, request: OffsetCommitRequest, commits: Iterable[OffsetCommit], version: int
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Commit offsets; an error code per partition. Raises KafkaError: none of them was committed."""
        return await self.apply(
            request.group_id,
            lambda group, now_ms: self.offsets.commit(
                group, request, commits, version=version, now_ms=now_ms, config=self.context.classic
            ),
        )

    async def check_fetch(self, group_id: str, member_id: str | None, member_epoch: int) -> None:
        """Raise KafkaError unless the client may read the group's committed offsets."""
        await self.make_ready()
        group = self.get(group_id)
        if group is not None:
            group.check_fetch(member_id, member_epoch)

    async def commit_in_transaction(
        self, request: TxnOffsetCommitRequest, commits: Iterable[OffsetCommit], *, verified: bool = True
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Commit offsets in a transaction; an error code per partition.

        ``verified``: the group's partition is part of the transaction, and no marker is written before this returns.
        Otherwise the transaction must be open in the log. Raises KafkaError: none of them was committed.
        """
        return await self.apply(
            request.group_id,
            lambda group, now_ms: self.offsets.commit_in_transaction(
                group, request, commits, now_ms=now_ms, config=self.context.classic
            ),
            within=Within(ProducerIdAndEpoch(producer_id=request.producer_id, epoch=request.producer_epoch), verified),
        )

    def end_transaction(self, partition: int, producer_id: int, marker_offset: int, *, commit: bool) -> None:
        """Commit or drop the offsets of a transaction, whose marker is in a partition of ``__consumer_offsets``."""
        marker = _Marker(PendingTransaction(partition, producer_id), marker_offset, commit)
        self._end(marker)
        self._markers.add(marker)

    def _end(self, marker: "_Marker") -> None:
        self.offsets.end_transaction(marker.transaction, marker.offset, commit=marker.commit)

    async def delete_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Delete offsets of a group; an error code per partition. Raises KafkaError: none of them was deleted."""
        return await self.apply(group_id, lambda group, _: self.offsets.delete(group, group_id, partitions))

    async def delete(self, group_id: str) -> None:
        """Delete an empty group and its offsets. Raises KafkaError: it is unchanged."""
        await self.apply(group_id, lambda group, _: self.offsets.delete_group(group, group_id))

    def periodic_tasks(self, config: BrokerConfig) -> list[PeriodicTask]:
        """The expiry of offsets, with the interval at the start of the broker."""
        return [PeriodicTask("offset expiry", config.offsets_retention_check_interval_ms, self.expire)]

    async def expire(self) -> None:
        """Delete expired offsets, and empty groups without offsets."""
        for group_id in list(self._groups):
            await self._forget(
                group_id,
                lambda group, now_ms: self.offsets.expire(group, now_ms, self._retention_ms),
                "they have expired",
            )

    async def forget_topic(self, topic: str) -> None:
        """Delete all offsets of a deleted topic; with ``__consumer_offsets`` all groups."""
        if topic == OFFSETS_TOPIC:
            self._unload()
            for group_id in self._groups:
                self._patterns.forget(group_id)
            self._groups.clear()
            self.offsets.clear()
            return
        for group_id in self.offsets.groups_in(topic):
            await self._forget_topic(group_id, topic)

    async def _forget_topic(self, group_id: str, topic: str) -> None:
        await self._forget(
            group_id, lambda _group, _now_ms: self.offsets.forget_topic(group_id, topic), f"topic {topic} is deleted"
        )

    async def _forget(self, group_id: str, decide: Decision[bool], reason: str) -> None:
        """Delete offsets of a group in batches. Other tasks of the event loop run between two batches."""
        try:
            while await self.apply(group_id, decide):
                await asyncio.sleep(0)
        except KafkaError as error:
            logger.warning("offsets of group %s cannot be deleted although %s: %s", group_id, reason, error)
        await asyncio.sleep(0)

    # --- timers ------------------------------------------------------------------------------------------------

    def _on_timer(self, group_id: str, key: TimerKey) -> None:
        if key == REGEX_TIMER:
            if group_id not in self._looking_up:  # otherwise a later heartbeat sets the timer again
                self._shielded_tasks.start(self._look_up_regexes(group_id))
            return
        due = group_id, key

        def decide(group: Group | None, now_ms: int) -> Outcome[None]:
            is_due = due in self._due
            self._due.discard(due)
            return decisions.timer_fired(group, key, now_ms) if is_due else Outcome(response=None)

        self._due.add(due)
        self._shielded_tasks.start(self._fire(group_id, key, decide))

    async def _fire(self, group_id: str, key: TimerKey, decide: Decision[None]) -> None:
        try:
            await self.apply(group_id, decide)
        except KafkaError as error:
            self._retry(group_id, key, error)

    def _retry(self, group_id: str, key: TimerKey, error: KafkaError) -> None:
        if not self._released:
            name, retry_ms = "-".join(key), _RETRY_TIMER_MS
            logger.warning("timer %s of group %s failed, retrying in %d ms: %s", name, group_id, retry_ms, error)
            self._timers.change(group_id, SetTimer(key=key, after_ms=retry_ms))

    async def _look_up_regexes(self, group_id: str) -> None:
        """Match all topic names with the group's regular expressions, and write the result to the group's log."""
        regexes = sorted(decisions.subscribed_regexes(self._groups.get(group_id)))
        if not regexes:
            return
        view = self.context.consumer.topics()
        self._looking_up.add(group_id)
        try:
            topics = await self._patterns.matching_each(group_id, regexes, view.by_name)
            await self.apply(
                group_id, lambda group, now_ms: decisions.regexes_resolved(group, topics, view.version, now_ms)
            )
        except KafkaError as error:
            self._retry(group_id, REGEX_TIMER, error)
        finally:
            self._looking_up.discard(group_id)
            self._forget_patterns(group_id)

    def _forget_patterns(self, group_id: str) -> None:
        """Drop the compiled regular expressions of a group that has none any more, or is deleted."""
        if self._patterns.keeps(group_id) and not decisions.subscribed_regexes(self._groups.get(group_id)):
            self._patterns.forget(group_id)

    def _check_released(self) -> None:
        if self._released:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, "the broker stops")

    def _unload(self) -> None:
        """Answer pending requests with NOT_COORDINATOR, and drop decisions that wait for the disk."""
        self._load_epoch += 1
        self._timers.close()
        self._due.clear()
        for group in self._groups.values():
            self._reply(group.released(ErrorCode.NOT_COORDINATOR))


class _Marker(NamedTuple):
    """The end of a transaction in a partition of ``__consumer_offsets``."""

    transaction: PendingTransaction
    offset: int
    commit: bool


class _Markers:
    """Markers that are written while commits wait for the disk, whose records may be before them in the log."""

    def __init__(self) -> None:
        self._waiting: dict[int, list[_Marker]] = {}

    @contextlib.contextmanager
    def meanwhile(self) -> Iterator[list[_Marker]]:
        """The markers that are written within the block."""
        seen: list[_Marker] = []
        self._waiting[id(seen)] = seen
        try:
            yield seen
        finally:
            del self._waiting[id(seen)]

    def add(self, marker: _Marker) -> None:
        for seen in self._waiting.values():
            seen.append(marker)


class _Answered(Generic[ResponseT]):
    """A response that does not wait."""

    __slots__ = ("response",)

    def __init__(self, response: ResponseT) -> None:
        self.response = response


def _otherwise(outcome: Outcome[ResponseT], error: KafkaError) -> Outcome[ResponseT]:
    """The outcome if the records of ``outcome`` cannot be written. Raises KafkaError: there is none."""
    if outcome.otherwise is None:
        raise error
    return outcome.otherwise(error.code)
