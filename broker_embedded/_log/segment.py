"""A segment: one ``.log`` file of record batches and its indexes."""

import logging
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from broker_embedded._config.log_config import LogConfig
from broker_embedded._log.batches import batch_headers, first_offset
from broker_embedded._log.index import (
    MAX_RELATIVE_OFFSET,
    CorruptIndex,
    OffsetIndex,
    OverstatedTimestamps,
    TimeIndex,
    TimestampOffset,
)
from broker_embedded._log.segment_files import (
    INDEX,
    LOG,
    TEMPORARY,
    TIME_INDEX,
    TXN_INDEX,
    SegmentFiles,
    deleted_suffix,
    segment_path,
)
from broker_embedded._log.transaction_index import TransactionIndex
from broker_embedded._platform.open_files import LogFile
from broker_embedded._platform.platform import Buffer, File, Platform, remove_if_exists
from spark_kafka_native._records.batch import NO_TIMESTAMP, BatchHeader, CorruptBatch

logger = logging.getLogger(__name__)


class UncutTail(OSError):
    """Part of a batch was written and cannot be truncated, so that no batch may be appended after it."""


class PlacedBatch(NamedTuple):
    """A batch in a buffer to append.

    ``position`` and ``size`` are bytes in the buffer. Offset and timestamp are the final ones.
    """

    position: int
    size: int
    last_offset: int
    max_timestamp: int


