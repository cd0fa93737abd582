"""The partitions that this broker leads, found by name or id."""

from dataclasses import dataclass
from uuid import UUID

from broker_embedded._config.settings import INT_MAX, LONG_MAX
from broker_embedded._log.append.incoming import FROM_CLIENT, AppendConditions
from broker_embedded._log.append.validation import inspects_records
from broker_embedded._log.appender import AppendResult
from broker_embedded._log.log import Log
from broker_embedded._log.manager import LogManager
from broker_embedded._metadata.image import EMPTY_IMAGE, ClusterImage, PartitionImage, TopicImage
from broker_embedded._metrics.snapshot import PartitionMetrics
from broker_embedded._metrics.traffic import TopicTraffic, Traffic
from broker_embedded._platform.cancellation import NEVER_CANCELLED, Cancellation
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._records.batch import BatchHeader, CompressionType

_ANY_EPOCH = -1
_LONG_WORK_BYTES = 16 * 1024
"""Uncompressed records of this size take a few milliseconds to inspect in plain Python."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalPartition:
    """A partition with its log here.

    ``in_sync`` counts its in-sync replicas, the leader included. ``min_isr_at_most`` bounds ``min.insync.replicas``.
    """

    id: TopicPartition
    topic_id: UUID
    leader_epoch: int
    in_sync: int
    min_isr_at_most: int
    log: Log
    traffic: TopicTraffic

    def check_leader_epoch(self, claimed: int) -> None:
        """Raise KafkaError unless a client's leader epoch is the present one, or -1 for none (KIP-320)."""
        if claimed in {_ANY_EPOCH, self.leader_epoch}:
            return
        code = ErrorCode.FENCED_LEADER_EPOCH if claimed < self.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH
        raise KafkaError(code, f"{self.id} has leader epoch {self.leader_epoch}, not {claimed}")

    def check_replicas(self) -> None:
        """Raise KafkaError unless there are min.insync.replicas in-sync replicas for an append with acks=all."""
        wanted = min(self.log.config.min_insync_replicas, self.min_isr_at_most)
        if self.in_sync < wanted:
            detail = f"{self.id} has {self.in_sync} in-sync replicas, but min.insync.replicas is {wanted}"
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, detail)

    def append(
        self,
        batch: bytearray | memoryview,
        conditions: AppendConditions = FROM_CLIENT,
        cancellation: Cancellation = NEVER_CANCELLED,
    ) -> AppendResult:
        """Append one batch, which is changed in place. The caller notifies `DelayedOperations`. May run in any thread.

        Raises KafkaError, WorkCancelled; nothing was appended then.
        """
        result = self.log.append(
            batch, leader_epoch=self.leader_epoch, conditions=conditions, cancellation=cancellation
        )
        if not result.duplicate:
            self.traffic.appended(len(batch), result.last_offset - result.base_offset + 1)
        return result

    def inspects_on_append(self, records: memoryview, header: BatchHeader | None, now_ms: int) -> bool:
        """Whether an append may inspect each record, so that it must not run on the event loop.

        ``header`` is None for a message set. A compressed batch of any size can take long. In a log of format v0
        any append can, because it may wait for another append that compresses messages under the log's lock.
        """
        if header is None or not self.log.config.record_magic:
            return True
        if header.compression is CompressionType.NONE and len(records) < _LONG_WORK_BYTES:
            return False
        return inspects_records(header, self.log.config, now_ms)

    @property
    def flushes_on_append(self) -> bool:
        """Whether an append may wait for the disk, because flush.messages is set."""
        return self.log.config.flush_messages < LONG_MAX


class Partitions:
    """Every partition of the present image that has a log in this broker."""

    def __init__(self, node_id: int, logs: LogManager, traffic: Traffic, *, bounds_min_isr: bool) -> None:
        self._node_id = node_id
        self._bounds_min_isr = bounds_min_isr
        self._logs = logs
        self._traffic = traffic
        self._image = EMPTY_IMAGE
        self._found: dict[tuple[str, int], LocalPartition] = {}

    def use(self, image: ClusterImage) -> None:
        """Replace the image."""
        self._image = image
        self._found.clear()
        self._traffic.forget_others(image.topics)

    def get(self, topic: str, index: int) -> LocalPartition:
        """A partition by its topic's name. Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION, or it is not led here."""
        found = self._found.get((topic, index))
        return found or self._find(self._image.topic(topic), TopicPartition(topic, index))

    def has(self, topic: str, index: int) -> bool:
        """Whether the partition exists, with any leader."""
        return (topic, index) in self._found or self.image_of(topic, index) is not None

    def image_of(self, topic: str, index: int) -> PartitionImage | None:
        """A partition in the present image, or None."""
        image = self._image.topic(topic)
        return None if image is None else image.partition(index)

    def get_by_id(self, topic_id: UUID, index: int) -> LocalPartition:
        """A partition by its topic's id. Raises KafkaError: UNKNOWN_TOPIC_ID, else as ``get``."""
        name = self._image.names.get(topic_id)
        if name is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic with id {topic_id}")
        return self.get(name, index)

    def _find(self, topic: TopicImage | None, partition: TopicPartition) -> LocalPartition:
        image = topic.partition(partition.partition) if topic else None
        if topic is None or image is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {partition}")
        if image.leader != self._node_id:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{partition} is led by broker {image.leader}")
        log = self._logs.get(partition)
        if log is None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log of {partition} could not be opened")
        found = LocalPartition(
            id=partition,
            topic_id=topic.topic_id,
            leader_epoch=image.leader_epoch,
            in_sync=len(image.isr),
            min_isr_at_most=len(image.replicas) if self._bounds_min_isr else INT_MAX,
            log=log,
            traffic=self._traffic.topic(topic.name),
        )
        self._found[partition] = found
        return found


def partition_metrics(log: Log) -> PartitionMetrics:
    """The sizes and offsets of one log."""
    return PartitionMetrics(
        size_bytes=log.local.size_in_bytes,
        segments=len(log.local.view.segments),
        log_start_offset=log.log_start_offset,
        last_stable_offset=log.last_stable_offset,
        high_watermark=log.high_watermark,
        log_end_offset=log.log_end_offset,
        open_transactions=log.producers.open_transactions,
    )
