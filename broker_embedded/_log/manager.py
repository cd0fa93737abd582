"""All logs of a data directory.

The steps of a start:

1. The directory is locked (``lock``). ``meta.properties`` is read, or written if there is none.
2. ``.kafka_cleanshutdown`` is deleted, durably. Crash from here on: the next start recovers every log.
3. The checkpoints are read. Without a checkpoint recovery points are 0, the log start offset is that of the first
   segment, and compaction starts at the beginning of the log. No record is lost.
4. Each log is opened. After an unclean shutdown it is recovered from its recovery point on, or from the end of its
   compacted part, because a compaction syncs everything before that. The recovery points are checkpointed again,
   because a log may be shorter now.

The steps of a close:

1. Each log is closed, which makes everything durable.
2. Recovery points, log start offsets and high watermarks are checkpointed. Crash here: recovery, with little to do.
3. ``.kafka_cleanshutdown`` is written, unless a log could not be closed. The directory is unlocked.

Methods that change logs take each log's lock and may run in any thread; so may ``checkpoint_*`` and ``flush_*``, which
wait for the disk.
"""

import functools
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Final
from uuid import UUID

from broker_embedded._config.config import BrokerConfig
from broker_embedded._config.log_config import LogConfig
from broker_embedded._log.append.producer_store import PRODUCER_ID_EXPIRATION_MS
from broker_embedded._log.checkpoints import (
    CLEANED_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    CleanedOffsets,
    CorruptCheckpoint,
    MetaProperties,
    OffsetCheckpoints,
)
from broker_embedded._log.data_directory import DataDirectory
from broker_embedded._log.deleted import DeletedDirectories, deleted_name
from broker_embedded._log.log import Log
from broker_embedded._log.opening import open_log
from broker_embedded._platform.periodic import PeriodicTask
from broker_embedded._platform.platform import FileSystem, Platform
from broker_embedded._platform.worker_threads import OnDisk
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError, counted
from spark_kafka_native._protocol.topic import TopicPartition

logger = logging.getLogger(__name__)

_REMOVE_FILES_MS: Final = 5000


