"""The parts of a log, and what a partition's directory says about it."""

import logging
from dataclasses import dataclass
from uuid import UUID

from broker_embedded.log.append.producer_store import ProducerStore
from broker_embedded.log.checkpoints import (
    LEADER_EPOCHS,
    PARTITION_METADATA,
    CorruptCheckpoint,
    read_partition_metadata,
    write_partition_metadata,
)
from broker_embedded.log.leader_epochs import LeaderEpochFileCache
from broker_embedded.log.recovery import LoadedSegments
from broker_embedded.platform.platform import Platform
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError
from spark_kafka_native.protocol.topic import TopicPartition

logger = logging.getLogger(__name__)


def parse_directory_name(name: str) -> TopicPartition:
    """The topic-partition that a log directory is named after. Raises ValueError."""
    topic, dash, partition = name.rpartition("-")
    if not (dash and topic and partition.isascii() and partition.isdigit()):
        raise ValueError(f"{name!r} is not of the form topic-partition")
    return TopicPartition(topic, int(partition))


@dataclass(frozen=True, slots=True, kw_only=True)
class LogParts:
    """The parts of a log, as read from the disk and repaired."""

    directory: str
    partition: TopicPartition
    topic_id: UUID | None
    loaded: LoadedSegments
    epochs: LeaderEpochFileCache
    producers: ProducerStore


def load_epochs(directory: str, platform: Platform) -> LeaderEpochFileCache:
    """The leader epochs of a directory; none if their file cannot be parsed. Raises OSError."""
    epochs = LeaderEpochFileCache(f"{directory}/{LEADER_EPOCHS}", platform.file_system)
    try:
        epochs.load()
    except CorruptCheckpoint as error:
        logger.warning("%s; its epochs are read again from recovered and appended batches", error)
    return epochs


def claim(directory: str, partition: TopicPartition, platform: Platform, topic_id: UUID | None) -> UUID | None:
    """The topic id of a directory, written to it if it had none. Raises OSError, KafkaError INCONSISTENT_TOPIC_ID."""
    metadata = f"{directory}/{PARTITION_METADATA}"
    try:
        found = read_partition_metadata(platform.file_system, metadata)
    except CorruptCheckpoint as error:
        raise OSError(str(error)) from error
    if found is None:
        if topic_id is not None:
            write_partition_metadata(platform.file_system, metadata, topic_id)
        return topic_id
    if topic_id is not None and topic_id != found:
        raise KafkaError(
            ErrorCode.INCONSISTENT_TOPIC_ID, f"{partition}: {directory} belongs to topic id {found}, not to {topic_id}"
        )
    return found
