"""Which stream reads which partition of a member, from which offset on."""

import logging
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, Generic, TypeVar

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.consumer.offsets import list_once
from spark_kafka_native._client.errors import NoSuchPartition
from spark_kafka_native._client.groups.membership import MemberIdentity
from spark_kafka_native._client.groups.offset_storage import OffsetStorage
from spark_kafka_native._client.groups.topic_filters import TopicFilter
from spark_kafka_native._client.retry import is_transient
from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._protocol.topic import TopicPartition, listed
from spark_kafka_native._record_clients.consumer.assigned_stream import AssignedStream
from spark_kafka_native._record_clients.consumer.commits import OffsetCommits
from spark_kafka_native._record_clients.consumer.group_config import ConsumerConfig
from spark_kafka_native._record_clients.consumer.rebalance_listener import RebalanceListener, call
from spark_kafka_native._record_clients.errors import NoOffset
from spark_kafka_native._record_clients.records import ConsumerRecord

_log = logging.getLogger(__name__)

S = TypeVar("S", bound=AssignedStream)

_LONGEST_REQUEST_MS: Final = 5_000
"""Of requests in the member's thread that are repeated later, and of commits of a group in ZooKeeper."""
_REQUESTS_PER_SESSION: Final = 4
"""A request in the member's thread takes at most this part of ``session.timeout.ms``, so that heartbeats are sent."""

Topics = Mapping[str, int] | TopicFilter
"""So many streams for each topic, or the topics that a filter accepts."""


