"""Find the records of a v2 batch with a timestamp out of range, or without a key.

Of each record only timestamp, offset and key length are read, piece by piece.

A batch of any decompressed size takes the memory of one piece (`pieces`). The records are read by the compiled kernel
where it has been built, else in plain Python, without numpy, whose import would slow a broker's start. The kernel is
imported at first use. Plain Python alone says what is wrong with a record that the kernel refuses.

Kafka adds a record's deltas to the base timestamp and the base offset in 64 bits, and an overflow wraps around.
"""

import os
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final, NamedTuple, Protocol

from spark_kafka_native.records._kernel import VARIABLE, if_wanted
from spark_kafka_native.records.batch import NO_TIMESTAMP, BatchHeader, TimestampType
from spark_kafka_native.records.codec import Buffer
from spark_kafka_native.records.errors import BadRecord, CorruptBatch
from spark_kafka_native.records.record import MIN_BODY_BYTES, VARINT_BYTES, VARLONG_BYTES, as_int64, read_varint

LONG_MIN: Final = -(2**63)
LONG_MAX: Final = 2**63 - 1

MORE, FOUND, VALUE, BAD, DONE = range(5)
"""What ``scan`` returns.

MORE: the next record is not complete in the block. FOUND: a record that matches. VALUE: the length of the last
record's value, ``rest`` bytes before the record's end, is not in the block and is to be checked. BAD: it is no record.
DONE: there are no more records.
"""

_START_BYTES: Final = VARINT_BYTES + 1 + VARLONG_BYTES + 3 * VARINT_BYTES
"""Bytes that a record has before its key at most, and of the value's length."""


class FoundRecord(NamedTuple):
    """A record that was looked for. ``record_index`` counts from 0 within the batch."""

    record_index: int
    offset: int
    timestamp: int
    has_key: bool


class Scanner(Protocol):
    """Reads the records of a batch, block by block.

    ``index`` is the number of records that were read. ``timestamp``, ``offset_delta``, ``has_key`` and ``is_found`` are
    of the last one. ``largest`` is the largest timestamp, -1 if no record has one. ``in_order``: every record's offset
    delta is its index.
    """

    index: int
    timestamp: int
    offset_delta: int
    has_key: bool
    is_found: bool
    rest: int
    largest: int
    in_order: bool

    def __init__(
        self,
        count: int,
        base_time: int,
        is_stamped: bool,
        earliest: int,
        latest: int,
        needs_key: bool,
        from_delta: int,
    ) -> None:
        """See `PythonScanner`."""

    def scan(self, block: Buffer, position: int, is_last: bool) -> tuple[int, int]:
        """Read from ``position`` on; return one of the constants above, and the next position, maybe after the block.

        ``is_last``: nothing follows the block.
        """


class PythonScanner:
    """The reference of the kernel's `Scanner`, which it equals except that ``scan`` raises BadRecord for BAD."""

    def __init__(
        self,
        count: int,
        base_time: int,
        is_stamped: bool,
        earliest: int,
        latest: int,
        needs_key: bool,
        from_delta: int,
    ) -> None:
        """``count`` records; with ``is_stamped`` all have ``base_time``.

        Looked for are records from ``from_delta`` on with a time that is not between ``earliest`` and ``latest``, or,
        with ``needs_key``, without a key. A record without a timestamp has no time that could be out of range.
        """
        self._count, self._base_time, self._is_stamped = count, base_time, is_stamped
        self._earliest, self._latest, self._needs_key, self._from_delta = earliest, latest, needs_key, from_delta
        self.index = self.timestamp = self.offset_delta = self.rest = 0
        self.largest = NO_TIMESTAMP
        self.has_key = self.is_found = False
        self.in_order = True

    def scan(self, block: Buffer, position: int, is_last: bool) -> tuple[int, int]:
        """As `Scanner`. Raises BadRecord."""
        view = memoryview(block)
        size = len(view)
        while self.index < self._count:
            index = self.index
            if not is_last and size - position < _START_BYTES:
                return MORE, position
            length, at = read_varint(view, position, size, index)
            end = at + length
            if length < MIN_BODY_BYTES or (is_last and end > size):
                raise BadRecord(index, f"impossible record length {length}, {size - at} bytes are left")
            stop = min(end, size)
            time, at = read_varint(view, at + 1, stop, index, VARLONG_BYTES)
            delta, at = read_varint(view, at, stop, index)
            key_length, at = read_varint(view, at, stop, index)
            value_at = at + max(key_length, 0)
            if delta < 0 or key_length < -1 or value_at >= end:
                raise _bad_fields(index)
            self.offset_delta, self.has_key = delta, key_length >= 0
            self.timestamp = self._base_time if self._is_stamped else as_int64(self._base_time + time)
            is_whole = value_at + VARINT_BYTES <= size or is_last
            if is_whole:
                check_value(view, value_at, stop, end - value_at, index)
            self._take()
            if not is_whole:
                self.rest = end - value_at
                return VALUE, value_at
            position = end
            if self.is_found:
                return FOUND, position
        return DONE, position

    def _take(self) -> None:
        self.largest = max(self.largest, self.timestamp)
        self.in_order = self.in_order and self.offset_delta == self.index
        self.index += 1
        out_of_range = self.timestamp != NO_TIMESTAMP and not self._earliest <= self.timestamp <= self._latest
        without_key = self._needs_key and not self.has_key
        self.is_found = self.offset_delta >= self._from_delta and (out_of_range or without_key)


