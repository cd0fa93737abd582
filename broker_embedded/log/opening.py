"""Opening a log: read and repair a partition's directory."""

import logging
import os
from dataclasses import dataclass
from uuid import UUID

from broker_embedded.config.log_config import LogConfig
from broker_embedded.log.append.producer_store import ProducerStore
from broker_embedded.log.checkpoints import (
    LEADER_EPOCHS,
    PARTITION_METADATA,
    CorruptCheckpoint,
    read_partition_metadata,
    write_partition_metadata,
)
from broker_embedded.log.index import CorruptIndex
from broker_embedded.log.leader_epochs import LeaderEpochFileCache
from broker_embedded.log.recovery import LoadedSegments, Recovery
from broker_embedded.platform.platform import Platform
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError
from spark_kafka_native.protocol.topic import TopicPartition
from spark_kafka_native.records.batch import UnreadableBatch

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


def load_parts(
    directory: str,
    config: LogConfig,
    platform: Platform,
    *,
    recovery_point: int,
    clean_shutdown: bool,
    log_start_offset: int,
    topic_id: UUID | None,
    producer_id_expiration_ms: int,
) -> LogParts:
    """Read an existing directory, and repair it if necessary. Raises as ``Log.open``."""
    partition = parse_directory_name(os.path.basename(directory))
    try:
        topic_id = _claim(directory, partition, platform, topic_id)
        epochs = _load_epochs(directory, platform)
        loaded = Recovery(
            directory,
            config,
            platform,
            lambda header: epochs.assign(header.partition_leader_epoch, header.base_offset),
        ).load(recovery_point=recovery_point, log_start_offset=log_start_offset, clean_shutdown=clean_shutdown)
        epochs.truncate_from_end(loaded.log_end_offset)
        epochs.truncate_from_start(loaded.log_start_offset)
        producers = ProducerStore(directory, str(partition), platform, expiration_ms=producer_id_expiration_ms)
        producers.load(loaded.segments, loaded.snapshots, rebuilt=loaded.rebuilt, end_offset=loaded.log_end_offset)
        for segment in loaded.segments:
            if segment.base_offset in loaded.rebuilt:
                segment.end_rebuild(durable=loaded.rebuilt[segment.base_offset])
    except (OSError, UnreadableBatch, CorruptIndex) as error:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{directory} cannot be opened: {error}") from error
    return LogParts(
        directory=directory,
        partition=partition,
        topic_id=topic_id,
        loaded=loaded,
        epochs=epochs,
        producers=producers,
    )


def _load_epochs(directory: str, platform: Platform) -> LeaderEpochFileCache:
    epochs = LeaderEpochFileCache(f"{directory}/{LEADER_EPOCHS}", platform.file_system)
    try:
        epochs.load()
    except CorruptCheckpoint as error:
        logger.warning("%s; its epochs are read again from recovered and appended batches", error)
    return epochs


def _claim(directory: str, partition: TopicPartition, platform: Platform, topic_id: UUID | None) -> UUID | None:
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
