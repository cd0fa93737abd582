"""Restore and store a partition's producer state: snapshots, and replaying the log after the last one."""

import logging
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from broker_embedded._log.append.incoming import AppendConditions, ValidatedBatch
from broker_embedded._log.append.producer_snapshot import CorruptSnapshot, decode, encode
from broker_embedded._log.append.producer_state import AppendedBatch, EndOfTransaction, ProducerChange, ProducerStates
from broker_embedded._log.segment import LogSegment
from broker_embedded._log.segment_files import SNAPSHOT, segment_path
from broker_embedded._platform.platform import Buffer, Platform, read_file, remove_if_exists
from spark_kafka_native._records.batch import NO_TIMESTAMP, BatchHeader
from spark_kafka_native._records.control import ControlType, decode_control

logger = logging.getLogger(__name__)

PRODUCER_ID_EXPIRATION_MS: Final = 24 * 60 * 60 * 1000


class ProducerStore:
    """``states`` and their snapshot files.

    A snapshot is written when a segment is rolled, named after the new segment's base offset, and when the log closes.
    It is synced later by ``sync``: its CRC shows whether it is valid, and an older one can be used instead.
    """

    def __init__(
        self, directory: str, partition: str, platform: Platform, *, expiration_ms: int = PRODUCER_ID_EXPIRATION_MS
    ) -> None:
        self._directory = directory
        self._platform = platform
        self._offsets: list[int] = []
        self._unsynced: list[int] = []
        self.states = ProducerStates(partition, expiration_ms=expiration_ms)

    def load(
        self,
        segments: Sequence[LogSegment],
        snapshots: Iterable[int],
        *,
        end_offset: int,
        rebuilt: Collection[int] = (),
    ) -> None:
        """Restore the producers as of ``end_offset``.

        1. Snapshots after the end of the log are removed, because their records are lost and their offsets will be
           assigned again.
        2. The last readable snapshot is restored, but none after the first of the ``rebuilt`` segments.
        3. The headers after it are replayed. The transaction indexes of the ``rebuilt`` segments, which are empty, are
           rebuilt.

        Crash in any step: the next start repeats all steps. Raises OSError, UnreadableBatch.
        """
        self._offsets = sorted(snapshots)
        self.remove([offset for offset in self._offsets if offset > end_offset])
        self._remove_strays(segments)
        self.states.clear()
        start = self._restore(min([end_offset, *rebuilt]))
        now_ms = self._platform.clock.now_ms()
        for index, segment in enumerate(segments):
            following = segments[index + 1].base_offset if index + 1 < len(segments) else end_offset
            if following > start:
                self._replay(segment, start, now_ms, fill_transaction_index=segment.base_offset in rebuilt)

    def plan(
        self,
        validated: ValidatedBatch,
        *,
        base_offset: int,
        append_time: int,
        now_ms: int,
        conditions: AppendConditions,
    ) -> ProducerChange | None:
        """The change of appending a batch at ``base_offset``. ``append_time`` is -1 for CreateTime.

        Raises KafkaError as ``ProducerStates.plan``, CorruptBatch: a control batch without a control record.
        """
        header = validated.header
        if not header.has_producer_id:
            return None
        batch = AppendedBatch(
            header,
            base_offset,
            header.max_timestamp if append_time == NO_TIMESTAMP else append_time,
            marker_of(validated.records, 0, header),
        )
        return self.states.plan(batch, now_ms=now_ms, conditions=conditions)

    def take(self, offset: int) -> None:
        """Write the snapshot of ``offset``, the end of the log. Raises OSError: an older one is still valid."""
        data = encode(self.states.entries)
        file = self._platform.file_system.create(self._path(offset))
        file.write_at(0, data)
        self._unsynced.append(offset)
        if offset not in self._offsets:
            self._offsets = sorted([*self._offsets, offset])

    @property
    def snapshots(self) -> tuple[int, ...]:
        """The offsets of all snapshots, ascending."""
        return tuple(self._offsets)

    def unsynced(self) -> list[int]:
        """Offsets of the snapshots written since the last call, for ``sync``."""
        offsets, self._unsynced = self._unsynced, []
        return offsets

    def not_synced(self, offsets: Iterable[int]) -> None:
        """Add offsets of ``unsynced`` again whose snapshots could not be synced."""
        self._unsynced += offsets

    def sync(self, offsets: Iterable[int]) -> None:
        """Force snapshots to the disk; those removed meanwhile are skipped. Raises OSError."""
        for offset in offsets:
            try:
                self._platform.file_system.open(self._path(offset)).sync()
            except FileNotFoundError:
                continue

    def remove(self, offsets: Iterable[int]) -> None:
        """Remove snapshots, if they exist. The next start removes those that cannot be removed."""
        for offset in offsets:
            if offset in self._offsets:
                self._offsets.remove(offset)
                try:
                    remove_if_exists(self._platform.file_system, self._path(offset))
                except OSError as error:
                    logger.warning("%s cannot be removed: %s", self._path(offset), error)

    def _remove_strays(self, segments: Sequence[LogSegment]) -> None:
        """Keep the snapshot of each segment, and the last one, which a clean shutdown wrote."""
        keep = {segment.base_offset for segment in segments}
        self.remove([offset for offset in self._offsets[:-1] if offset not in keep])

    def _restore(self, until_offset: int) -> int:
        for offset in reversed([offset for offset in self._offsets if offset <= until_offset]):
            try:
                for entry in decode(read_file(self._platform.file_system, self._path(offset))):
                    self.states.put(entry)
            except CorruptSnapshot as error:
                logger.warning("%s: removed: %s", self._path(offset), error)
                self.remove([offset])
            else:
                return offset
        return 0

    def _replay(self, segment: LogSegment, start: int, now_ms: int, *, fill_transaction_index: bool) -> None:
        position = segment.position_before(start)
        for at, header in segment.headers(position, segment.size):
            if header.base_offset < start or not header.has_producer_id:
                continue
            batch = AppendedBatch(
                header=header,
                base_offset=header.base_offset,
                max_timestamp=header.max_timestamp,
                marker=read_marker(segment, at, header),
            )
            change = self.states.plan(batch, now_ms=now_ms, conditions=None)
            self.states.put(change.entry)
            if fill_transaction_index and change.aborted is not None:
                segment.transaction_index.append(change.aborted)

    def _path(self, offset: int) -> str:
        return segment_path(self._directory, offset, SNAPSHOT)


def read_marker(segment: LogSegment, position: int, header: BatchHeader) -> EndOfTransaction | None:
    """The marker of a batch in a segment; None if it does not end a transaction. Raises OSError, CorruptBatch."""
    if not header.is_control:
        return None
    return marker_of(segment.file().read_at(position, header.size_in_bytes), 0, header)


def marker_of(buffer: Buffer, position: int, header: BatchHeader) -> EndOfTransaction | None:
    """The marker of the batch at ``position``; None if it does not end a transaction. Raises CorruptBatch."""
    record = decode_control(buffer, position, header) if header.is_control else None
    if record is None or record.coordinator_epoch is None:
        return None
    return EndOfTransaction(record.type is ControlType.ABORT, record.coordinator_epoch)
