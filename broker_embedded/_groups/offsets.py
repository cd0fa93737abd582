"""Committed offsets of groups: a state machine over the records of ``__consumer_offsets``.

The group decides which requests are allowed (`broker_embedded._groups.group`). A commit of a client that is not
a member (generation -1, no member id) to an unknown group id creates a simple group.

An offset that is committed in a transaction (KIP-98) is pending until the marker. Then it takes effect unless a later
record has set or removed the same offset. A tombstone also removes pending offsets.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from broker_embedded._groups import decisions
from broker_embedded._groups.classic.group import ClassicConfig, ClassicGroup
from broker_embedded._groups.group import Group, Outcome, RetentionStart
from broker_embedded._groups.pending_offsets import PendingOffsets, PendingTransaction, Position
from broker_embedded._groups.records import OffsetCommitKey, OffsetCommitValue, offset_record, read_offset_record
from broker_embedded._records.coordinator_record import CoordinatorRecord
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.offset_commit import OffsetCommitRequest
from spark_kafka_native._protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._protocol.wire import ZERO_UUID

_NEVER_MS: Final = 2**63 - 1
"""The latest expiry time in an int64. In Kafka the sum overflows to before 1970, and the offset expires at once."""
_TOMBSTONES_AT_ONCE: Final = 1000
"""Upper bound of the offsets that one batch of records deletes, because of max.message.bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommit:
    """One partition of a commit request. ``topic_id`` is that of the present topic.

    ``timestamp_ms`` is the commit timestamp of the request, or None.
    """

    partition: TopicPartition
    topic_id: UUID
    offset: int
    leader_epoch: int
    metadata: str
    timestamp_ms: int | None = None


