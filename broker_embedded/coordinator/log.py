"""The topic in which a coordinator keeps what it decides: made when first needed, appended to, read back on start.

``__consumer_offsets`` is that of groups, ``__transaction_state`` that of transactional ids. Everything about one id is
in one partition, in order.
"""

import contextlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from broker_embedded.config.config import BrokerConfig
from broker_embedded.log.append.incoming import AppendOrigin, Terms
from broker_embedded.log.log import Log
from broker_embedded.metadata.topics import Topics
from broker_embedded.platform.timers import Timers
from broker_embedded.platform.worker_threads import OnDisk
from broker_embedded.records.coordinator_record import CoordinatorRecord, encode_batch
from broker_embedded.records.last_records import LastRecords, LoggedRecord
from broker_embedded.replica.delayed import DelayedOperations
from broker_embedded.replica.partitions import LocalPartition, Partitions
from broker_embedded.transactions.state import Producer
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError
from spark_kafka_native.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig
from spark_kafka_native.protocol.topic import TopicPartition
from spark_kafka_native.records.batch import NO_SEQUENCE, set_producer
from spark_kafka_native.records.errors import UnreadableBatch
from spark_kafka_native.records.formats import check_any_crc, iter_any

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
    """Where an append is: from which offset on, in which partition of the topic."""

    partition: int
    base_offset: int


class Within(NamedTuple):
    """The transaction that an append is part of. ``verified`` and not: see `log.append.incoming.Terms`."""

    producer: Producer
    verified: bool = True


class CoordinatorLog:
    """The log of a coordinator. An append is one batch, so that its records are there together or not at all."""

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
        """The last record of each key that is not part of a transaction, as ``logged`` has them. Blocks."""
        return (logged.record for _, logged in self.logged() if logged.producer_id is None)

    def logged(self) -> Iterator[tuple[int, LoggedRecord]]:
        """The records that count, each with its partition; partition by partition, in order of their offsets. Blocks.

        Of each key that is the last one, what aborted transactions have written left out, and what transactions have
        written that go on. Compaction leaves the same, so the others need not be looked into. What cannot be read is
        logged and left out.
        """
        topic = self._topics.image.topic(self._topic.name)
        for index in range(len(topic.partitions) if topic else 0):
            last = LastRecords()
            try:
                _read(self._partitions.get(self._topic.name, index).log, last)
            except (KafkaError, UnreadableBatch) as error:
                logger.error("what the rest of %s-%d says is not known: %s", self._topic.name, index, error)
            for logged in last.in_order():
                yield index, logged

    async def make_ready(self) -> None:
        """See to it that the topic is there. Raises KafkaError: it cannot be made now."""
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
            logger.error("%s cannot be made: %s", topic.name, error)
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.detail) from error

    def epoch(self, name: str) -> int:
        """The leader epoch of an id's partition, which grows when another coordinator takes over; 0 if it is gone."""
        try:
            return self._partition(name).leader_epoch
        except KafkaError:
            return 0

    def partition_of(self, name: str) -> TopicPartition:
        """The partition that keeps an id. Raises KafkaError: there is no such topic yet."""
        with _coordinator_errors():
            return self._partition(name).id

    def is_in_transaction(self, name: str, producer: Producer) -> bool:
        """Whether a producer has a transaction open in the partition that keeps an id. Raises KafkaError."""
        log = self._partitions.get(*self.partition_of(name)).log
        return log.producers.is_in_transaction(producer.producer_id, producer.epoch)

    def check_replicas(self, name: str) -> None:
        """Raise KafkaError unless an id's partition has the in-sync replicas that its min.insync.replicas asks for."""
        with _coordinator_errors():
            self._partition(name).check_replicas()

    def waits_for_disk(self, name: str) -> bool:
        """Whether an append about an id may take long, so that it must not hold the event loop."""
        try:
            return self._partition(name).flushes_on_append
        except KafkaError:
            return False

    def append(self, name: str, records: Sequence[CoordinatorRecord], within: Within | None = None) -> Appended:
        """Append records about an id, at once.

        Called on the event loop, when appends do not wait for the disk. Raises KafkaError as clients are to hear it;
        nothing is appended then.
        """
        with _coordinator_errors():
            partition = self._partition(name)
            result = partition.append(*self._batch(records, within))
        self._delayed.changed(partition.id)
        return Appended(partition.id.partition, result.base_offset)

    async def append_on_disk(
        self, name: str, records: Sequence[CoordinatorRecord], within: Within | None = None
    ) -> Appended:
        """``append``, waiting for the disk beside the event loop."""
        with _coordinator_errors():
            partition = self._partition(name)
            batch, terms = self._batch(records, within)
            result = await self._on_disk(lambda: partition.append(batch, terms))
        self._delayed.changed(partition.id)
        return Appended(partition.id.partition, result.base_offset)

    def _batch(self, records: Sequence[CoordinatorRecord], within: Within | None) -> tuple[bytearray, Terms]:
        batch = encode_batch(records, self._timers.now_ms())
        if within is None:
            return batch, Terms(origin=AppendOrigin.COORDINATOR)
        set_producer(
            batch,
            0,
            producer_id=within.producer.producer_id,
            producer_epoch=within.producer.epoch,
            base_sequence=NO_SEQUENCE,
            transactional=True,
        )
        return batch, Terms(origin=AppendOrigin.COORDINATOR, verified=within.verified)

    def _partition(self, name: str) -> LocalPartition:
        topic = self._topics.image.topic(self._topic.name)
        return self._partitions.get(self._topic.name, partition_for(name, len(topic.partitions)) if topic else 0)


def partition_for(name: str, partitions: int) -> int:
    """The partition that holds a group or a transactional id: Java's hash of it, as Kafka maps it."""
    code = 0
    units = name.encode("utf-16-be")
    for index in range(0, len(units), 2):
        code = (31 * code + (units[index] << 8 | units[index + 1])) & 0xFFFFFFFF
    signed = code - (1 << 32) if code & 0x80000000 else code
    return (0 if signed == -(1 << 31) else abs(signed)) % partitions


def _read(log: Log, last: LastRecords) -> None:
    """Read a partition, in formats of whatever age. Raises KafkaError, UnreadableBatch."""
    offset = log.log_start_offset
    while offset < log.high_watermark:
        raw = memoryview(log.reader.read_bytes(offset, max_bytes=_READ_BYTES))
        if not raw:
            return  # compaction has left nothing up to the end
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
