"""A stream of partitions that a group assigns to a mirror, whose batches go to the target cluster."""

import dataclasses
import functools
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.consumer.cursor import PartitionRange
from spark_kafka_native._client.consumer.fetcher import Fetcher
from spark_kafka_native._client.consumer.sources import Wakeup
from spark_kafka_native._client.groups.membership import MemberIdentity
from spark_kafka_native._mirror.deliveries import Delivery, Unsettled
from spark_kafka_native._mirror.target_topics import TargetTopics
from spark_kafka_native._protocol.errors import KafkaError, RestatedError
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._record_clients.consumer.assigned_fetches import AssignedFetches
from spark_kafka_native._record_clients.records import ConsumerRecord
from spark_kafka_native._records.arrow.encode import EncodedBatch
from spark_kafka_native._records.arrow.forward import forward

_log = logging.getLogger(__name__)

_LONGEST_WAIT_S: Final = 60.0


@dataclasses.dataclass(slots=True)
class MirrorMetrics:
    """Counters of one stream, from its start, of what was settled."""

    records: int = 0
    batches: int = 0
    bytes_sent: int = 0

    def count(self, batches: Sequence[EncodedBatch]) -> None:
        """Count batches."""
        self.records += sum(batch.records_count for batch in batches)
        self.batches += len(batches)
        self.bytes_sent += sum(len(batch.buffer) for batch in batches)

    def add(self, others: "MirrorMetrics") -> None:
        """Add what another one has counted."""
        self.records += others.records
        self.batches += others.batches
        self.bytes_sent += others.bytes_sent


class DeliveryFailed(RestatedError):
    """The target could not be written to. What was not settled is copied again by the next run of the mirror."""

    _retriable = False

    def __init__(self, error: KafkaError) -> None:
        self.error = error
        super().__init__(error.code, f"the target cluster: {error}")


