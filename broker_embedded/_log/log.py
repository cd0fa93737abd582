"""The log of one partition: its files, its producers and its leader epochs.

``local_log`` owns the files, ``appender`` appends, ``reader`` reads, ``retention`` holds the log start offset and
deletes old segments. `Log` is composed of them.

Threads: every change of the log takes one lock, so that retention, compaction, flushes and appends may run in different
threads. Reads take no lock: they use a view, a value that is replaced as a whole. Syncing and compacting are done
without the lock.
"""

from broker_embedded._config.log_config import LogConfig
from broker_embedded._log.append.incoming import FROM_CLIENT, AppendConditions
from broker_embedded._log.append.producer_state import LastRecord
from broker_embedded._log.appender import Appender, AppendResult
from broker_embedded._log.index import CorruptIndex
from broker_embedded._log.local_log import LocalLog, LogParts
from broker_embedded._log.reader import LogReader
from broker_embedded._log.retention import Retention
from broker_embedded._platform.cancellation import NEVER_CANCELLED, Cancellation
from broker_embedded._platform.platform import Platform
from spark_kafka_native._records.batch import UnreadableBatch


class Log:
    """The log of one topic-partition, in the directory ``topic-partition``. Made by ``opening.open_log``.

    ``local`` are its files, ``reader`` reads them. ``producers`` and ``epochs`` are only read by callers.

    If an error leaves the content of the disk uncertain, the log is offline: every call raises KAFKA_STORAGE_ERROR
    until the log is opened again, which recovers it.
    """

    def __init__(self, parts: LogParts, config: LogConfig, platform: Platform) -> None:
        self.partition = parts.partition
        self.topic_id = parts.topic_id
        self.local = LocalLog(parts, config, platform)
        self.producers = parts.producers.states
        self.epochs = parts.epochs
        self.retention = Retention(self.local, parts.epochs, parts.loaded.log_start_offset)
        self.reader = LogReader(self.local, self.retention)
        self._producer_store = parts.producers
        self._appender = Appender(self.local, parts.producers, parts.epochs, self.retention)

    def close(self) -> None:
        """As ``LocalLog.close``."""
        self.local.close()

    def __str__(self) -> str:
        return str(self.partition)

    @property
    def config(self) -> LogConfig:
        """The settings of the topic."""
        return self.local.config

    def reconfigure(self, config: LogConfig) -> None:
        """Change the settings. Those of index files take effect with the next segment."""
        with self.local.lock:
            self.local.config = config

    @property
    def offline(self) -> str | None:
        """The error that took the log offline, or None."""
        return self.local.offline

    # --- offsets -----------------------------------------------------------------------------------------------------

    @property
    def log_start_offset(self) -> int:
        """The first offset that can be read."""
        return self.retention.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        return self.local.view.end_offset

    @property
    def high_watermark(self) -> int:
        """The end of the log, because there is a single replica."""
        return self.local.view.end_offset

    @property
    def last_stable_offset(self) -> int:
        """The first offset of the oldest open transaction, or the high watermark."""
        end = self.local.view.end_offset  # first: a transaction that begins meanwhile has later offsets
        first = self.producers.first_unstable_offset
        return end if first is None else max(self.retention.log_start_offset, min(first, end))

    def end_of_leader_epoch(self, epoch: int) -> tuple[int, int] | None:
        """The last known leader epoch up to ``epoch`` and its end offset; None for a future epoch."""
        return self.epochs.end_of(epoch, self.local.view.end_offset)

    # --- changing ----------------------------------------------------------------------------------------------------

    def append(
        self,
        records: bytearray | memoryview,
        *,
        leader_epoch: int,
        conditions: AppendConditions = FROM_CLIENT,
        cancellation: Cancellation = NEVER_CANCELLED,
    ) -> AppendResult:
        """Append one batch, or a message set, whole or not at all. ``records`` is writable and changed in place.

        Offsets, the leader epoch and, with LogAppendTime, the append time are written into the header. If the topic
        has another codec or message format, ``records`` are converted.

        Raises KafkaError, and nothing was appended: those of ``validation.validate`` and ``ProducerStates.plan``;
        KAFKA_STORAGE_ERROR, the disk is full or fails. If the flush for ``flush.messages`` failed, the records may be
        in the log, and a producer without idempotence writes them twice.
        WorkCancelled, and nothing was appended: after the checks an append is not cancelled any more.
        """
        result = self._appender.append(
            records, leader_epoch=leader_epoch, conditions=conditions, cancellation=cancellation
        )
        local = self.local
        if local.unflushed >= local.config.flush_messages:
            with local.flush_lock:  # the thread that held it may have flushed these records too
                if local.unflushed >= local.config.flush_messages:
                    local.flush()
        return result

    def truncate_to(self, offset: int) -> int:
        """Drop the batch that contains ``offset`` and everything after it. Returns the new end offset.

        1. Later segments are deleted, the last first, and the directory is synced. Crash here: some of them are
           deleted.
        2. The segment that contains the offset is truncated and synced. Crash here: done.
        3. The producers are restored as of the new end.

        The checkpointed recovery point may be after the new end: write the checkpoint before the next append.

        Raises KafkaError: OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR; in the latter case the log is offline.
        """
        local, retention, store = self.local, self.retention, self._producer_store
        with local.flush_lock, local.names_lock, local.lock:
            local.check_online()
            self.reader.check_range(offset, local.view)
            if offset == local.view.end_offset:
                return offset
            try:
                end_offset = local.truncate_to(offset)
                retention.log_start_offset = min(retention.log_start_offset, end_offset)
                self.epochs.truncate_from_end(end_offset)
                store.load(local.view.segments, store.snapshots, end_offset=end_offset)
            except (OSError, UnreadableBatch, CorruptIndex) as error:
                local.go_offline("cannot truncate", error)
            return end_offset

    # --- producers ---------------------------------------------------------------------------------------------------

    def use_producer_id_expiration(self, expiration_ms: int) -> None:
        """Change ``producer.id.expiration.ms``."""
        with self.local.lock:
            self.producers.expiration_ms = expiration_ms

    def expire_producers(self, now_ms: int) -> int:
        """Forget the idempotent producers that expired; how many."""
        with self.local.lock:
            return self.producers.expire(now_ms)

    def last_records_of_producers(self) -> dict[int, LastRecord]:
        """The last record of each known producer, which compaction must keep, by producer id."""
        with self.local.lock:
            return self.producers.last_records()