class LogSegment:
    """Batches from ``base_offset`` on, in ``{base_offset:020d}.log``, and its sparse indexes.

    Only the owning Log writes, in one thread; any thread may read. ``Platform.open_files`` opens the files on use.
    """

    __slots__ = (
        "_bytes_since_index",
        "_directory",
        "_first_timestamp",
        "_index_interval_bytes",
        "_largest",
        "_platform",
        "_roll_jitter_ms",
        "base_offset",
        "created_ms",
        "offset_index",
        "overstated",
        "path",
        "size",
        "time_index",
        "transaction_index",
    )

    def __init__(
        self,
        directory: str,
        base_offset: int,
        config: LogConfig,
        platform: Platform,
        files: SegmentFiles,
        *,
        suffix: str = "",
    ) -> None:
        self._directory = directory
        self._platform = platform
        self._index_interval_bytes = config.index_interval_bytes
        self._bytes_since_index = 0
        self._largest: TimestampOffset | None = None
        self._first_timestamp: int | None = None
        self.overstated = OverstatedTimestamps()
        self.base_offset = base_offset
        self.size = max(files.log, 0)
        self.created_ms = platform.clock.now_ms()
        path = segment_path(directory, base_offset, "")
        self._roll_jitter_ms = config.roll_jitter_ms(path)
        self.path = path + LOG + suffix
        self.offset_index = OffsetIndex(
            path + INDEX + suffix,
            base_offset,
            open_files=platform.open_files,
            max_bytes=config.segment_index_bytes,
            file_size=max(files.index, 0),
            log_size=self.size,
        )
        self.time_index = TimeIndex(
            path + TIME_INDEX + suffix,
            base_offset,
            open_files=platform.open_files,
            max_bytes=config.segment_index_bytes,
            file_size=max(files.time_index, 0),
        )
        self.transaction_index = TransactionIndex(
            path + TXN_INDEX + suffix, platform.file_system, platform.open_files, exists=files.txn_index >= 0
        )

    @classmethod
    def create(
        cls, directory: str, base_offset: int, config: LogConfig, platform: Platform, *, suffix: str = ""
    ) -> "LogSegment":
        """A new, empty segment. It replaces existing files of these names.

        ``suffix`` ends the files' names until the segment is ``rename``d. The ``.log`` is created last, because the
        next start takes every ``.log`` for a segment.

        Raises OSError: the files created so far were removed again, as far as the disk allows.
        """
        files, open_files = platform.file_system, platform.open_files
        paths = [segment_path(directory, base_offset, kind + suffix) for kind in (INDEX, TIME_INDEX, LOG)]
        try:
            remove_if_exists(files, segment_path(directory, base_offset, TXN_INDEX + suffix))
            for path in paths:
                file = open_files.create(path)
            if config.preallocate and not suffix:
                file.truncate(config.segment_bytes)
        except OSError:
            for path in paths:
                open_files.forget(path)
                try:
                    remove_if_exists(files, path)
                except OSError as error:
                    logger.warning("%s: an incomplete segment cannot be removed: %s", path, error)
            raise
        segment = cls(directory, base_offset, config, platform, SegmentFiles(), suffix=suffix)
        segment._largest = TimestampOffset(NO_TIMESTAMP, base_offset)
        return segment

    def file(self) -> File:
        """The ``.log`` file, open. Raises OSError; FileNotFoundError: it was removed, or the segment closed."""
        return self._platform.open_files.of(self)

    # --- appending ---------------------------------------------------------------------------------------------------

    def append(self, data: Buffer, batches: Iterable[PlacedBatch]) -> None:
        """Append complete batches. The segment is new or was ``prepare``d.

        Raises OSError: nothing was added. UncutTail: nothing was added, but the file must not be written again.
        """
        start = self.size
        file = self.file()
        try:
            file.write_at(start, data)
        except OSError as error:
            try:
                self._cut_tail(file)
            except OSError:
                raise UncutTail(str(error)) from error
            raise
        self.size = start + len(data)
        for batch in batches:
            self.note_batch(start + batch.position, batch.size, batch.last_offset, batch.max_timestamp)
        self._write_indexes_if_many()

    def note_batch(self, position: int, size: int, last_offset: int, max_timestamp: int) -> None:
        """Update the largest timestamp with a batch, and add an index entry if one is due."""
        if self._first_timestamp is None:
            self._first_timestamp = max_timestamp
        if max_timestamp > self.largest.timestamp:
            self._largest = TimestampOffset(max_timestamp, last_offset)
        if self._bytes_since_index > self._index_interval_bytes:
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(self.largest)
            self._bytes_since_index = 0
        self._bytes_since_index += size

    def should_roll(self, config: LogConfig, *, size: int, last_offset: int, max_timestamp: int, now_ms: int) -> bool:
        """Whether the next ``size`` bytes, up to ``last_offset``, must go to a new segment.

        As in Apache Kafka: ``segment.bytes`` would be exceeded; ``segment.ms`` (or ``max.compaction.lag.ms``) has
        passed between the first batch's timestamp and ``max_timestamp`` (or the present time if the first has no
        timestamp), less the jitter of up to ``segment.jitter.ms``; an index is full; or the offset is too far from
        ``base_offset`` for an index. An empty segment is never too old or too full.
        """
        if last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
            return True
        return self.size > 0 and (
            self.size + size > config.segment_bytes
            or self._waited_ms(max_timestamp, now_ms) > config.roll_ms - self._roll_jitter_ms
            or self.offset_index.is_full
            or self.time_index.is_full
        )

    def first_timestamp(self) -> int:
        """The largest timestamp of the first batch, NO_TIMESTAMP without one. Raises OSError, UnreadableBatch."""
        if self._first_timestamp is None:
            first = next(self.headers(0, self.size), None)
            if first is None:
                return NO_TIMESTAMP
            self._first_timestamp = first[1].max_timestamp
        return self._first_timestamp

    def _waited_ms(self, max_timestamp: int, now_ms: int) -> int:
        first = self.first_timestamp()
        return max_timestamp - first if first >= 0 else now_ms - self.created_ms

    def _write_indexes_if_many(self) -> None:
        try:
            self.offset_index.write_pending_if_many()
            self.time_index.write_pending_if_many()
        except OSError as error:  # the entries stay in memory, and no batch is lost without them
            logger.warning("%s: index entries stay in memory: %s", self.path, error)

    def prepare(self) -> None:
        """Read the state that appends need, so that no append fails with a read error.

        Raises OSError, UnreadableBatch.
        """
        self.time_index.last()
        _ = self.largest

    def finish(self) -> None:
        """Complete the index files before the segment is closed or rolled.

        Unused preallocated bytes are released. Raises OSError. May be called again, and appends may follow.
        """
        self._cut_tail(self.file())
        self.time_index.maybe_append(self.largest, closing=True)
        self.offset_index.finish()
        self.time_index.finish()

    def _cut_tail(self, file: File) -> None:
        """Truncate after the last batch: preallocated bytes, or those of a failed append. Raises OSError."""
        if file.size() > self.size:
            file.truncate(self.size)

    def sync(self, *, indexes: bool) -> None:
        """Force the log, and the index files if they are complete, to the disk. Raises OSError."""
        self.file().sync()
        if indexes:
            self.offset_index.sync()
            self.time_index.sync()
            self.transaction_index.sync()

    # --- reading -----------------------------------------------------------------------------------------------------

    def headers(self, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
        """The batches between two positions, headers only. Raises OSError, UnreadableBatch."""
        return batch_headers(self.file(), position, end)

    def locate(self, offset: int, end: int) -> tuple[int, BatchHeader] | None:
        """The first batch that ends at or after ``offset``, with its position; None if it is not before ``end``.

        Raises OSError, UnreadableBatch.
        """
        start = self.position_before(offset)
        try:
            return self._scan(offset, start, end)
        except CorruptBatch as error:
            if start == 0:
                raise
            logger.warning("%s does not fit its log, reading the log from the start: %s", INDEX, error)
            return self._scan(offset, 0, end)

    def position_before(self, offset: int) -> int:
        """A position at or before the first batch that ends at or after ``offset``. Raises OSError."""
        try:
            return self.offset_index.lookup(offset)
        except CorruptIndex as error:
            logger.warning("%s; reading the log from the start", error)
            return 0

    def _scan(self, offset: int, start: int, end: int) -> tuple[int, BatchHeader] | None:
        for position, header in self.headers(start, end):
            if header.last_offset >= offset:
                if start and position == start and header.last_offset > offset:
                    raise CorruptBatch("the index points after the offset", position=position, file=self.path)
                return position, header
        return None

    @property
    def largest(self) -> TimestampOffset:
        """The largest timestamp, and the last offset of the first batch that has it; NO_TIMESTAMP if none has one.

        Raises OSError, UnreadableBatch.
        """
        if self._largest is None:
            try:
                self._largest = self.time_index.last()
            except CorruptIndex as error:
                logger.warning("%s; reading the log", error)
                self._largest = self._largest_in_log()
        return self._largest

    def retention_timestamp(self) -> int:
        """The time from which the segment's age counts: the largest timestamp, else when it was last written.

        Raises OSError, UnreadableBatch.
        """
        largest = self.largest.timestamp
        return largest if largest >= 0 else self.modified_ms()

    def modified_ms(self) -> int:
        """When the log was last written. Raises OSError."""
        return self._platform.file_system.modified_ms(self.path)

    def next_offset(self) -> int:
        """The offset after the last batch, read from the last index entry on.

        Raises OSError. CorruptIndex: the entry's position is after the batch that ends with its offset.
        UnreadableBatch.
        """
        last = self.offset_index.last()
        next_offset, position = self.base_offset, 0 if last is None else last.position
        for found, header in self.headers(position, self.size):
            if last is not None and found == last.position and header.last_offset > last.offset:
                raise CorruptIndex(
                    self.offset_index.path, f"entry {tuple(last)} points to offset {header.last_offset} in the log"
                )
            next_offset = header.next_offset
        return next_offset

    def _largest_in_log(self) -> TimestampOffset:
        largest = TimestampOffset(NO_TIMESTAMP, self.base_offset)
        for _, header in self.headers(0, self.size):
            if header.max_timestamp > largest.timestamp:
                largest = TimestampOffset(header.max_timestamp, header.last_offset)
        return largest

    # --- cutting and removing ----------------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> int:
        """Drop the batch that contains ``offset`` and all after it. Returns the new end offset.

        Raises OSError, UnreadableBatch.
        """
        located = self.locate(offset, self.size)
        if located is None:
            return self.next_offset()
        position, header = located
        end_offset = first_offset(self.file(), position, header)
        self.offset_index.truncate_to(end_offset)
        self.time_index.truncate_to(end_offset)
        self.transaction_index.truncate_to(end_offset)
        self.cut(position)
        self._largest = self._largest_in_log()
        return end_offset

    def cut(self, size: int) -> None:
        """Truncate the log to ``size`` bytes, durably. The caller truncates the indexes. Raises OSError."""
        file = self.file()
        file.truncate(size)
        file.sync()
        self.size = size
        self._bytes_since_index = 0
        if size == 0:
            self._first_timestamp = None
            self.created_ms = self._platform.clock.now_ms()

    def begin_rebuild(self, *, durable: bool) -> None:
        """Empty the indexes, for ``note_batch`` to fill with each batch and ``finish`` to write. Raises OSError.

        Until ``end_rebuild`` there is no ``.index``, so that a start after a crash rebuilds the segment again, because
        its transaction index is incomplete. ``durable``: also after a crash of the machine.
        """
        files, open_files = self._platform.file_system, self._platform.open_files
        open_files.forget(self.offset_index.path)
        if remove_if_exists(files, self.offset_index.path) and durable:
            files.sync_directory(self._directory)
        self.offset_index.path = segment_path(self._directory, self.base_offset, INDEX + TEMPORARY)
        open_files.create(self.offset_index.path)
        if not files.exists(self.time_index.path):
            open_files.create(self.time_index.path)
        self.offset_index.reset()
        self.time_index.reset()
        self.transaction_index.reset()
        self._largest = TimestampOffset(NO_TIMESTAMP, self.base_offset)
        self._first_timestamp = None
        self._bytes_since_index = 0

    def end_rebuild(self, *, durable: bool) -> None:
        """Mark all indexes as complete: rename the ``.index`` to its final name. Raises OSError."""
        if durable:
            self.sync(indexes=True)
            self._platform.file_system.sync_directory(self._directory)
        self._platform.open_files.rename(self.offset_index, segment_path(self._directory, self.base_offset, INDEX))

    # --- names -------------------------------------------------------------------------------------------------------

    def paths(self) -> list[str]:
        """The paths of the files, the log first; none once the segment is closed."""
        return [part.path for _, part in self.parts() if part.path]

    def rename(self, suffix: str) -> None:
        """Rename the files to end with ``suffix``, the log first. Reads in progress continue.

        Raises OSError: some may have the new name.
        """
        for kind, part in self.parts():
            self._platform.open_files.rename(part, segment_path(self._directory, self.base_offset, kind + suffix))

    def rename_deleted(self) -> None:
        """As ``rename``, with the suffix of ``deleted_suffix``, as far as the disk allows.

        The ``.log`` is renamed first: a crash before the others leaves indexes without a log, which the next start
        removes. A file that cannot be renamed keeps its name, because a full or failing disk must not stop retention.
        """
        try:
            suffix = deleted_suffix(self._platform.file_system, self._directory, self.base_offset)
        except OSError as error:
            logger.warning("%s cannot be renamed before its deletion: %s", self.path, error)
            return
        for kind, part in self.parts():
            target = segment_path(self._directory, self.base_offset, kind + suffix)
            try:
                self._platform.open_files.rename(part, target)
            except FileNotFoundError:
                part.path = target
            except OSError as error:
                logger.warning("%s cannot be renamed before its deletion: %s", part.path, error)

    def remove(self) -> int:
        """Close the segment and remove its files; how many there were. Raises OSError: some may be left."""
        paths = self.paths()
        self.close()
        return sum(remove_if_exists(self._platform.file_system, path) for path in paths)

    def close(self) -> None:
        """Close the files once no reader uses them, and never open them again."""
        for _, part in self.parts():
            self._platform.open_files.close(part)

    def parts(self) -> Iterator[tuple[str, LogFile]]:
        """The suffix of each file, and the file as `OpenFiles` knows it."""
        yield LOG, self
        yield INDEX, self.offset_index
        yield TIME_INDEX, self.time_index
        if self.transaction_index.exists:
            yield TXN_INDEX, self.transaction_index