class ForwardingStream:
    """The assigned partitions of one thread of a mirror, which calls ``run``.

    ``positions`` are settled: the target has the records before them. What was sent since is pending.
    """

    def __init__(
        self,
        cluster: Cluster,
        reset: Callable[[TopicPartition], int],
        wake: Callable[[], None],
        *,
        max_batch_bytes: int,
        settle_interval_s: float,
        aborts: bool,
    ) -> None:
        """``reset`` and ``wake``: see ``StreamFactory``. ``max_batch_bytes``: of batches that are encoded again.

        ``settle_interval_s``: the longest time between two settlements while there are records. ``aborts``: whether a
        failed delivery ends ``run``, instead of being tried again.
        """
        make_fetcher = functools.partial(_fetcher_of, max_batch_bytes=max_batch_bytes)
        self._fetches: AssignedFetches[list[EncodedBatch]] = AssignedFetches(cluster, make_fetcher, reset)
        self._lock = self._fetches.lock
        self._wake_member = wake
        self._settle_interval_s = settle_interval_s
        self._settle_at = 0.0
        self._aborts = aborts
        self._backoff = cluster.backoff()
        self._stopped = self._fetches.stopped
        self._pending: dict[TopicPartition, int] = {}
        """The next offset after what was sent of each partition since the last settlement."""
        self._has_lost_pending = False
        """Whether pending records were of a partition that another member has by now."""
        self._sent = MirrorMetrics()
        """What is pending."""
        self._failure: Exception | None = None
        self._is_ending = False
        self.metrics = MirrorMetrics()

    # --- the thread of the stream

    def run(
        self,
        delivery: Delivery,
        topics: TargetTopics,
        identity: Callable[[], MemberIdentity],
        committed: Callable[[Collection[TopicPartition]], Mapping[TopicPartition, int]],
    ) -> None:
        """Forward until ``end``, and settle what was sent.

        ``identity``: that of the member now. ``committed``: the offsets that count after a transaction that failed.
        Errors that may pass are logged, and tried again without end. Raises DeliveryFailed; KafkaError: another attempt
        cannot help; the error of the member.
        """
        must_send_again = False
        try:
            while self._is_running():
                try:
                    if must_send_again:
                        self._send_again(delivery, committed)
                        must_send_again = False
                    self._step(delivery, topics, identity)
                except Unsettled:
                    must_send_again = True
                except KafkaError as error:
                    if not error.retriable:
                        raise
                    _log.warning("%s; the mirror tries again", error)
                    self._pause()
        finally:
            self._fetches.close()

    def _is_running(self) -> bool:
        with self._lock:
            if self._failure is not None:
                raise self._failure
            return bool(self._pending) or not self._is_ending

    def _step(self, delivery: Delivery, topics: TargetTopics, identity: Callable[[], MemberIdentity]) -> None:
        """Forward the next batches, or settle, or wait. Raises as ``run``; Unsettled."""
        if self._is_ending:
            self._settle(delivery, topics, identity)
            return
        with self._lock:
            self._fetches.apply_changes()
            wait_s = delivery.idle_s if self._pending else _LONGEST_WAIT_S
        found = self._fetches.next(time.monotonic() + wait_s)
        if found is None and not self._pending:
            self._fetches.advance()
        elif found is not None:
            self._send(*found, delivery, topics)
        with self._lock:
            self._fetches.may_lack_records = False
            is_due = found is None or time.monotonic() >= self._settle_at or self._stopped & self._pending.keys()
        if self._pending and is_due:
            self._settle(delivery, topics, identity)

    def _send(
        self, partition: TopicPartition, batches: list[EncodedBatch], delivery: Delivery, topics: TargetTopics
    ) -> None:
        with self._lock:
            if not self._fetches.is_wanted(partition):
                return
            if not self._pending:
                self._settle_at = time.monotonic() + self._settle_interval_s
            self._pending[partition] = self._fetches.position(partition)
        self._sent.count(batches)
        with self._delivering():
            delivery.send(topics.prepare(partition), batches)

    def _settle(self, delivery: Delivery, topics: TargetTopics, identity: Callable[[], MemberIdentity]) -> None:
        with self._lock:
            if self._has_lost_pending and delivery.is_transactional:
                raise Unsettled
            offsets, member = dict(self._pending), identity()
        with self._delivering():
            delivery.settle({topics.renamed(partition): offset for partition, offset in offsets.items()}, member)
        self._backoff.reset()
        with self._lock:
            self._fetches.positions.update((part, offset) for part, offset in offsets.items() if part in self._pending)
            self._forget_pending()
            self.metrics.add(self._sent)
            self._sent = MirrorMetrics()
        self._wake_member()

    def _send_again(
        self,
        delivery: Delivery,
        committed: Callable[[Collection[TopicPartition]], Mapping[TopicPartition, int]],
    ) -> None:
        """Fetch again what was sent since the last settlement. Raises KafkaError."""
        with self._delivering():
            delivery.discard()
        offsets = committed(list(self._pending))
        with self._lock:
            positions = self._fetches.positions
            again = {part: offsets.get(part, positions[part]) for part in self._pending if part in positions}
            self._forget_pending()
            self._sent = MirrorMetrics()
        self._fetches.assign(again)
        self._wake_member()

    @contextmanager
    def _delivering(self) -> Iterator[None]:
        """Raise DeliveryFailed, or Unsettled after a pause, if the target cannot be written to."""
        try:
            yield
        except KafkaError as error:
            if self._aborts or not error.code.retriable:
                raise DeliveryFailed(error) from error
            _log.warning("the target cluster: %s; the records are sent again", error)
            self._pause()
            raise Unsettled from error

    def _pause(self) -> None:
        time.sleep(self._backoff.next_ms() / 1000)

    def _forget_pending(self) -> None:
        self._pending.clear()
        self._has_lost_pending = False

    # --- other threads: see `AssignedStream`

    @property
    def assigned(self) -> list[TopicPartition]:
        """The assigned partitions."""
        return list(self._fetches.positions)

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The offsets before which the target has all records of each partition."""
        with self._lock:
            return dict(self._fetches.positions)

    @property
    def in_process(self) -> ConsumerRecord | None:
        """None, because no record takes long."""
        return None

    @property
    def is_unread(self) -> bool:
        """False, because a thread reads the stream."""
        return False

    def assign(self, offsets: Mapping[TopicPartition, int]) -> None:
        """As ``AssignedStream.assign``."""
        self._fetches.assign(offsets)

    def stop(self, partitions: Collection[TopicPartition]) -> None:
        """As ``AssignedStream.stop``."""
        with self._lock:
            self._stopped.update(self._fetches.positions.keys() & partitions)
        self.wake()

    def is_processing(self, partitions: Collection[TopicPartition]) -> bool:
        """Whether records of these partitions are not settled."""
        with self._lock:
            return not self._pending.keys().isdisjoint(partitions)

    def remove(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """As ``AssignedStream.remove``."""
        with self._lock:
            removed = self._fetches.positions.keys() & partitions
            pending = {part: self._pending.pop(part) for part in self._pending.keys() & removed}
            self._has_lost_pending |= bool(pending)
            self._fetches.remove(removed)
        return pending

    def acknowledge(self, thread: threading.Thread) -> None:
        """Nothing, because what is pending is not settled."""

    def wake(self) -> None:
        """As ``AssignedStream.wake``."""
        self._fetches.wake()

    def fail(self, error: Exception) -> None:
        """Let ``run`` raise an error."""
        with self._lock:
            self._failure = error
        self.wake()

    def end(self) -> None:
        """Let ``run`` settle what was sent, and return. Takes no lock: a handler of a signal may call it."""
        self._is_ending = True
        self.wake()

    def close(self) -> None:
        """As ``end``; ``run`` releases connections and descriptors."""
        self.end()


def _fetcher_of(
    cluster: Cluster,
    ranges: Collection[PartitionRange],
    timeout_ms: float,
    wakeup: Wakeup,
    *,
    max_batch_bytes: int,
) -> Fetcher[list[EncodedBatch]]:
    decode = functools.partial(forward, max_batch_bytes=max_batch_bytes)
    return Fetcher(cluster, ranges, decode=decode, timeout_ms=timeout_ms, wakeup=wakeup)
