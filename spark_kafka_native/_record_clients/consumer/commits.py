"""The commits of a group consumer's offsets, automatic and by hand."""

import logging
import math
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.groups.member_loop import MEMBER_REMOVED
from spark_kafka_native._client.groups.membership import MemberIdentity
from spark_kafka_native._client.groups.offset_storage import OffsetStorage
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.topic import TopicPartition, listed
from spark_kafka_native._record_clients.consumer.assigned_stream import AssignedStream
from spark_kafka_native._record_clients.consumer.group_config import ConsumerConfig
from spark_kafka_native._record_clients.errors import CommitFailed

_log = logging.getLogger(__name__)

_LAST_COMMIT_MS: Final = 10_000
"""Longest commit in the member's thread of partitions that are given up, and longest wait for one before.

``shutdown`` waits for it.
"""
_SHORTEST_INTERVAL_MS: Final = 10
"""Between two automatic commits, also if ``auto.commit.interval.ms`` is less."""
_AGAIN: Final = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.STALE_MEMBER_EPOCH})
"""Errors of a commit whose member gets another generation soon."""
_LOST: Final = MEMBER_REMOVED | {ErrorCode.FENCED_INSTANCE_ID}


class OffsetCommits:
    """The commits of the positions of streams. ``commit`` and ``acknowledge`` are for any thread."""

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        streams: Sequence[AssignedStream],
        storage: OffsetStorage,
        identity: Callable[[], MemberIdentity],
    ) -> None:
        """``identity``: that of the member now."""
        self._cluster = cluster
        self._config = config
        self._streams = streams
        self._storage = storage
        self._identity = identity
        self._interval_s = max(config.auto_commit_interval_ms, _SHORTEST_INTERVAL_MS) / 1000
        self._due_at = math.inf
        self._last_commit_ms = min(_LAST_COMMIT_MS, config.client.default_api_timeout_ms)
        self._committed: dict[TopicPartition, int] = {}
        """What was committed last for the partitions that are assigned."""
        self._missed: dict[TopicPartition, int] = {}
        """Offsets that were not committed before their partitions were removed, since the last ``commit``."""
        self._lock = threading.RLock()
        """Of these two."""
        self._commit_lock = threading.RLock()
        """One commit at a time, because an earlier one that arrives later would take offsets back."""

    # --- the member's thread

    def begin(self) -> None:
        """The first automatic commit is due after ``auto.commit.interval.ms``."""
        if self._due_at == math.inf and self._config.enable_auto_commit:
            self._due_at = time.monotonic() + self._interval_s

    def commit_if_due(self, now: float, *, timeout_ms: float) -> float:
        """As ``Reader.commit_if_due``."""
        if now >= self._due_at:
            self._commit_automatically(None, timeout_ms, wait_ms=0)
            self._due_at = time.monotonic() + self._interval_s
            for stream in self._streams:
                stream.wake()
        return self._due_at

    def commit_last(self, partitions: Collection[TopicPartition]) -> None:
        """Commit the offsets of stopped partitions, if commits are automatic. Raises nothing."""
        if self._config.enable_auto_commit:
            self._commit_automatically(partitions, self._last_commit_ms, wait_ms=self._last_commit_ms)

    def remove(self, partitions: Collection[TopicPartition]) -> None:
        """Let the streams read these partitions no more, and note which offsets were not committed."""
        for stream in self._streams:
            with self._lock:
                for partition, offset in stream.remove(partitions).items():
                    if self._committed.get(partition, -1) < offset:
                        self._missed[partition] = offset
        with self._lock:
            for partition in partitions:
                self._committed.pop(partition, None)

    # --- any thread

    def forget(self, partition: TopicPartition) -> None:
        """Commit a partition's offset even if it equals the last committed one: brokers delete that with its topic."""
        with self._lock:
            self._committed.pop(partition, None)

    def acknowledge(self, thread: threading.Thread) -> None:
        """Commit from now on as if the records that a thread processes were processed."""
        for stream in self._streams:
            stream.acknowledge(thread)

    def commit(self, *, timeout_ms: float, in_listener: bool = False) -> None:
        """Commit the offsets after the processed records, and after those that this thread processes.

        ``in_listener``: in the member's thread, which cannot get another generation meanwhile. Raises CommitFailed: the
        group has given partitions to other members; KafkaError.
        """
        self.acknowledge(threading.current_thread())
        deadline = self._cluster.deadline(min(timeout_ms, self._last_commit_ms) if in_listener else timeout_ms)
        backoff = self._cluster.backoff()
        while True:
            identity = self._identity()
            try:
                self._commit(None, identity, deadline, wait_ms=deadline.remaining_ms)
                break
            except KafkaError as error:
                is_renewed = identity != self._identity()
                if error.code in _LOST and not is_renewed:
                    raise CommitFailed(
                        f"group {self._config.group_id}: offsets were not committed, because the member is no longer "
                        f"in the group; its partitions are read again from their committed offsets on: {error}"
                    ) from error
                may_pass = error.retriable or (error.code in _AGAIN | _LOST and not in_listener)
                if not may_pass or not deadline.pause(backoff.next_ms()):
                    raise
        missed, self._missed = self._missed, {}
        if missed:
            raise CommitFailed(
                f"group {self._config.group_id}: the offsets of {listed(missed)} were not committed before the group "
                "gave these partitions to other members; they are read again from their committed offsets on"
            )

    # --- inside

    def _commit_automatically(
        self, partitions: Collection[TopicPartition] | None, timeout_ms: float, *, wait_ms: float
    ) -> None:
        """``wait_ms``: longest wait for another commit. With 0 there is no commit beside another one."""
        try:
            self._commit(partitions, self._identity(), self._cluster.deadline(timeout_ms), wait_ms=wait_ms)
        except KafkaError as error:
            if wait_ms or not isinstance(error, _CommitInProgress):
                _log.warning("group %s: offsets were not committed: %s", self._config.group_id, error)

    def _commit(
        self,
        partitions: Collection[TopicPartition] | None,
        identity: MemberIdentity,
        deadline: Deadline,
        *,
        wait_ms: float,
    ) -> None:
        """``identity``: that of the member before the offsets are read, so that other members' are not committed.

        ``partitions``: None for all. ``wait_ms``: longest wait for another commit. Raises KafkaError.
        """
        try:
            if not self._commit_lock.acquire(timeout=wait_ms / 1000):
                raise _CommitInProgress(self._config.group_id, wait_ms)
            self._commit_now(partitions, identity, deadline)
        finally:
            # The handler of a signal may raise after acquire, before any other statement.
            try:  # noqa: SIM105 -- the handler could raise in `suppress`, too
                self._commit_lock.release()
            except RuntimeError:  # not acquired
                pass

    def _commit_now(
        self, partitions: Collection[TopicPartition] | None, identity: MemberIdentity, deadline: Deadline
    ) -> None:
        missed_before = dict(self._missed)
        offsets = self._uncommitted(partitions)
        if not offsets:
            return
        errors = self._storage.commit(offsets, identity, timeout_ms=deadline.remaining_ms)
        accepted = {partition: offset for partition, offset in offsets.items() if partition not in errors}
        with self._lock:
            assigned = {partition for stream in self._streams for partition in stream.assigned}
            self._committed.update((partition, accepted[partition]) for partition in accepted.keys() & assigned)
            self._missed = missed_before | dict(self._missed.items() - accepted.items())
        for error in errors.values():
            raise error

    def _uncommitted(self, partitions: Collection[TopicPartition] | None) -> Mapping[TopicPartition, int]:
        """The next offsets to process that are to be committed."""
        wanted = None if partitions is None else set(partitions)
        return {
            partition: offset
            for stream in self._streams
            for partition, offset in stream.positions.items()
            if (wanted is None or partition in wanted) and self._committed.get(partition) != offset
        }


class _CommitInProgress(KafkaError):
    """Another commit of the member has not ended."""

    def __init__(self, group_id: str, waited_ms: float) -> None:
        detail = f"group {group_id}: another commit has not ended within {round(waited_ms)} ms"
        super().__init__(ErrorCode.REQUEST_TIMED_OUT, detail)