def check_value(view: memoryview, position: int, stop: int, rest: int, index: int) -> None:
    """Check the length of a value at ``position``, ``rest`` bytes before its record's end. Raises BadRecord."""
    length, at = read_varint(view, position, stop, index)
    if length < -1 or at - position + max(length, 0) >= rest:
        raise _bad_fields(index)


def _bad_fields(index: int) -> BadRecord:
    return BadRecord(index, "its offset, key, value and headers are not what a record has")


def _load() -> type[Scanner]:
    from spark_kafka_native.records._kernel.scan import Scanner as Compiled  # noqa: PLC0415 -- at first use

    return Compiled


@cache
def compiled() -> type[Scanner] | None:
    """The kernel's scanner, None where it has not been built or is not wanted. Raises as ``if_wanted``."""
    return if_wanted(os.environ.get(VARIABLE, ""), _load)


class RecordScan:
    """One scan of a batch's records. Exhaust `found`; after that ``in_order`` and ``largest`` are valid."""

    def __init__(
        self,
        header: BatchHeader,
        *,
        earliest: int = LONG_MIN,
        latest: int = LONG_MAX,
        needs_key: bool = False,
        from_offset: int = 0,
    ) -> None:
        """See `PythonScanner`. ``from_offset`` is an offset of the log."""
        is_stamped = header.timestamp_type is TimestampType.LOG_APPEND_TIME
        self._base_offset = header.base_offset
        self._settings = (
            header.records_count,
            header.max_timestamp if is_stamped else header.base_timestamp,
            is_stamped,
            earliest,
            latest,
            needs_key,
            max(LONG_MIN, min(from_offset - header.base_offset, LONG_MAX)),
        )
        self._scanner: Scanner = (compiled() or PythonScanner)(*self._settings)
        self._block: Buffer = b""
        self._position = 0
        """Where to read on, maybe after the block."""
        self._status = MORE

    @property
    def in_order(self) -> bool:
        """Whether every record's offset delta is its index."""
        return self._scanner.in_order

    @property
    def largest(self) -> int:
        """The largest timestamp, -1 if no record has one."""
        return self._scanner.largest

    def found(self, pieces: Iterable[Buffer]) -> Iterator[FoundRecord]:
        """The records that were looked for, in order; ``pieces`` are the decompressed payload.

        Raises CorruptBatch: the payload does not hold what the header says.
        """
        try:
            yield from self._found(pieces)
        except BadRecord as error:
            raise CorruptBatch(f"bad record: {error.detail}", record_index=error.index) from None

    def _found(self, pieces: Iterable[Buffer]) -> Iterator[FoundRecord]:
        scanner = self._scanner
        for piece in pieces:
            self._add(piece)
            while self._step(is_last=False):
                if scanner.is_found:
                    yield self._last_record()
        self._add(b"")
        while self._step(is_last=True):
            if scanner.is_found:
                yield self._last_record()
        if self._position > len(self._block):
            missing = self._position - len(self._block)
            raise BadRecord(scanner.index - 1, f"impossible record length, {missing} bytes are missing")

    def _last_record(self) -> FoundRecord:
        scanner = self._scanner
        offset = self._base_offset + scanner.offset_delta
        return FoundRecord(scanner.index - 1, offset, scanner.timestamp, scanner.has_key)

    def _add(self, piece: Buffer) -> None:
        """Go from the block that was read to one that continues with ``piece``."""
        if self._position < len(self._block):
            self._block = b"".join((memoryview(self._block)[self._position :], piece))
            self._position = 0
        else:
            self._position -= len(self._block)
            self._block = piece

    def _step(self, *, is_last: bool) -> bool:
        """Read on in the block; whether it stopped at a record, rather than at the end of the block or the records."""
        if self._status == VALUE:
            if not is_last and len(self._block) - self._position < VARINT_BYTES:
                return False
            scanner = self._scanner
            check_value(memoryview(self._block), self._position, len(self._block), scanner.rest, scanner.index - 1)
            self._position += scanner.rest
            self._status = MORE
        if self._status != DONE:
            if not is_last and self._position >= len(self._block):
                return False
            self._status, self._position = self._scan(is_last=is_last)
        if self._status == DONE and self._position < len(self._block):
            left = len(self._block) - self._position
            raise CorruptBatch(f"{left} bytes are left after the batch's last record")
        return self._status in {FOUND, VALUE}

    def _scan(self, *, is_last: bool) -> tuple[int, int]:
        status, position = self._scanner.scan(self._block, self._position, is_last)
        if status == BAD:
            again = PythonScanner(*self._settings)
            again.index = self._scanner.index
            again.scan(self._block, position, is_last)
            raise AssertionError(f"record {again.index} is refused by the kernel alone")
        return status, position
