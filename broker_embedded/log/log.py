"""One partition: its files, its producers and leader epochs, and what may be done with them.

``local_log`` owns the files, ``append.appender`` appends, ``reader`` reads, ``retention`` holds the log start offset
and deletes old segments; `Log` puts them together.

Which method may run beside which: everything that changes the log takes one lock, so that retention, compaction or a
flush may run in another thread than appends. Reading takes none: it works on a view, a value that is replaced as a
whole. A flush waits for the disk, and compaction does its work, without that lock.
"""

import os
from uuid import UUID

from broker_embedded.config.log_config import LogConfig
from broker_embedded.log.append.incoming import FROM_CLIENT, Terms
from broker_embedded.log.append.producer_state import LastRecord
from broker_embedded.log.append.producer_store import PRODUCER_ID_EXPIRATION_MS
from broker_embedded.log.appender import Appender, AppendResult
from broker_embedded.log.index import CorruptIndex
from broker_embedded.log.local_log import LocalLog
from broker_embedded.log.opening import LogParts, load_parts
from broker_embedded.log.reader import LogReader
from broker_embedded.log.retention import Retention
from broker_embedded.platform.cancellation import NEVER_CANCELLED, Cancellation
from broker_embedded.platform.platform import Platform
from spark_kafka_native.records.batch import UnreadableBatch


class Log:
    """The log of one topic-partition, in the directory ``topic-partition``. Made by ``open``.

    ``local`` are its files, ``reader`` reads them. ``producers`` and ``epochs`` are only read by callers.

    After an error that leaves in doubt what is on the disk the log is offline: every call raises KAFKA_STORAGE_ERROR
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

    @classmethod
    def open(
        cls,
        directory: str | os.PathLike[str],
        config: LogConfig,
        platform: Platform,
        *,
        recovery_point: int = 0,
        clean_shutdown: bool = False,
        log_start_offset: int = 0,
        topic_id: UUID | None = None,
        producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS,
    ) -> "Log":
        """The log in an existing directory, repaired if need be; see ``recovery``.

        Everything before ``recovery_point`` is taken to be on the disk; after a clean shutdown everything.

        Raises KafkaError KAFKA_STORAGE_ERROR: the disk fails. INCONSISTENT_TOPIC_ID: the directory belongs to another
        topic of that name. ValueError: the directory's name.
        """
        parts = load_parts(
            os.fspath(directory),
            config,
            platform,
            recovery_point=recovery_point,
            clean_shutdown=clean_shutdown,
            log_start_offset=log_start_offset,
            topic_id=topic_id,
            producer_id_expiration_ms=producer_id_expiration_ms,
        )
        return cls(parts, config, platform)

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
        """Use other settings from now on. Those of index files count from the next segment on."""
        with self.local.lock:
            self.local.config = config

    @property
    def offline(self) -> str | None:
        """Why the log cannot be used, None if it can."""
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
        """Where consumers must stop: with a single replica, the end."""
        return self.local.view.end_offset

    @property
    def last_stable_offset(self) -> int:
        """Where consumers that read committed records only must stop: before the oldest open transaction."""
        end = self.local.view.end_offset  # first: a transaction that begins meanwhile has later offsets
        first = self.producers.first_unstable_offset
        return end if first is None else max(self.retention.log_start_offset, min(first, end))

    def end_of_leader_epoch(self, epoch: int) -> tuple[int, int] | None:
        """The last leader epoch up to ``epoch`` that is known, and where it ended; None for one yet to come."""
        return self.epochs.end_of(epoch, self.local.view.end_offset)

    # --- changing ----------------------------------------------------------------------------------------------------

    def append(
        self,
        records: bytearray | memoryview,
        *,
        leader_epoch: int,
        terms: Terms = FROM_CLIENT,
        cancellation: Cancellation = NEVER_CANCELLED,
    ) -> AppendResult:
        """Append one or more batches, or a message set, all or none. ``records`` is writable and changed in place.

        Offsets, the leader epoch and, where the topic says so, the append time are written into the headers. Where the
        topic asks for another codec or format, what is stored is made from ``records``.

        Raises KafkaError, and nothing was appended: those of ``validation.validate``, of ``ProducerStates.plan`` and
        ``duplicates``; KAFKA_STORAGE_ERROR, the disk is full or fails. If ``flush.messages`` made it flush and that
        failed, the records may be in the log: as after a lost response, a producer without idempotence writes them
        again. WorkCancelled, and nothing was appended: once the checks are over the append is completed.
        """
        result = self._appender.append(records, leader_epoch=leader_epoch, terms=terms, cancellation=cancellation)
        local = self.local
        if local.unflushed >= local.config.flush_messages:
            with local.flush_lock:  # the thread that held it may have flushed these records too
                if local.unflushed >= local.config.flush_messages:
                    local.flush()
        return result

    def truncate_to(self, offset: int) -> int:
        """Drop the batch that holds ``offset`` and all behind it; the offset that the log now ends at.

        1. Later segments go, the last first, and the directory is synced. Crash here: some of them are gone.
        2. The segment that holds the offset is cut and synced. Crash here: done.
        3. The producers are restored as of the new end.

        A recovery point checkpointed before may lie behind the new end: write the checkpoint before appending again.

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
        """Forget idempotent producers after this time from now on."""
        with self.local.lock:
            self.producers.expiration_ms = expiration_ms

    def expire_producers(self, now_ms: int) -> int:
        """Forget the idempotent producers that were silent for too long; how many."""
        with self.local.lock:
            return self.producers.expire(now_ms)

    def last_records_of_producers(self) -> dict[int, LastRecord]:
        """What compaction must keep of the producers that are remembered, by producer id."""
        with self.local.lock:
            return self.producers.last_records()