class StreamReader(Generic[S]):
    """The streams of a consumer as `Reader` of its member. ``reset`` is for the threads of streams."""

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        topics: Topics,
        streams: int,
        storage: OffsetStorage,
        identity: Callable[[], MemberIdentity],
        make_stream: Callable[[Callable[[TopicPartition], int]], S],
        listener: RebalanceListener,
    ) -> None:
        """``streams``: how many, with a filter. ``identity``: that of the member now.

        ``make_stream``: from what returns the offset at which to continue where a position has no records. Raises
        OSError: the process has no descriptors left.
        """
        self._cluster = cluster
        self._config = config
        self._storage = storage
        self._listener = listener
        self._request_ms = longest_request_ms(config)
        self._of_topics: Mapping[str, Sequence[S]] | None = None

        def made(count: int) -> list[S]:
            return [make_stream(self.reset) for _ in range(count)]

        if isinstance(topics, TopicFilter):
            self.streams = made(streams)
        else:
            self._of_topics = {topic: made(count) for topic, count in topics.items()}
            self.streams = [stream for of_topic in self._of_topics.values() for stream in of_topic]
        self.commits = OffsetCommits(cluster, config, self.streams, storage, identity)
        self._pending: dict[TopicPartition, int | None] = {}
        """Assigned partitions for which no offset to begin at was found yet, and the streams that ``assign`` named."""
        self._pending_at = math.inf
        self._pending_backoff = cluster.backoff()
        self._unread_at = math.inf
        """When to warn of streams that no thread reads; infinite: not now, or already done."""
        self._has_warned_of_unread = False
        self._in_process: dict[S, tuple[ConsumerRecord, float]] = {}
        """The record that each stream processes, and since when it is known."""
        self._stalled: list[ConsumerRecord] = []

    def streams_of(self, topic: str) -> Sequence[S]:
        """The streams that read a topic."""
        return self.streams if self._of_topics is None else self._of_topics[topic]

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The committed offsets of the partitions that have one. For any thread. Raises KafkaError."""
        return self._storage.fetch(partitions, timeout_ms=self._request_ms)

    # --- Reader

    @property
    def owned(self) -> list[TopicPartition]:
        """As ``Reader.owned``."""
        return [*(partition for stream in self.streams for partition in stream.assigned), *list(self._pending)]

    def assign(
        self, partitions: Collection[TopicPartition], streams: Mapping[TopicPartition, int] | None = None
    ) -> None:
        """As ``Reader.assign``."""
        if not partitions:
            return
        starts = self._storage.fetch(partitions, timeout_ms=self._request_ms)
        resets, errors = self._resets([partition for partition in partitions if partition not in starts])
        call(self._listener.on_partitions_assigned, partitions)
        numbers = dict.fromkeys(partitions) if streams is None else {part: streams[part] for part in partitions}
        self._begin(starts | resets, numbers)
        if errors:
            self._pending.update((partition, numbers[partition]) for partition in errors)
            self._pending_backoff.reset()
            self._pending_at = time.monotonic() + self._pending_backoff.next_ms() / 1000
            text = "group %s: no offset to begin at yet for %s, which is tried again: %s"
            _log.warning(text, self._config.group_id, listed(errors), next(iter(errors.values())))
        self.commits.begin()

    def begin_pending(self, now: float) -> float:
        """As ``Reader.begin_pending``."""
        if self._pending and now >= self._pending_at:
            found, _ = self._resets(self._pending)
            self._begin(found, {partition: self._pending.pop(partition) for partition in found})
            self._pending_at = time.monotonic() + self._pending_backoff.next_ms() / 1000
        return self._pending_at if self._pending else math.inf

    def stop(self, partitions: Collection[TopicPartition]) -> None:
        """As ``Reader.stop``."""
        for stream in self.streams:
            stream.stop(partitions)

    def is_stopped(self, partitions: Collection[TopicPartition]) -> bool:
        """As ``Reader.is_stopped``."""
        return not any(stream.is_processing(partitions) for stream in self.streams)

    def commit_and_remove(self, partitions: Collection[TopicPartition]) -> None:
        """As ``Reader.commit_and_remove``."""
        try:
            call(self._listener.on_partitions_revoked, partitions)
        finally:
            self.commits.commit_last(partitions)
            self._remove(partitions)

    def lose(self, partitions: Collection[TopicPartition]) -> None:
        """As ``Reader.lose``."""
        self._remove(partitions)
        call(self._listener.on_partitions_lost, partitions)

    def commit_if_due(self, now: float) -> float:
        """As ``Reader.commit_if_due``."""
        self._warn_of_unread(now)
        return min(self.commits.commit_if_due(now, timeout_ms=self._request_ms), self._unread_at)

    def is_stalled(self, now: float) -> bool:
        """As ``Reader.is_stalled``."""
        found: dict[S, tuple[ConsumerRecord, float]] = {}
        for stream in self.streams:
            record = stream.in_process
            if record is None:
                continue
            known = self._in_process.get(stream)
            found[stream] = known if known is not None and known[0] is record else (record, now)
        self._in_process = found
        limit_s = self._config.max_poll_interval_ms / 1000
        self._stalled = [record for record, since in found.values() if now - since > limit_s]
        return bool(self._stalled)

    @property
    def stalled(self) -> str:
        """As ``Reader.stalled``."""
        return listed(f"{each.topic}-{each.partition}, offset {each.offset}" for each in self._stalled)

    # --- the threads of streams

    def reset(self, partition: TopicPartition) -> int:
        """The offset at which a partition begins by ``auto.offset.reset``. Raises NoOffset; KafkaError."""
        deadline, backoff = self._cluster.deadline(self._request_ms), self._cluster.backoff()
        while (found := self._resets([partition]))[1]:
            if not deadline.pause(backoff.next_ms()):
                (error,) = found[1].values()
                raise KafkaError(error.code, error.detail) from error  # to be retried, also if it is NoSuchPartition
        offset = found[0][partition]
        self.commits.forget(partition)
        return offset

    # --- inside

    def _warn_of_unread(self, now: float) -> None:
        """Warn once if streams have partitions, and no record of them is requested within ``max.poll.interval.ms``."""
        unread = [stream for stream in self.streams if stream.is_unread]
        if not unread or self._has_warned_of_unread:
            self._unread_at = math.inf
        elif self._unread_at == math.inf:
            self._unread_at = now + self._config.max_poll_interval_ms / 1000
        elif now >= self._unread_at:
            self._unread_at, self._has_warned_of_unread = math.inf, True
            text = "group %s: %s of %d streams have partitions, but no thread has requested a record of them: %s"
            partitions = sorted(partition for stream in unread for partition in stream.assigned)
            _log.warning(text, self._config.group_id, len(unread), len(self.streams), listed(partitions))

    def _remove(self, partitions: Collection[TopicPartition]) -> None:
        for partition in partitions:
            self._pending.pop(partition, None)
        self.commits.remove(partitions)

    def _begin(self, starts: Mapping[TopicPartition, int], numbers: Mapping[TopicPartition, int | None]) -> None:
        """Let streams read partitions; ``numbers``: which of the streams of its topic, None: that with the fewest."""
        added: dict[S, dict[TopicPartition, int]] = {}
        loads = {stream: len(stream.assigned) for stream in self.streams}
        for partition in sorted(starts):
            able, number = self.streams_of(partition.topic), numbers[partition]
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


def longest_request_ms(config: ConsumerConfig) -> float:
    """Of a request in the member's thread, which sends heartbeats between requests."""
    of_session_ms = config.session_timeout_ms / _REQUESTS_PER_SESSION
    return min(_LONGEST_REQUEST_MS, config.client.default_api_timeout_ms, of_session_ms)
