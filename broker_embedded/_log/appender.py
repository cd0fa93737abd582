"""Appending a batch to one partition.

The steps of an append. *Crash* is a crash of the machine; a crash of the process alone loses less.

1. The batch is validated without the lock, because that may take seconds. The producer's state is checked under the
   lock. A compressed message of format v0 contains absolute offsets: it is compressed again if the log has grown since
   it was validated. Crash here: nothing has changed.
2. If the segment is full, it is rolled: its index files are completed, a snapshot of the producers is written, and the
   new files are created. Crash here: none of it was synced, so any part may be missing. All of it is after the recovery
   point, and recovery recreates it from the remaining log.
3. The bytes are written after the last batch. Crash here: some or none of them are in the file; recovery truncates an
   incomplete batch. If the write fails, its bytes are truncated at once, and nothing has changed.
4. Index entries, the producers' state and the end of the log are updated in memory. Readers see the batches from now
   on.
"""

from typing import NamedTuple

from broker_embedded._log.append.incoming import (
    FROM_CLIENT,
    AppendConditions,
    AppendContext,
    AppendOrigin,
    ValidatedBatch,
)
from broker_embedded._log.append.message_sets import renumbered
from broker_embedded._log.append.producer_store import ProducerStore
from broker_embedded._log.append.validation import assign, validate
from broker_embedded._log.leader_epochs import LeaderEpochFileCache
from broker_embedded._log.local_log import LocalLog
from broker_embedded._log.retention import Retention
from broker_embedded._log.segment import LogSegment
from broker_embedded._log.transaction_index import AbortedTransaction
from broker_embedded._platform.cancellation import NEVER_CANCELLED, Cancellation
from broker_embedded._platform.platform import File
from spark_kafka_native._records.batch import MAGIC, NO_TIMESTAMP, UnreadableBatch


class AppendResult(NamedTuple):
    """The offsets of an append's records: from ``base_offset`` to ``last_offset``, both included.

    ``log_append_time_ms`` is -1 unless the topic uses LogAppendTime. ``duplicate``: the records were in the log before,
    and the time is that of the first batch.
    """

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool


class Appender:
    """Validates a batch, assigns its offsets, updates its producer's state and writes it to a ``LocalLog``.

    May be used in any thread. Changes of the log are made under the lock of the ``LocalLog``.
    """

    def __init__(
        self, local: LocalLog, producers: ProducerStore, epochs: LeaderEpochFileCache, retention: Retention
    ) -> None:
        self._local = local
        self._producers = producers
        self._epochs = epochs
        self._retention = retention

    def append(
        self,
        records: bytearray | memoryview,
        *,
        leader_epoch: int,
        conditions: AppendConditions = FROM_CLIENT,
        cancellation: Cancellation = NEVER_CANCELLED,
    ) -> AppendResult:
        """As ``Log.append``, but nothing is flushed."""
        view = memoryview(records)
        if view.readonly:
            raise TypeError("records must be writable: offsets are assigned in place")
        local = self._local
        local.check_online()
        append = AppendContext(
            config=local.config,
            partition=str(local),
            origin=conditions.origin,
            now_ms=local.platform.clock.now_ms(),
            base_offset=local.view.end_offset,
            cancellation=cancellation,
        )
        validated = validate(view, append)
        with local.lock:
            local.check_online()
            if local.view.end_offset != append.base_offset:
                validated = renumbered(validated, append._replace(base_offset=local.view.end_offset))
            now_ms = local.platform.clock.now_ms()
            known = None
            if conditions.origin is AppendOrigin.CLIENT:
                known = self._producers.states.duplicate(validated.header)
            if known is None:
                return self._append_new(validated, leader_epoch, now_ms, conditions)
            return AppendResult(
                base_offset=known.first_offset,
                last_offset=known.last_offset,
                log_append_time_ms=known.timestamp,  # the stored time of either type, as Apache Kafka responds
                log_start_offset=self._retention.log_start_offset,
                duplicate=True,
            )

    def _append_new(
        self, validated: ValidatedBatch, leader_epoch: int, now_ms: int, conditions: AppendConditions
    ) -> AppendResult:
        local, records, header = self._local, validated.records, validated.header
        config, base_offset = local.config, local.view.end_offset
        append_time = now_ms if config.log_append_time else NO_TIMESTAMP
        last_offset = base_offset + header.last_offset_delta
        max_timestamp = header.max_timestamp if append_time == NO_TIMESTAMP else append_time
        change = self._producers.plan(
            validated, base_offset=base_offset, append_time=append_time, now_ms=now_ms, conditions=conditions
        )
        active = local.view.active
        try:
            if active.should_roll(
                config, size=len(records), last_offset=last_offset, max_timestamp=max_timestamp, now_ms=now_ms
            ):
                local.start_segment()
                active = local.view.active
        except (OSError, UnreadableBatch) as error:
            local.fail("cannot start a new segment", error)
        placed = assign(validated, base_offset=base_offset, leader_epoch=leader_epoch, log_append_time_ms=append_time)
        aborted = None if change is None else change.aborted
        aborted_file = None if aborted is None else self._open_transaction_index(active)
        local.append(records, placed)
        if header.magic == MAGIC:
            self._epochs.assign(leader_epoch, base_offset)
        else:
            self._epochs.clear()
        if aborted is not None and aborted_file is not None:
            self._index_aborted(active, aborted_file, aborted)
        if change is not None:
            self._producers.states.put(change.entry)
        local.view = local.view.extended(last_offset + 1)
        return AppendResult(
            base_offset=base_offset,
            last_offset=last_offset,
            log_append_time_ms=append_time,
            log_start_offset=self._retention.log_start_offset,
            duplicate=False,
        )

    def _open_transaction_index(self, active: LogSegment) -> File:
        """Open the file before the marker is written, so that a lack of descriptors does not take the log offline."""
        try:
            return active.transaction_index.file()
        except OSError as error:
            self._local.fail("cannot append", error)

    def _index_aborted(self, active: LogSegment, file: File, aborted: AbortedTransaction) -> None:
        """Add an aborted transaction to the index, before the last stable offset moves past its marker.

        Without the entry a consumer would return aborted records. A failure therefore takes the log offline. Recovery
        rebuilds the index from the markers.
        """
        try:
            active.transaction_index.append(aborted, file)
        except OSError as error:
            self._local.go_offline("cannot write the transaction index", error)
