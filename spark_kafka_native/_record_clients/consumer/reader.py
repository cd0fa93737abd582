"""Which stream reads which partition of a member, from which offset on, and the commits of its offsets."""

import logging
import math
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.consumer.offsets import list_once
from spark_kafka_native._client.errors import NoSuchPartition
from spark_kafka_native._client.groups.membership import MemberIdentity
from spark_kafka_native._client.groups.offset_storage import OffsetStorage
from spark_kafka_native._client.retry import is_transient
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.topic import TopicPartition, listed
from spark_kafka_native._record_clients.consumer.group_config import ConsumerConfig
from spark_kafka_native._record_clients.consumer.stream_partitions import StreamPartitions
from spark_kafka_native._record_clients.errors import CommitFailed, NoOffset
from spark_kafka_native._record_clients.records import ConsumerRecord

_log = logging.getLogger(__name__)

_LAST_COMMIT_MS: Final = 10_000
"""Longest commit of partitions that are given up. Heartbeats and ``shutdown`` wait for it."""
_REQUEST_MS: Final = 5_000
"""Longest other request in the member's thread. It is repeated later."""
_SHORTEST_INTERVAL_MS: Final = 10
"""Between two automatic commits, also if ``auto.commit.interval.ms`` is less."""
_REQUESTS_PER_SESSION: Final = 4
"""The member's thread sends a heartbeat between two or three requests."""
_AGAIN: Final = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.STALE_MEMBER_EPOCH})
"""Errors of a commit whose member gets another generation soon."""
_UNREACHABLE: Final = frozenset({ErrorCode.NETWORK_EXCEPTION})
"""Of a commit in ZooKeeper. Commits at coordinators are repeated by the request itself."""
_LOST: Final = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
    }
)