class LogManager:
    """The logs under one data directory. Only ``lock`` may be called before ``load_all``.

    Errors of the disk are raised as KafkaError KAFKA_STORAGE_ERROR.
    """

    def __init__(
        self,
        data_dir: str | os.PathLike[str] | DataDirectory,
        defaults: LogConfig,
        platform: Platform,
        *,
        node_id: int = 1,
        cluster_id: str | None = None,
        meta_version: int = 1,
        producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS,
    ) -> None:
        """``data_dir`` may be locked already."""
        if not isinstance(data_dir, DataDirectory):
            data_dir = DataDirectory(os.path.abspath(data_dir), platform.file_system)
        self._directory = data_dir
        self.data_dir = self._directory.path
        self.defaults = defaults
        self._platform = platform
        self._files: FileSystem = platform.file_system
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._meta_version = meta_version
        self._producer_id_expiration_ms = producer_id_expiration_ms
        self._meta: MetaProperties | None = None
        self._loaded = False
        self._logs: dict[TopicPartition, Log] = {}
        self._deleted = DeletedDirectories(platform)
        self._partly_created: set[str] = set()
        self._checkpoints = OffsetCheckpoints(self._files, self.data_dir)
        self.cleaned_offsets = CleanedOffsets(self._checkpoints, CLEANED_OFFSETS)

    @property
    def meta(self) -> MetaProperties:
        """Cluster, node and directory ids, once loaded."""
        if self._meta is None:
            raise RuntimeError("call lock() first")
        return self._meta

    @property
    def logs(self) -> Mapping[TopicPartition, Log]:
        """Every log."""
        return dict(self._logs)

    @property
    def offline_count(self) -> int:
        """How many logs are offline."""
        return sum(log.offline is not None for log in self.logs.values())

    def get(self, partition: TopicPartition) -> Log | None:
        """The log of a partition, or None."""
        return self._logs.get(partition)

    # --- starting and closing ----------------------------------------------------------------------------------------

    def lock(self) -> None:
        """Lock the directory, which is created if it does not exist. A second call does nothing.

        Raises KafkaError KAFKA_STORAGE_ERROR: it is in use, belongs to another cluster or node, or cannot be read.
        """
        if self._meta is not None and self._directory.locked:
            return
        try:
            self._directory.lock()
            self._meta = self._directory.claim(self._node_id, self._cluster_id, self._meta_version)
        except (OSError, CorruptCheckpoint) as error:
            self.abandon()
            raise self._unusable(error) from error

    def load_all(self, configs: Mapping[str, LogConfig] | None = None) -> None:
        """Lock the directory, and open every log in it, those of ``configs``' topics with their settings.

        Raises KafkaError KAFKA_STORAGE_ERROR: as ``lock``, or it contains a directory that is not a log. Everything is
        closed then.
        """
        self.lock()
        try:
            clean = self._directory.take_clean_shutdown()
            self._loaded = True
            self._open_logs(configs or {}, clean_shutdown=clean)
            self.cleaned_offsets.keep(self._logs)
            if not clean:
                self.checkpoint_recovery_points()
        except (OSError, CorruptCheckpoint) as error:
            self.abandon()
            raise self._unusable(error) from error
        except BaseException:  # also after KeyboardInterrupt the files must be closed
            self.abandon()
            raise

    def _unusable(self, error: OSError | CorruptCheckpoint) -> KafkaError:
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self._directory.text_of(error))

    def close(self) -> None:
        """Close every log and unlock the directory; see the module. A second call does nothing.

        Before ``load_all`` it only unlocks the directory.

        Raises KafkaError KAFKA_STORAGE_ERROR: not everything could be written; the next start recovers.
        """
        if not self._loaded:
            self.abandon()
            return
        try:
            failed = [str(log) for log in self._logs.values() if not _close(log)]
            self.checkpoint_recovery_points()
            self.checkpoint_log_start_offsets()
            self.checkpoint_high_watermarks()
            if failed:
                raise KafkaError(
                    ErrorCode.KAFKA_STORAGE_ERROR, f"{self.data_dir}: not closed cleanly: {', '.join(failed)}"
                )
            self._directory.leave_clean_shutdown()
        except OSError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.data_dir}: {error}") from error
        finally:
            self.abandon()

    def _open_logs(self, configs: Mapping[str, LogConfig], *, clean_shutdown: bool) -> None:
        recovery_points = self._checkpoints.read(RECOVERY_POINTS)
        start_offsets = self._checkpoints.read(LOG_START_OFFSETS)
        self.cleaned_offsets.load()
        partitions = self._directory.find_logs(self._deleted, self._platform.clock.elapsed_ms())
        if partitions and not clean_shutdown:
            logger.warning("%s was not closed cleanly: recovering %s", self.data_dir, counted(len(partitions), "log"))
        for partition in partitions:
            self._logs[partition] = open_log(
                self._directory.file(str(partition)),
                configs.get(partition.topic, self.defaults),
                self._platform,
                recovery_point=max(recovery_points.get(partition, 0), self.cleaned_offsets.get(partition) or 0),
                log_start_offset=start_offsets.get(partition, 0),
                clean_shutdown=clean_shutdown,
                producer_id_expiration_ms=self._producer_id_expiration_ms,
            )

    def abandon(self) -> None:
        """Stop as a crash of the process would: write nothing, and unlock the directory."""
        for log in self._logs.values():
            log.local.abandon()
        self._logs = {}
        self._loaded = False
        self._directory.unlock()

    # --- making and deleting logs ------------------------------------------------------------------------------------

    def create_all(
        self, partitions: Iterable[TopicPartition], topic_id: UUID, config: LogConfig | None = None
    ) -> list[Log]:
        """New, empty logs of one topic, all or none; their directories survive a crash once this returns.

        1. Each directory is created, ``partition.metadata`` in it is written and synced. Crash here: some of the
           directories exist, and are loaded as empty logs.
        2. The data directory is synced.

        Raises KafkaError: TOPIC_ALREADY_EXISTS, one of them exists. KAFKA_STORAGE_ERROR.
        """
        wanted = list(partitions)
        for partition in wanted:
            if partition in self._logs:
                raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"there is a log of {partition}")
        made: list[str] = []
        try:
            logs = [self._make(partition, topic_id, config or self.defaults, made) for partition in wanted]
            self._directory.sync()
        except (OSError, KafkaError) as error:
            self._unmake(made)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"cannot create {wanted[0].topic}: {error}") from error
        self._logs.update(zip(wanted, logs, strict=True))
        return logs

    def _make(self, partition: TopicPartition, topic_id: UUID, config: LogConfig, made: list[str]) -> Log:
        directory = self._directory.file(str(partition))
        if directory in self._partly_created:
            self._files.remove_tree(directory)
            self._partly_created.remove(directory)
        self._files.make_directory(directory)
        made.append(directory)
        return open_log(
            directory,
            config,
            self._platform,
            clean_shutdown=True,
            topic_id=topic_id,
            producer_id_expiration_ms=self._producer_id_expiration_ms,
        )

    def _unmake(self, directories: Iterable[str]) -> None:
        for directory in directories:
            try:
                self._files.remove_tree(directory)
            except OSError as error:
                self._partly_created.add(directory)
                logger.warning("%s cannot be removed, retrying when the topic is created again: %s", directory, error)

    def delete_all(self, partitions: Iterable[TopicPartition]) -> None:
        """Delete logs; their files are removed later. Unknown partitions are skipped.

        1. Each directory is renamed to ``topic-partition.unique-delete``. Crash here: some are renamed, some not.
        2. The data directory is synced, and the checkpoints are written without them, so that a later topic of that
           name starts empty.
        3. ``remove_files`` removes the directories once ``file.delete.delay.ms`` has passed. Crash here: the next
           start finds them by their name.

        Raises KafkaError KAFKA_STORAGE_ERROR.
        """
        try:
            for partition in list(partitions):
                log = self._logs.pop(partition, None)
                if log is not None:
                    due_ms = self._platform.clock.elapsed_ms() + log.config.file_delete_delay_ms
                    path = self._directory.file(deleted_name(partition))
                    log.local.delete(path)
                    self._deleted.add(path, due_ms)
            self._directory.sync()
            self.checkpoint_recovery_points()
            self.checkpoint_log_start_offsets()
            self.checkpoint_high_watermarks()
            self.cleaned_offsets.keep(self._logs)
        except OSError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"cannot delete logs: {error}") from error

    # --- maintenance -------------------------------------------------------------------------------------------------

    def periodic_tasks(self, config: BrokerConfig, on_disk: OnDisk) -> list[PeriodicTask]:
        """Retention, flushes, checkpoints and expiry, with the intervals at the start; they run in other threads."""
        clock = self._platform.clock

        def flush_and_checkpoint() -> None:
            self.flush_due(clock.elapsed_ms())
            self.checkpoint_recovery_points()

        start_checkpoint_ms = config.log_flush_start_offset_checkpoint_interval_ms
        watermark_checkpoint_ms = config.replica_high_watermark_checkpoint_interval_ms
        expiry_ms = config.producer_id_expiration_check_interval_ms
        tasks: tuple[tuple[str, int, Callable[[], object]], ...] = (
            ("retention", config.log_retention_check_interval_ms, self.delete_old_segments),
            ("removal of deleted files", _REMOVE_FILES_MS, lambda: self.remove_files(clock.elapsed_ms())),
            ("flush", config.log_flush_scheduler_interval_ms, lambda: self.flush_due(clock.elapsed_ms())),
            ("recovery checkpoint", config.log_flush_offset_checkpoint_interval_ms, flush_and_checkpoint),
            ("log start checkpoint", start_checkpoint_ms, self.checkpoint_log_start_offsets),
            ("high watermark checkpoint", watermark_checkpoint_ms, self.checkpoint_high_watermarks),
            ("producer id expiry", expiry_ms, lambda: self.expire_producers(clock.now_ms())),
        )
        return [PeriodicTask(name, interval_ms, functools.partial(on_disk, work)) for name, interval_ms, work in tasks]

    def delete_old_segments(self) -> None:
        """As ``Retention.delete_old_segments``, of all logs. An error of one log does not stop the others."""
        for log in list(self._logs.values()):
            try:
                log.retention.delete_old_segments()
            except KafkaError as error:
                logger.error("%s: retention failed, retrying at the next check: %s", log.partition, error)

    def remove_files(self, elapsed_ms: int) -> int:
        """Remove files of retired segments and directories of deleted logs that are due; how many directories."""
        for log in self.logs.values():
            log.local.remove_retired(elapsed_ms)
        return self._deleted.remove_due(elapsed_ms)

    def expire_producers(self, now_ms: int) -> None:
        """Forget the expired producers of every log."""
        for log in self.logs.values():
            log.expire_producers(now_ms)

    def flush_due(self, elapsed_ms: int) -> int:
        """Flush the logs whose ``flush.ms`` has passed, and complete segments of the other logs; how many logs.

        A log that cannot be flushed goes offline, which is logged.
        """
        flushed = 0
        for log in list(self._logs.values()):
            try:
                if log.local.flush_due(elapsed_ms):
                    flushed += 1
                    log.local.flush()
                else:
                    flushed += log.local.flush_rolled()
            except KafkaError as error:
                logger.error("%s: flush failed, the log is offline: %s", log.partition, error)
        return flushed

    def delete_records(self, partition: TopicPartition, before_offset: int) -> int:
        """As ``Retention.delete_records``, and write the checkpoint, so that the records stay deleted after a crash.

        Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION, OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR.
        """
        log = self._require(partition)
        start_offset = log.retention.delete_records(before_offset)
        try:
            self.checkpoint_log_start_offsets()
        except OSError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{partition}: {error}") from error
        return start_offset

    def truncate_to(self, partition: TopicPartition, offset: int) -> int:
        """As ``Log.truncate_to``, and write the recovery points. Raises KafkaError."""
        log = self._require(partition)
        end_offset = log.truncate_to(offset)
        try:
            self.checkpoint_recovery_points()
            self.cleaned_offsets.cut(partition, end_offset)
        except OSError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{partition}: {error}") from error
        return end_offset

    def use_producer_id_expiration(self, expiration_ms: int) -> None:
        """Change ``producer.id.expiration.ms`` of every log."""
        self._producer_id_expiration_ms = expiration_ms
        for log in list(self._logs.values()):
            log.use_producer_id_expiration(expiration_ms)

    def checkpoint_recovery_points(self) -> None:
        """Write the recovery point of each log. Raises OSError: the old checkpoint is still there."""
        self._checkpoints.write(
            RECOVERY_POINTS, lambda: {tp: log.local.recovery_point for tp, log in self.logs.items()}
        )

    def checkpoint_log_start_offsets(self) -> None:
        """Write the log start offsets that are within a segment. Raises OSError."""

        def offsets_now() -> dict[TopicPartition, int]:
            return {tp: log.log_start_offset for tp, log in self.logs.items() if log.retention.starts_within_segment}

        self._checkpoints.write(LOG_START_OFFSETS, offsets_now)

    def checkpoint_high_watermarks(self) -> None:
        """Write the high watermark of each log. Raises OSError.

        Only an Apache Kafka that opens the directory reads it: with one replica it is the end of the log.
        """
        self._checkpoints.write(HIGH_WATERMARKS, lambda: {tp: log.high_watermark for tp, log in self.logs.items()})

    def note_compacted(self, log: Log, until_offset: int) -> None:
        """Write the offset up to which a log was compacted, unless the log was deleted meanwhile.

        Raises OSError: the offset is lost with the next start.
        """
        partition = log.partition
        self.cleaned_offsets.put(partition, until_offset, unless=lambda: self._logs.get(partition) is not log)

    def _require(self, partition: TopicPartition) -> Log:
        log = self._logs.get(partition)
        if log is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no log of {partition}")
        return log


def _close(log: Log) -> bool:
    """Close a log; whether everything in it is on the disk."""
    if log.offline is not None:
        logger.error("%s is offline, so that it is not closed cleanly: %s", log, log.offline)
        return False
    try:
        log.close()
    except KafkaError as error:
        logger.error("%s", error)
        return False
    return True
