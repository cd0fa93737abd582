"""The log of a coordinator: an internal topic that is created on first use, appended to, and replayed at the start.

``__consumer_offsets`` stores groups, ``__transaction_state`` transactional ids. All records of an id are in one
partition.
"""

import contextlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from broker_embedded._config.config import BrokerConfig
from broker_embedded._log.append.incoming import AppendConditions, AppendOrigin
from broker_embedded._log.log import Log
from broker_embedded._metadata.topics import Topics
from broker_embedded._platform.timers import Timers
from broker_embedded._platform.worker_threads import OnDisk
from broker_embedded._records.coordinator_record import CoordinatorRecord, encode_batch
from broker_embedded._records.last_records import LastRecords, LoggedRecord
from broker_embedded._replica.delayed import DelayedOperations
from broker_embedded._replica.partitions import LocalPartition, Partitions
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig
from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._records.batch import NO_SEQUENCE, set_producer
from spark_kafka_native._records.errors import UnreadableBatch
from spark_kafka_native._records.formats import check_any_crc, iter_any

logger = logging.getLogger(__name__)

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
_READ_BYTES: Final = 1024 * 1024
_AS_COORDINATOR_ERROR: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""The error codes of failed appends as a coordinator answers them, as in Apache Kafka."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorTopic:
    """A coordinator's topic as it is created."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


def offsets_topic(config: BrokerConfig) -> CoordinatorTopic:
    """The topic of groups and their offsets."""
    return CoordinatorTopic(
        name=OFFSETS_TOPIC,
        partitions=config.offsets_topic_num_partitions,
        replication_factor=config.offsets_topic_replication_factor,
        configs=_compacted(config.offsets_topic_segment_bytes) | {"compression.type": "producer"},
    )


def transactions_topic(config: BrokerConfig) -> CoordinatorTopic:
    """The topic of transactional ids."""
    return CoordinatorTopic(
        name=TRANSACTIONS_TOPIC,
        partitions=config.transaction_state_log_num_partitions,
        replication_factor=config.transaction_state_log_replication_factor,
        configs=_compacted(config.transaction_state_log_segment_bytes)
        | {
            "compression.type": "uncompressed",
            "min.insync.replicas": str(config.transaction_state_log_min_isr),
            "unclean.leader.election.enable": "false",
        },
    )


def _compacted(segment_bytes: int) -> dict[str, str]:
    return {"cleanup.policy": "compact", "segment.bytes": str(segment_bytes)}


class Appended(NamedTuple):
    """The partition and the first offset of an append."""

    partition: int
    base_offset: int


class Within(NamedTuple):
    """The transaction of an append. For ``verified`` see `_log.append.incoming.AppendConditions`."""

    producer: ProducerIdAndEpoch
    verified: bool = True


class CoordinatorLog:
    """The log of a coordinator. An append is one batch, so that it is atomic."""

    def __init__(
        self,
        topic: CoordinatorTopic,
        *,
        timers: Timers,
        topics: Topics,
        partitions: Partitions,
        delayed: DelayedOperations,
        on_disk: OnDisk,
    ) -> None:
        self._topic = topic
        self._timers = timers
        self._topics = topics
        self._partitions = partitions
        self._delayed = delayed
        self._on_disk = on_disk

    def records(self) -> Iterator[CoordinatorRecord]:
        """The records of ``logged`` that are not in an open transaction. Blocks."""
        return (logged.record for _, logged in self.logged() if logged.producer_id is None)

    def logged(self) -> Iterator[tuple[int, LoggedRecord]]:
        """The records to replay, each with its partition, partition by partition, in order of their offsets. Blocks.

        These are the last record of each key, without those of aborted transactions, and the records of open
        transactions. Compaction keeps the same records. The rest of an unreadable partition is logged and skipped.
        """
        topic = self._topics.image.topic(self._topic.name)
        for index in range(len(topic.partitions) if topic else 0):
            last = LastRecords()
            try:
                _read(self._partitions.get(self._topic.name, index).log, last)
            except (KafkaError, UnreadableBatch) as error:
                logger.error("the rest of %s-%d cannot be read, ignored: %s", self._topic.name, index, error)
            for logged in last.in_order():
                yield index, logged

    async def make_ready(self) -> None:
        """Create the topic if necessary. Raises KafkaError: it cannot be created now."""
        topic = self._topic
        if self._topics.image.topic(topic.name) is not None:
            return
        wanted = CreatableTopic(
            name=topic.name,
            num_partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            configs=tuple(CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()),
        )
        try:
            await self._topics.require(wanted)
        except KafkaError as error:
            logger.error("%s cannot be created: %s", topic.name, error)
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.detail) from error

    def epoch(self, name: str) -> int:
        """The leader epoch of an id's partition, which increases with each new coordinator; 0 if it was deleted."""
        try:
            return self._partition(name).leader_epoch
        except KafkaError:
            return 0

    def partition_of(self, name: str) -> TopicPartition:
        """The partition that stores an id. Raises KafkaError: the topic does not exist yet."""
        with _coordinator_errors():
            return self._partition(name).id

    def is_in_transaction(self, name: str, producer: ProducerIdAndEpoch) -> bool:
        """Whether a producer has an open transaction in the partition that stores an id. Raises KafkaError."""
        log = self._partitions.get(*self.partition_of(name)).log
        return log.producers.is_in_transaction(producer.producer_id, producer.epoch)

    def check_replicas(self, name: str) -> None:
        """Raise KafkaError unless an id's partition has min.insync.replicas in-sync replicas."""
        with _coordinator_errors():
            self._partition(name).check_replicas()

    def waits_for_disk(self, name: str) -> bool:
        """Whether an append about an id may wait for the disk, so that it must not run on the event loop."""
        try:
            return self._partition(name).flushes_on_append
        except KafkaError:
            return False

    def append(self, name: str, records: Sequence[CoordinatorRecord], within: Within | None = None) -> Appended:
        """Append records about an id on the event loop, if ``waits_for_disk`` is false.

        Raises KafkaError with a coordinator's error code: nothing was appended.
        """
        with _coordinator_errors():
            partition = self._partition(name)
            result = partition.append(*self._batch(records, within))
        self._delayed.changed(partition.id)
        return Appended(partition.id.partition, result.base_offset)

    async def append_on_disk(
        self, name: str, records: Sequence[CoordinatorRecord], within: Within | None = None
    ) -> Appended:
        """As ``append``, in a thread that waits for the disk."""
        with _coordinator_errors():
            partition = self._partition(name)
            batch, conditions = self._batch(records, within)
            result = await self._on_disk(lambda: partition.append(batch, conditions))
        self._delayed.changed(partition.id)
        return Appended(partition.id.partition, result.base_offset)

    def _batch(self, records: Sequence[CoordinatorRecord], within: Within | None) -> tuple[bytearray, AppendConditions]:
        batch = encode_batch(records, self._timers.now_ms())
        if within is None:
            return batch, AppendConditions(origin=AppendOrigin.COORDINATOR)
        set_producer(
            batch,
            0,
            producer_id=within.producer.producer_id,
            producer_epoch=within.producer.epoch,
            base_sequence=NO_SEQUENCE,
            transactional=True,
        )
        return batch, AppendConditions(origin=AppendOrigin.COORDINATOR, verified=within.verified)

    def _partition(self, name: str) -> LocalPartition:
        topic = self._topics.image.topic(self._topic.name)
        return self._partitions.get(self._topic.name, partition_for(name, len(topic.partitions)) if topic else 0)


def partition_for(name: str, partitions: int) -> int:
    """The partition of a group or a transactional id, by Java's string hash, as in Kafka."""
    code = 0
    units = name.encode("utf-16-be")
    for index in range(0, len(units), 2):
        code = (31 * code + (units[index] << 8 | units[index + 1])) & 0xFFFFFFFF
    signed = code - (1 << 32) if code & 0x80000000 else code
    return (0 if signed == -(1 << 31) else abs(signed)) % partitions


def _read(log: Log, last: LastRecords) -> None:
    """Read a partition, in any message format. Raises KafkaError, UnreadableBatch."""
    offset = log.log_start_offset
    while offset < log.high_watermark:
        raw = memoryview(log.reader.read_bytes(offset, max_bytes=_READ_BYTES))
        if not raw:
            return  # compaction has dropped the last batches
        for position, header in iter_any(raw):
            check_any_crc(raw, position, header)
            last.read(raw, position, header)
            offset = header.next_offset


@contextlib.contextmanager
def _coordinator_errors() -> Iterator[None]:
    """Raise errors of the partition with the codes that a coordinator answers."""
    try:
        yield
    except KafkaError as error:
        raise KafkaError(_AS_COORDINATOR_ERROR.get(error.code, error.code), error.detail) from error