class StreamReader:
    """The streams of a consumer as `Reader` of its member.

    ``streams_of`` returns the streams of a topic. ``identity``: that of the member now.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        streams: Sequence[StreamPartitions],
        streams_of: Callable[[str], Sequence[StreamPartitions]],
        identity: Callable[[], MemberIdentity],
        offsets: OffsetStorage,
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._streams = streams
        self._streams_of = streams_of
        self._identity = identity
        self._offsets = offsets
        self._commit_interval_s = max(config.auto_commit_interval_ms, _SHORTEST_INTERVAL_MS) / 1000
        self._request_ms = min(_REQUEST_MS, config.session_timeout_ms / _REQUESTS_PER_SESSION)
        self._last_commit_ms = min(_LAST_COMMIT_MS, config.client.default_api_timeout_ms)
        self._committed: dict[TopicPartition, int] = {}
        """What was committed last, or found, since each partition was assigned."""
        self._began: dict[TopicPartition, int] = {}
        """The offset at which each partition began, or where ``auto.offset.reset`` continued."""
        self._pending: dict[TopicPartition, int | None] = {}
        """Assigned partitions for which no offset to begin at was found yet, and the streams that ``assign`` named."""
        self._pending_at = math.inf
        self._pending_backoff = cluster.backoff()
        self._missed: dict[TopicPartition, int] = {}
        """Offsets that were not committed before their partitions were removed, since the last ``commit``."""
        self._lock = threading.RLock()
        """Of what is committed and what is missed."""
        self._commit_lock = threading.RLock()
        """One commit at a time, because an earlier one that arrives later would take offsets back."""
        self._commit_at = math.inf
        self._in_process: dict[StreamPartitions, tuple[ConsumerRecord, float]] = {}
        """The record that each stream processes, and since when it is known."""
        self._stalled: list[ConsumerRecord] = []

    # --- Reader

    @property
    def owned(self) -> list[TopicPartition]:
        """As ``Reader.owned``."""
        return [*(partition for stream in self._streams for partition in stream.assigned), *list(self._pending)]

    def assign(
        self, partitions: Collection[TopicPartition], streams: Mapping[TopicPartition, int] | None = None
    ) -> None:
        """As ``Reader.assign``."""
        if not partitions:
            return
        starts = self._offsets.fetch(partitions, timeout_ms=self._request_ms)
        resets, errors = self._resets([partition for partition in partitions if partition not in starts])
        numbers = dict.fromkeys(partitions) if streams is None else {part: streams[part] for part in partitions}
        self._begin(starts | resets, numbers)
        if errors:
            self._pending.update((partition, numbers[partition]) for partition in errors)
            self._pending_backoff.reset()
            self._pending_at = time.monotonic() + self._pending_backoff.next_ms() / 1000
            text = "group %s: trying again to find offsets at which %s can begin: %s"
            _log.warning(text, self._config.group_id, listed(errors), next(iter(errors.values())))
        if self._commit_at == math.inf:
            self._commit_at = time.monotonic() + self._commit_interval_s

    def begin_pending(self, now: float) -> float:
        """As ``Reader.begin_pending``."""
        if self._pending and now >= self._pending_at:
            found, _ = self._resets(self._pending)
            self._begin(found, {partition: self._pending.pop(partition) for partition in found})
            self._pending_at = time.monotonic() + self._pending_backoff.next_ms() / 1000
        return self._pending_at if self._pending else math.inf

    def stop(self, partitions: Collection[TopicPartition]) -> None:
        """As ``Reader.stop``."""
        for stream in self._streams:
            stream.stop(partitions)

    def is_stopped(self, partitions: Collection[TopicPartition]) -> bool:
        """As ``Reader.is_stopped``."""
        return not any(stream.is_processing(partitions) for stream in self._streams)

    def commit_and_remove(self, partitions: Collection[TopicPartition]) -> None:
        """As ``Reader.commit_and_remove``."""
        if self._config.enable_auto_commit:
            self._commit_automatically(partitions, self._last_commit_ms, wait_ms=self._last_commit_ms)
        self._forget(partitions)

    def lose(self, partitions: Collection[TopicPartition]) -> None:
        """As ``Reader.lose``."""
        self._forget(partitions)

    def commit_if_due(self, now: float) -> float:
        """As ``Reader.commit_if_due``."""
        if not self._config.enable_auto_commit:
            return math.inf
        if now >= self._commit_at:
            self._commit_automatically(self.owned, self._request_ms, wait_ms=0)
            self._commit_at = time.monotonic() + self._commit_interval_s
            for stream in self._streams:
                stream.wake()
        return self._commit_at

    def is_stalled(self, now: float) -> bool:
        """As ``Reader.is_stalled``."""
        found: dict[StreamPartitions, tuple[ConsumerRecord, float]] = {}
        for stream in self._streams:
            current = stream.current
            if current is None:
                continue
            known = self._in_process.get(stream)
            found[stream] = known if known is not None and known[0] is current else (current, now)
        self._in_process = found
        limit_s = self._config.max_poll_interval_ms / 1000
        self._stalled = [record for record, since in found.values() if now - since > limit_s]
        return bool(self._stalled)

    @property
    def stalled(self) -> str:
        """As ``Reader.stalled``."""
        return listed(f"{each.topic}-{each.partition}, offset {each.offset}" for each in self._stalled)

    # --- commits

    def acknowledge(self, thread: threading.Thread) -> None:
        """Commit from now on as if the records that a thread processes were processed."""
        for stream in self._streams:
            stream.acknowledge(thread)

    def commit(self, *, timeout_ms: float) -> None:
        """Commit the offsets after the processed records, and after those that this thread processes.

        Raises CommitFailed: the group has given partitions to other members; KafkaError.
        """
        self.acknowledge(threading.current_thread())
        deadline = self._cluster.deadline(timeout_ms)
        backoff = self._cluster.backoff()
        while True:
            identity = self._identity()
            try:
                self._commit(self.owned, identity, deadline, wait_ms=deadline.remaining_ms)
                break
            except KafkaError as error:
                is_renewed = identity != self._identity()
                if error.code in _LOST and not is_renewed:
                    raise CommitFailed(
                        f"group {self._config.group_id}: offsets were not committed, because the member is no longer "
                        f"in the group; its partitions are read again from their committed offsets on: {error}"
                    ) from error
                if error.code not in _AGAIN | _LOST | _UNREACHABLE or not deadline.pause(backoff.next_ms()):
                    raise
        missed, self._missed = self._missed, {}
        if missed:
            raise CommitFailed(
                f"group {self._config.group_id}: the offsets of {listed(missed)} were not committed before the group "
                "gave these partitions to other members; they are read again from their committed offsets on"
            )

    def reset(self, partition: TopicPartition) -> int:
        """The offset at which a partition begins by ``auto.offset.reset``. Raises NoOffset; KafkaError."""
        deadline, backoff = self._cluster.deadline(self._request_ms), self._cluster.backoff()
        while (found := self._resets([partition]))[1]:
            if not deadline.pause(backoff.next_ms()):
                (error,) = found[1].values()
                raise KafkaError(error.code, error.detail) from error  # to be retried, also if it is NoSuchPartition
        offset = found[0][partition]
        self._committed.pop(partition, None)  # brokers delete the committed offsets of a topic that is deleted
        self._began[partition] = offset
        return offset

    # --- inside

    def _forget(self, partitions: Collection[TopicPartition]) -> None:
        for partition in partitions:
            self._pending.pop(partition, None)
        for stream in self._streams:
            with self._lock:
                for partition, offset in stream.remove(partitions).items():
                    known = self._committed.pop(partition, None), self._began.pop(partition, None)
                    if offset not in known:
                        self._missed[partition] = offset

    def _commit_automatically(
        self, partitions: Collection[TopicPartition], timeout_ms: float, *, wait_ms: float
    ) -> None:
        """``wait_ms``: longest wait for another commit."""
        try:
            self._commit(partitions, self._identity(), self._cluster.deadline(timeout_ms), wait_ms=wait_ms)
        except KafkaError as error:
            _log.warning("group %s: offsets were not committed: %s", self._config.group_id, error)

    def _commit(
        self,
        partitions: Collection[TopicPartition],
        identity: MemberIdentity,
        deadline: Deadline,
        *,
        wait_ms: float,
    ) -> None:
        """``identity``: that of the member before the offsets are read, so that other members' are not committed.

        ``wait_ms``: longest wait for another commit. Raises KafkaError.
        """
        if not self._commit_lock.acquire(timeout=wait_ms / 1000):
            detail = f"group {self._config.group_id}: another commit has not ended within {round(wait_ms)} ms"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, detail)
        try:
            missed_before = dict(self._missed)
            offsets = self._uncommitted(partitions)
            if offsets:
                self._offsets.commit(offsets, identity, timeout_ms=deadline.remaining_ms)
                with self._lock:
                    self._committed.update((part, offsets[part]) for part in offsets.keys() & set(self.owned))
                    self._missed = missed_before | dict(self._missed.items() - offsets.items())
        finally:
            self._commit_lock.release()

    def _uncommitted(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The next offsets to process that are to be committed."""
        wanted = set(partitions)
        return {
            partition: offset
            for stream in self._streams
            for partition, offset in stream.positions.items()
            if partition in wanted and self._committed.get(partition) != offset
        }

    def _begin(self, starts: Mapping[TopicPartition, int], numbers: Mapping[TopicPartition, int | None]) -> None:
        """Let streams read partitions; ``numbers``: which of the streams of its topic, None: that with the fewest."""
        self._began.update(starts)
        added: dict[StreamPartitions, dict[TopicPartition, int]] = {}
        loads = {stream: len(stream.assigned) for stream in self._streams}
        for partition in sorted(starts):
            able, number = self._streams_of(partition.topic), numbers[partition]
            stream = min(able, key=loads.__getitem__) if number is None else able[number]
            loads[stream] += 1
            added.setdefault(stream, {})[partition] = starts[partition]
        for stream, offsets in added.items():
            stream.assign(offsets)

    def _resets(
        self, partitions: Collection[TopicPartition]
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, KafkaError]]:
        """Where ``auto.offset.reset`` begins, and the errors of partitions that may be retried: one request per broker.

        These have no leader now, or do not exist yet in the broker's metadata. Raises NoOffset; KafkaError.
        """
        if not partitions:
            return {}, {}
        position = self._config.auto_offset_reset
        if position is None:
            raise NoOffset(self._config.group_id, sorted(map(str, partitions)))
        deadline = self._cluster.deadline(self._request_ms)
        results = list_once(self._cluster, dict.fromkeys(partitions, position), deadline)
        errors = {partition: each for partition, each in results.items() if isinstance(each, KafkaError)}
        for error in errors.values():
            if not is_transient(error) and not isinstance(error, NoSuchPartition):
                raise error
        return {part: each.offset for part, each in results.items() if not isinstance(each, KafkaError)}, errors
