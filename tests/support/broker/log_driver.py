"""A log on a disk in memory, driven in few words, with what it should hold beside it."""

import random
from collections.abc import Iterator, Mapping
from typing import Any, cast

from broker_embedded._config.log_config import LogConfig
from broker_embedded._log.appender import AppendResult
from broker_embedded._log.log import Log
from broker_embedded._log.opening import open_log
from broker_embedded._log.timestamp_lookup import ContinueAt, OffsetTimestamp
from broker_embedded._log.view import LogSlice
from broker_embedded._platform.platform import File, ManualClock, Platform
from spark_kafka_native._protocol.wire import FileRegion
from spark_kafka_native._records.batch import BatchHeader
from spark_kafka_native._records.formats import iter_any
from tests.support.broker.disk import FaultyFileSystem, MemoryFileSystem
from tests.support.records.log_batches import NOW_MS, batch, rows

DATA_DIR = "/data"
DIRECTORY = "/data/t-0"


def region_bytes(region: FileRegion) -> bytes:
    """What would be sent of a region."""
    return cast("File", region.owner.file()).read_at(region.position, region.length)


def slice_bytes(found: LogSlice) -> bytes:
    """What would be sent of a slice."""
    return b"".join(map(region_bytes, found.regions))


def offset_for_timestamp(log: Log, timestamp: int | None) -> OffsetTimestamp | None:
    """The first record with that timestamp or a later one, for None with the largest; None if there is none."""
    found = log.reader.look_up(timestamp)
    while isinstance(found, ContinueAt):
        found = log.reader.look_up(timestamp, found.offset)
    return found


def batches_of(log: Log, from_offset: int = 0) -> Iterator[tuple[BatchHeader, bytes]]:
    """Each whole batch, from the one that holds an offset up to the end as it was at the first call."""
    until = log.high_watermark
    while from_offset < until:
        raw = slice_bytes(log.reader.read(from_offset, max_bytes=1 << 20, upper_bound_offset=until))
        found = list(iter_any(raw))
        if not found:
            return
        for position, header in found:
            yield header, raw[position : position + header.size_in_bytes]
        from_offset = found[-1][1].next_offset


class LogDriver:
    """One log. ``values`` are those appended, by offset from ``first_offset`` on; ``flushed`` of them must survive."""

    def __init__(self, settings: Mapping[str, object] | None = None) -> None:
        self.config = LogConfig.parse(settings or {})
        self.clock = ManualClock(NOW_MS)
        self.disk = MemoryFileSystem(self.clock)
        self.faults = FaultyFileSystem(self.disk)
        self.values: list[bytes] = []
        self.in_flight: tuple[bytes, ...] = ()
        self.flushed = 0
        self.checkpointed = 0
        self._next = 0
        for directory in (DATA_DIR, DIRECTORY):
            self.disk.make_directory(directory)
        self.disk.sync_directory("/")
        self.disk.sync_directory(DATA_DIR)
        self.log = self._open(clean=True)

    def append(self, *values: bytes, count: int = 1, leader_epoch: int = 0, **fields: Any) -> AppendResult:
        """Append one batch, of ``count`` values of their own if none is given; ``fields`` as of ``batch``."""
        if not values:
            values = tuple(b"%06d" % (self._next + index) for index in range(count))
        fields.setdefault("timestamps", self.clock.now_ms())
        self.in_flight = values
        result = self.log.append(batch(*values, **fields), leader_epoch=leader_epoch)
        self.in_flight = ()
        if not result.duplicate:
            assert result.base_offset == len(self.values)
            self._next += len(values)
            self.values += values
        return result

    def flush(self) -> None:
        """Flush, and say what must survive; the recovery point is checkpointed."""
        self.log.local.flush()
        self.flushed = len(self.values)
        self.checkpointed = self.log.local.recovery_point

    def contents(self, *, max_bytes: int = 300) -> list[tuple[int, bytes]]:
        """Offset and value of every record, read as a consumer does, a little at a time."""
        found: list[tuple[int, bytes]] = []
        offset = self.log.log_start_offset
        while offset < self.log.log_end_offset:
            read = rows(slice_bytes(self.log.reader.read(offset, max_bytes=max_bytes)))
            assert read, f"nothing at offset {offset}"
            found += [(row.offset, row.value) for row in read if row.offset >= offset]
            offset = read[-1].offset + 1
        return found

    def expected(self) -> list[tuple[int, bytes]]:
        """What ``contents`` should be."""
        start = self.log.log_start_offset
        return list(enumerate(self.values))[start:]

    def check(self) -> None:
        """The log holds what it should."""
        assert self.log.log_end_offset == len(self.values)
        assert self.contents() == self.expected()

    def reopen(self, *, clean: bool = True, **options: int) -> None:
        """Close, or stop the process without closing, and open again."""
        if clean:
            self.log.close()
            self.flushed, self.checkpointed = len(self.values), self.log.local.recovery_point
        self.disk.restart()
        self.log = self._open(clean=clean, **options)

    def crash(self, chance: random.Random | None = None) -> None:
        """Stop the machine and start again; what is left becomes what is expected, if it may be."""
        self.disk.crash(chance)
        self.faults.revive()
        self.log = self._open(clean=False)
        self.take_what_survived()

    def take_what_survived(self) -> None:
        """Check that the log is a beginning of what it was, with everything that was flushed; continue from there.

        An append that did not return may be there or not.
        """
        self.values += self.in_flight
        self.in_flight = ()
        end = self.log.log_end_offset
        assert self.flushed <= end <= len(self.values), f"{self.flushed} <= {end} <= {len(self.values)}"
        del self.values[end:]
        self.flushed = min(self.flushed, end)
        self.checkpointed = self.log.local.recovery_point
        self.check()

    def _open(self, *, clean: bool, **options: int) -> Log:
        options.setdefault("recovery_point", self.checkpointed)
        platform = Platform(clock=self.clock, file_system=self.faults, max_open_files=4)
        return open_log(DIRECTORY, self.config, platform, clean_shutdown=clean, **cast("Any", options))

    def files(self) -> dict[str, int]:
        """Names and sizes in the log's directory."""
        return {entry.name: entry.size for entry in self.disk.list_directory(DIRECTORY)}