class GroupOffsets:
    """The offsets of all groups. ``replay`` changes them; the other methods read or decide."""

    def __init__(self, *, max_metadata_chars: int) -> None:
        self._max_metadata_chars = max_metadata_chars
        self._groups: dict[str, dict[TopicPartition, Position]] = {}
        self._pending = PendingOffsets()

    # --- the state ---------------------------------------------------------------------------------------------------

    def replay(self, record: CoordinatorRecord, log_offset: int, transaction: PendingTransaction | None = None) -> None:
        """Replay a record of the log, which may be in an open ``transaction``. Raises CorruptBatch: nothing changed."""
        read = read_offset_record(record)
        if read is None:
            return
        key, value = read
        partition = TopicPartition(key.topic, key.partition)
        if value is None:
            self._pending.discard(key.group, partition)
            self._remove(key.group, partition)
        elif transaction is not None:
            self._pending.add(transaction, key.group, partition, Position(value, log_offset))
        else:
            self._groups.setdefault(key.group, {})[partition] = Position(value, log_offset)

    def end_transaction(self, transaction: PendingTransaction, marker_offset: int, *, commit: bool) -> None:
        """Commit or drop the pending offsets of a transaction, whose marker is in the log."""
        for group_id, partition, position in self._pending.end(transaction, marker_offset):
            before = self._groups.get(group_id, {}).get(partition)
            if commit and (before is None or before.log_offset < position.log_offset):
                self._groups.setdefault(group_id, {})[partition] = position

    def clear(self) -> None:
        """Forget everything."""
        self._groups.clear()
        self._pending.clear()

    def committed(self, group_id: str, partition: TopicPartition, topic_id: UUID) -> OffsetCommitValue | None:
        """A group's committed offset, or None. An offset of a deleted topic of the same name is ignored."""
        position = self._groups.get(group_id, {}).get(partition)
        return position.value if position is not None and _is_of(position, topic_id) else None

    def all_committed(self, group_id: str) -> Mapping[TopicPartition, OffsetCommitValue]:
        """All offsets of a group; empty if it has none or does not exist."""
        return {partition: position.value for partition, position in self._groups.get(group_id, {}).items()}

    def is_unstable(self, group_id: str, partition: TopicPartition, topic_id: UUID) -> bool:
        """Whether an open transaction has a pending offset for a partition (KIP-447)."""
        return any(_is_of(position, topic_id) for position in self._pending.of(group_id, partition))

    def groups_in(self, topic: str) -> list[str]:
        """The groups with offsets or pending offsets in a topic."""
        groups = dict.fromkeys([*self._groups, *self._pending.groups])
        return [group for group in groups if any(partition.topic == topic for partition in self._partitions(group))]

    def _partitions(self, group_id: str) -> list[TopicPartition]:
        """The partitions with offsets or pending offsets of a group."""
        return list(dict.fromkeys([*self._groups.get(group_id, {}), *self._pending.partitions(group_id)]))

    def _remove(self, group_id: str, partition: TopicPartition) -> None:
        positions = self._groups.get(group_id, {})
        if positions.pop(partition, None) is not None and not positions:
            del self._groups[group_id]

    # --- decisions ---------------------------------------------------------------------------------------------------

    def is_too_large(self, metadata: str) -> bool:
        """Whether a commit with this metadata is refused."""
        return _length(metadata) > self._max_metadata_chars

    def commit(
        self,
        group: Group | None,
        request: OffsetCommitRequest,
        commits: Iterable[OffsetCommit],
        *,
        version: int,
        now_ms: int,
        config: ClassicConfig,
    ) -> Outcome[dict[TopicPartition, ErrorCode]]:
        """Decide a commit: an error code per partition, and the records of those without one.

        ``version`` is the request's. Raises KafkaError: the sender must not commit for the group.
        """
        timers = decisions.check_commit(group, request, version)
        expires = -1 if request.retention_time_ms < 0 else min(now_ms + request.retention_time_ms, _NEVER_MS)
        outcome = self._outcome(group, request.group_id, commits, now_ms=now_ms, expires=expires, config=config)
        return replace(outcome, timers=timers)

    def commit_in_transaction(
        self,
        group: Group | None,
        request: TxnOffsetCommitRequest,
        commits: Iterable[OffsetCommit],
        *,
        now_ms: int,
        config: ClassicConfig,
    ) -> Outcome[dict[TopicPartition, ErrorCode]]:
        """Decide a commit in a transaction, as ``commit``. Its records must be written in that transaction.

        Raises KafkaError: the sender must not commit for the group.
        """
        decisions.check_commit_in_transaction(group, request)
        return self._outcome(group, request.group_id, commits, now_ms=now_ms, expires=-1, config=config)

    def _outcome(
        self,
        group: Group | None,
        group_id: str,
        commits: Iterable[OffsetCommit],
        *,
        now_ms: int,
        expires: int,
        config: ClassicConfig,
    ) -> Outcome[dict[TopicPartition, ErrorCode]]:
        response: dict[TopicPartition, ErrorCode] = {}
        records: list[CoordinatorRecord] = []
        for commit in commits:
            if self.is_too_large(commit.metadata):
                response[commit.partition] = ErrorCode.OFFSET_METADATA_TOO_LARGE
                continue
            response[commit.partition] = ErrorCode.NONE
            records.append(
                offset_record(
                    _key(group_id, commit.partition),
                    OffsetCommitValue(
                        offset=commit.offset,
                        leader_epoch=commit.leader_epoch,
                        metadata=commit.metadata,
                        commit_timestamp=now_ms if commit.timestamp_ms is None else commit.timestamp_ms,
                        expire_timestamp=expires,
                        topic_id=commit.topic_id,
                    ),
                    config.record_versions,
                )
            )
        made = ClassicGroup(group_id=group_id, config=config) if group is None and records else None
        return Outcome(response=response, records=tuple(records), group=made)

    def delete(
        self, group: Group | None, group_id: str, partitions: Iterable[TopicPartition]
    ) -> Outcome[dict[TopicPartition, ErrorCode]]:
        """Decide to delete offsets; an error code for each. Raises KafkaError: unknown or non-empty group."""
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "a group needs an id")
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group_id!r}")
        group.check_offset_delete()
        response = {
            partition: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if group.is_subscribed(partition.topic) else ErrorCode.NONE
            for partition in partitions
        }
        mine = set(self._partitions(group_id))
        gone = [partition for partition, code in response.items() if code is ErrorCode.NONE and partition in mine]
        return Outcome(response=response, records=tuple(_tombstones(group_id, gone)))

    def delete_group(self, group: Group | None, group_id: str) -> Outcome[None]:
        """Decide to delete a group with its offsets. Raises KafkaError: unknown or non-empty group."""
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group_id!r}")
        group.check_delete()
        gone = _tombstones(group_id, self._partitions(group_id))
        return Outcome(response=None, records=(*gone, *group.tombstones()), removed=True)

    def forget_topic(self, group_id: str, topic: str) -> Outcome[bool]:
        """Decide to delete a group's offsets in a deleted topic; the response is whether there are more."""
        found = [partition for partition in self._partitions(group_id) if partition.topic == topic]
        gone = found[:_TOMBSTONES_AT_ONCE]
        return Outcome(response=len(found) > len(gone), records=tuple(_tombstones(group_id, gone)))

    def expire(self, group: Group | None, now_ms: int, retention_ms: int) -> Outcome[bool]:
        """Decide to delete expired offsets, and the group if it has no offsets and no members.

        A pending offset prevents both. The response is whether there are more expired offsets.
        """
        if group is None:
            return Outcome(response=False)
        mine = self.all_committed(group.group_id)
        pending = self._pending.partitions(group.group_id)
        start = group.retention_start()
        old = (
            []
            if start is None
            else [
                partition
                for partition, value in mine.items()
                if not group.is_subscribed(partition.topic)
                and partition not in pending
                and _is_over(value, start, now_ms, retention_ms)
            ]
        )
        gone = old[:_TOMBSTONES_AT_ONCE]
        records = tuple(_tombstones(group.group_id, gone))
        if len(gone) == len(mine) and group.is_empty and not pending:
            return Outcome(response=False, records=(*records, *group.tombstones()), removed=True)
        return Outcome(response=len(old) > len(gone), records=records)


def _is_of(position: Position, topic_id: UUID) -> bool:
    """Whether an offset was committed for the topic with this id, or the id is not known."""
    return topic_id == ZERO_UUID or position.value.is_of(topic_id)


def _length(text: str) -> int:
    """The length of a text in UTF-16 code units, as in Java."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2


def _is_over(value: OffsetCommitValue, start: RetentionStart, now_ms: int, retention_ms: int) -> bool:
    """Whether an offset has expired, by its own expiry time or by ``retention_ms``."""
    if value.expire_timestamp >= 0:
        return now_ms >= value.expire_timestamp
    return now_ms - start(value) >= retention_ms


def _tombstones(group_id: str, partitions: Iterable[TopicPartition]) -> Iterator[CoordinatorRecord]:
    for partition in partitions:
        yield offset_record(_key(group_id, partition), None)


def _key(group_id: str, partition: TopicPartition) -> OffsetCommitKey:
    return OffsetCommitKey(group=group_id, topic=partition.topic, partition=partition.partition)
