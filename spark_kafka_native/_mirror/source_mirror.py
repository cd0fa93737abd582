"""A mirror of the topics of one source cluster."""

import logging
import threading
import uuid
from collections.abc import Callable, Collection, Mapping

from spark_kafka_native._client.admin.committed_offsets import fetch_offsets
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.consumer.offsets import EARLIEST, LATEST, offsets_at
from spark_kafka_native._client.groups.membership import MemberIdentity
from spark_kafka_native._client.producer.encoding import max_batch_bytes
from spark_kafka_native._mirror.config import MirrorConfig, SourceConfig
from spark_kafka_native._mirror.deliveries import AtLeastOnce, Delivery, ExactlyOnce
from spark_kafka_native._mirror.forwarding_stream import ForwardingStream, MirrorMetrics
from spark_kafka_native._mirror.target_topics import TargetTopics
from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._record_clients.consumer.member_thread import ConsumerMember, GroupElsewhere

_log = logging.getLogger(__name__)


class TransactionOffsets:
    """An `OffsetStorage` at the target: transactions commit the offsets, under the names of the target's topics."""

    def __init__(self, target: Cluster, source: SourceConfig) -> None:
        self._target = target
        self._group_id = source.group_id
        self._prefix = source.prefix

    def fetch(self, partitions: Collection[TopicPartition], *, timeout_ms: float) -> dict[TopicPartition, int]:
        """As ``OffsetStorage.fetch``, once no transaction with offsets is open."""
        sources = {TopicPartition(self._prefix + part.topic, part.partition): part for part in partitions}
        found = fetch_offsets(self._target, self._group_id, sources, require_stable=True, timeout_ms=timeout_ms)
        return {sources[partition]: each.offset for partition, each in found.items()}

    def commit(
        self,
        offsets: Mapping[TopicPartition, int],  # noqa: ARG002 -- as said above
        identity: MemberIdentity,  # noqa: ARG002 -- as said above
        *,
        timeout_ms: float,  # noqa: ARG002 -- as said above
    ) -> dict[TopicPartition, KafkaError]:
        """Nothing: the offsets of settled records are committed already."""
        return {}


class SourceMirror:
    """Copies the topics of one source, as one member of its group. ``failed`` is called with an error of a thread."""

    def __init__(
        self, source: SourceConfig, config: MirrorConfig, target: Cluster, failed: Callable[[Exception], None]
    ) -> None:
        """Begin. Raises OSError: the process has no descriptors left."""
        self._source = source
        self._config = config
        self._target = target
        self._failed = failed
        group = None
        if config.exactly_once:
            group = GroupElsewhere(cluster=target, storage=TransactionOffsets(target, source))
        self._topics: TargetTopics | None = None
        self._cluster: Cluster
        self._member = ConsumerMember(source.consumer, config.topics, config.streams, self._make_stream, group=group)
        self._threads = [
            threading.Thread(target=self._forward, args=(stream, number), name=f"mirror-{source.group_id}-{number}")
            for number, stream in enumerate(self._member.reader.streams)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def metrics(self) -> MirrorMetrics:
        """What the target has acknowledged, from the start."""
        total = MirrorMetrics()
        for stream in self._member.reader.streams:
            total.add(stream.metrics)
        return total

    def ends(self) -> dict[TopicPartition, int]:
        """The ends of all partitions that the group of the mirror copies, now. Raises KafkaError."""
        metadata = self._cluster.metadata(None)
        excludes = self._source.consumer.exclude_internal_topics
        topics = {
            name: topic
            for name, topic in metadata.topics.items()
            if self._config.topics.accepts(name) and not (excludes and topic.internal)
        }
        partitions = [TopicPartition(name, number) for name, topic in topics.items() for number in topic.partitions]
        return offsets_at(self._cluster, dict.fromkeys(metadata.leaders(partitions), LATEST))

    def remaining(self, ends: Mapping[TopicPartition, int]) -> int:
        """The offsets before ``ends`` that no member of the group has settled, as far as it is committed.

        Raises KafkaError.
        """
        reader = self._member.reader
        positions = dict(reader.committed(list(ends)))
        for stream in reader.streams:
            for partition, offset in stream.positions.items():
                positions[partition] = max(offset, positions.get(partition, offset))
        missing = dict.fromkeys(ends.keys() - positions.keys(), self._source.consumer.auto_offset_reset or EARLIEST)
        positions |= offsets_at(self._cluster, missing) if missing else {}
        return sum(max(end - positions.get(partition, end), 0) for partition, end in ends.items())

    def close(self) -> None:
        """Settle what was sent, commit the offsets, and leave the group."""
        for stream in self._member.reader.streams:
            stream.end()
        for thread in self._threads:
            thread.join()
        self._member.stop()
        self._member.join()

    def _make_stream(
        self, cluster: Cluster, reset: Callable[[TopicPartition], int], wake: Callable[[], None]
    ) -> ForwardingStream:
        if self._topics is None:
            config = self._config
            self._cluster = cluster
            self._topics = TargetTopics(
                cluster,
                self._target,
                prefix=self._source.prefix,
                creates=config.creates_topics,
                replication_factor=config.replication_factor,
            )
        return ForwardingStream(
            cluster,
            reset,
            wake,
            max_batch_bytes=max_batch_bytes(self._config.target),
            settle_interval_s=self._source.consumer.auto_commit_interval_ms / 1000,
            aborts=self._config.aborts_on_send_failure,
        )

    def _forward(self, stream: ForwardingStream, number: int) -> None:
        assert self._topics is not None
        try:
            delivery = self._delivery(number)
            try:
                stream.run(delivery, self._topics, lambda: self._member.identity, self._member.reader.committed)
            finally:
                delivery.close()
        except Exception as error:  # reported by the thread that waits
            self._failed(error)

    def _delivery(self, number: int) -> Delivery:
        if not self._config.exactly_once:
            return AtLeastOnce(self._target)
        # A given id lets a restart end the last transaction at once, instead of after transaction.timeout.ms.
        given = self._config.target.transactional_id
        name = f"{given or uuid.uuid4()}-{self._source.group_id}-{number}"
        return ExactlyOnce(self._target, self._source.group_id, name, is_unique=not given)
