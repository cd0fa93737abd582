"""One partition: its segments, and what may be done with them.

Which method may run beside which: everything that changes the log takes one lock, so that retention, compaction or a
flush may run in another thread than appends. Reading takes none: it works on a view, a value that is replaced as a
whole. ``flush`` waits for the disk, and compaction does its work, without that lock.

A log is built up in floors: ``readable`` what can be asked, ``durable`` how it comes to the disk, ``shrinking`` how it
gets smaller, and here how it grows.

Appending, step by step. *Crash* means that of the machine; what the process alone loses is less.

1. Every check of the batches, without the lock, because it may take seconds. Then, under the lock, that of the
   producer; and where offsets of the log are inside compressed messages (format v0), these are written again if the log
   has grown since. Crash here: nothing has happened.
2. If the segment is full, a new one: its predecessor's index files are completed, a snapshot of the producers is
   written, the new files are made. Crash here: neither names nor contents were synced, any part may be missing. All of
   it lies behind the recovery point, and recovery makes it anew from what is left of the logs.
3. Bytes are written behind the last batch. Crash here: a part of them, or none; recovery cuts off what is not whole. If
   the write fails, what it left is cut off at once, and nothing has happened.
4. Index entries, the producers' state and the end of the log follow, in memory; readers see the batches now.
"""

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from broker_embedded.config.log_config import LogConfig
from broker_embedded.log.append.incoming import FROM_CLIENT, Append, AppendOrigin, IncomingBatch, Terms, Validated
from broker_embedded.log.append.message_sets import renumbered
from broker_embedded.log.append.producer_state import ProducerChanges
from broker_embedded.log.append.producer_store import PRODUCER_ID_EXPIRATION_MS
from broker_embedded.log.append.validation import assign, validate
from broker_embedded.log.opening import load_parts
from broker_embedded.log.segment import LogSegment, UncutTail
from broker_embedded.log.shrinking import ShrinkingLog
from broker_embedded.platform.cancellation import NEVER_CANCELLED, Cancellation
from broker_embedded.platform.platform import File, Platform
from spark_kafka_native.records.batch import MAGIC, NO_TIMESTAMP, UnreadableBatch

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendResult:
    """Where an append's records are: from ``base_offset`` to ``last_offset``, both included.

    ``log_append_time_ms`` is -1 unless the broker's clock stamped them. ``duplicate``: they were there already, and the
    time is that of the first batch.
    """

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool


class Log(ShrinkingLog):
    """The log of one topic-partition, in the directory ``topic-partition``. Made by ``open``.

    After an error that leaves in doubt what is on the disk the log is offline: every call raises KAFKA_STORAGE_ERROR
    until the log is opened again, which recovers it.
    """

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

    def reconfigure(self, config: LogConfig) -> None:
        """Go by other settings from now on. Those of index files count from the next segment on."""
        with self._lock:
            self.config = config

    # --- appending ---------------------------------------------------------------------------------------------------

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
        view = memoryview(records)
        if view.readonly:
            raise TypeError("records must be writable: offsets are assigned in place")
        self._check_online()
        append = Append(
            config=self.config,
            partition=str(self.partition),
            origin=terms.origin,
            now_ms=self._platform.clock.now_ms(),
            base_offset=self._view.end_offset,
            cancellation=cancellation,
        )
        validated = validate(view, append)
        with self._lock:
            self._check_online()
            if self._view.end_offset != append.base_offset:
                validated = renumbered(validated, replace(append, base_offset=self._view.end_offset))
            result = self._append_validated(validated, leader_epoch, terms)
        if self._unflushed() >= self.config.flush_messages:
            with self._flush_lock:  # whoever had it may have flushed these records too
                if self._unflushed() >= self.config.flush_messages:
                    self.flush()
        return result

    def _append_validated(self, validated: Validated, leader_epoch: int, terms: Terms) -> AppendResult:
        now_ms = self._platform.clock.now_ms()
        view, batches = validated
        known = None
        if terms.origin is AppendOrigin.CLIENT:
            known = self._producers.states.duplicates([batch.header for batch in batches])
        if known is None:
            return self._append_new(view, batches, leader_epoch, now_ms, terms)
        stamped = known[0].timestamp  # the stored time of either type, as Apache Kafka responds
        return self._result(known[0].first_offset, known[-1].last_offset, stamped, duplicate=True)

    def _append_new(
        self, view: memoryview, batches: Sequence[IncomingBatch], leader_epoch: int, now_ms: int, terms: Terms
    ) -> AppendResult:
        base_offset = self._view.end_offset
        append_time = now_ms if self.config.log_append_time else NO_TIMESTAMP
        last_offset = base_offset - 1 + sum(batch.header.last_offset_delta + 1 for batch in batches)
        max_timestamp = append_time
        if append_time == NO_TIMESTAMP:
            max_timestamp = max(batch.header.max_timestamp for batch in batches)
        changes = self._producers.plan(
            view, batches, base_offset=base_offset, append_time=append_time, now_ms=now_ms, terms=terms
        )
        active = self._view.active
        try:
            if active.should_roll(
                self.config, size=len(view), last_offset=last_offset, max_timestamp=max_timestamp, now_ms=now_ms
            ):
                self._roll()
                active = self._view.active
        except (OSError, UnreadableBatch) as error:
            self._fail("cannot start a new segment", error)
        placed = assign(
            view, batches, base_offset=base_offset, leader_epoch=leader_epoch, log_append_time_ms=append_time
        )
        try:
            aborted_file = active.transaction_index.file() if changes.aborted else None
            active.append(view, placed)
        except UncutTail as error:
            self._go_offline("cannot cut off the bytes of a failed append", error)
        except OSError as error:
            self._fail("cannot append", error)
        if batches[0].header.magic == MAGIC:
            self._epochs.assign(leader_epoch, base_offset)
        else:
            self._epochs.clear()
        if aborted_file is not None:
            self._index_aborted(active, aborted_file, changes)
        self._producers.states.apply(changes)
        self._view = self._view.extended(last_offset + 1)
        return self._result(base_offset, last_offset, append_time, duplicate=False)

    def _index_aborted(self, active: LogSegment, file: File, changes: ProducerChanges) -> None:
        """Add aborted transactions to the index, before the last stable offset moves past their markers.

        Without the entries a consumer would take aborted records for committed ones. A failure therefore takes the log
        offline; recovery fills the index again from the markers. The file was opened before the marker was written, so
        that a lack of descriptors is no such failure.
        """
        try:
            for aborted in changes.aborted:
                active.transaction_index.append(aborted, file)
        except OSError as error:
            self._go_offline("cannot write the transaction index", error)

    def _result(self, base_offset: int, last_offset: int, append_time: int, *, duplicate: bool) -> AppendResult:
        return AppendResult(
            base_offset=base_offset,
            last_offset=last_offset,
            log_append_time_ms=append_time,
            log_start_offset=self._log_start_offset,
            duplicate=duplicate,
        )
