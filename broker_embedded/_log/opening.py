"""Opening the log in a partition's directory: what the disk has is read, and repaired."""

import logging
import os
from uuid import UUID

from broker_embedded._config.log_config import LogConfig
from broker_embedded._log.append.producer_store import PRODUCER_ID_EXPIRATION_MS, ProducerStore
from broker_embedded._log.checkpoints import (
    LEADER_EPOCHS,
    PARTITION_METADATA,
    CorruptCheckpoint,
    read_partition_metadata,
    write_partition_metadata,
)
from broker_embedded._log.data_directory import parse_directory_name
from broker_embedded._log.index import CorruptIndex
from broker_embedded._log.leader_epochs import LeaderEpochFileCache
from broker_embedded._log.local_log import LogParts
from broker_embedded._log.log import Log
from broker_embedded._log.recovery import Recovery
from broker_embedded._platform.platform import Platform
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._records.batch import UnreadableBatch

logger = logging.getLogger(__name__)


def open_log(
    directory: str | os.PathLike[str],
    config: LogConfig,
    platform: Platform,
    *,
    recovery_point: int = 0,
    clean_shutdown: bool = False,
    log_start_offset: int = 0,
    topic_id: UUID | None = None,
    producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS,
) -> Log:
    """The log in an existing directory, recovered if necessary; see ``recovery``.

    Everything before ``recovery_point`` is on the disk; after a clean shutdown everything is.

    Raises KafkaError KAFKA_STORAGE_ERROR: the disk fails. INCONSISTENT_TOPIC_ID: the directory belongs to another
    topic of that name. ValueError: the directory's name.
    """
    directory = os.fspath(directory)
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
    parts = LogParts(
        directory=directory,
        partition=partition,
        topic_id=topic_id,
        loaded=loaded,
        epochs=epochs,
        producers=producers,
    )
    return Log(parts, config, platform)


def _load_epochs(directory: str, platform: Platform) -> LeaderEpochFileCache:
    """The leader epochs of a directory; none if their file cannot be parsed. Raises OSError."""
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
