"""Find the records of a v2 batch with a timestamp out of range, or without a key.

Of each record only timestamp, offset and key length are read, piece by piece.

A batch of any decompressed size takes the memory of one piece (`decompressed_pieces`). The records are read by the
compiled kernel, which is imported at first use; where it has not been built, by `parse_records`, which holds a block of
records. `parse_records` raises the error for a record that the kernel refuses.

Kafka adds a record's deltas to the base timestamp and the base offset in 64 bits, and an overflow wraps around.
"""

import os
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain
from typing import Final, NamedTuple, NoReturn, Protocol

from spark_kafka_native._records._kernel import VARIABLE, if_wanted
from spark_kafka_native._records.batch import NO_TIMESTAMP, BatchHeader, TimestampType
from spark_kafka_native._records.compression import Buffer
from spark_kafka_native._records.errors import CorruptBatch
from spark_kafka_native._records.record import VARINT_BYTES, bad_record, bad_value, parse_records, read_varint

LONG_MIN: Final = -(2**63)
LONG_MAX: Final = 2**63 - 1

MORE, FOUND, VALUE, BAD, DONE = range(5)
"""What ``scan`` returns.

MORE: the next record is not complete in the block. FOUND: a record that matches. VALUE: the length of the last
record's value, ``rest`` bytes before the record's end, is not in the block and is to be checked. BAD: it is no record.
DONE: there are no more records.
"""


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
        """``count`` records; with ``is_stamped`` all have ``base_time``. All else as in `RecordScan`."""

    def scan(self, block: Buffer, position: int, is_last: bool) -> tuple[int, int]:
        """Read from ``position`` on; return one of the constants above, and the next position, maybe after the block.

        ``is_last``: nothing follows the block.
        """


def _load() -> type[Scanner]:
    from spark_kafka_native._records._kernel.scan import Scanner as Compiled  # noqa: PLC0415 -- at first use

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
        """Search records from ``from_offset`` on with a time outside of ``earliest`` to ``latest``, or without a key.

        Records without a key are searched only if ``needs_key``. A record without a timestamp is in every range.
        """
        self._header = header
        self._earliest, self._latest, self._needs_key, self._from_offset = earliest, latest, needs_key, from_offset
        self.in_order = True
        """Whether every record's offset delta is its index."""
        self.largest = NO_TIMESTAMP
        """The largest timestamp, -1 if no record has one."""

    def found(self, pieces: Iterable[Buffer]) -> Iterator[FoundRecord]:
        """The records that were searched, in order; ``pieces`` are the decompressed payload.

        Raises CorruptBatch: the payload does not hold what the header says.
        """
        scanner_type = compiled()
        return self._found_in_python(pieces) if scanner_type is None else self._found_compiled(pieces, scanner_type)

    def _found_in_python(self, pieces: Iterable[Buffer]) -> Iterator[FoundRecord]:
        for index, record in enumerate(parse_records(pieces, self._header)):
            offset, timestamp, key, _, _ = record
            self.largest = max(self.largest, timestamp)
            self.in_order = self.in_order and offset == self._header.base_offset + index
            out_of_range = timestamp != NO_TIMESTAMP and not self._earliest <= timestamp <= self._latest
            if offset >= self._from_offset and (out_of_range or (self._needs_key and key is None)):
                yield FoundRecord(index, offset, timestamp, key is not None)

    def _found_compiled(self, pieces: Iterable[Buffer], scanner_type: type[Scanner]) -> Iterator[FoundRecord]:
        header = self._header
        is_stamped = header.timestamp_type is TimestampType.LOG_APPEND_TIME
        scanner = scanner_type(
            header.records_count,
            header.max_timestamp if is_stamped else header.base_timestamp,
            is_stamped,
            self._earliest,
            self._latest,
            self._needs_key,
            max(LONG_MIN, min(self._from_offset - header.base_offset, LONG_MAX)),
        )
        yield from _CompiledScan(header, scanner, pieces).found()
        self.in_order, self.largest = scanner.in_order, scanner.largest


class _CompiledScan:
    """A scanner that goes from piece to piece of a payload."""

    def __init__(self, header: BatchHeader, scanner: Scanner, pieces: Iterable[Buffer]) -> None:
        self._header, self._scanner, self._pieces = header, scanner, iter(pieces)
        self._block: Buffer = b""
        self._position = 0
        """Where to continue, maybe after the block."""
        self._status = MORE

    def found(self) -> Iterator[FoundRecord]:
        """The records that were searched, each once its last byte has been seen. Raises CorruptBatch."""
        scanner, waiting = self._scanner, None
        for piece in chain(self._pieces, (None,)):
            is_last = piece is None
            if piece is not None:
                self._add(piece)
            elif self._status == DONE and self._position == len(self._block):
                break
            while (self._status != VALUE or self._check_value(is_last=is_last)) and self._position <= len(self._block):
                if waiting is not None:
                    yield waiting
                    waiting = None
                if self._status == DONE or not self._scan(is_last=is_last):
                    break
                if scanner.is_found:
                    offset = self._header.base_offset + scanner.offset_delta
                    waiting = FoundRecord(scanner.index - 1, offset, scanner.timestamp, scanner.has_key)
            if self._status == DONE and self._position < len(self._block):
                left = len(self._block) - self._position
                raise CorruptBatch(f"{left} bytes are left after the batch's last record")
        if self._position > len(self._block):
            missing = self._position - len(self._block)
            raise bad_record(scanner.index - 1, f"the batch ends {missing} bytes before the record does")

    def _add(self, piece: Buffer) -> None:
        """Replace the block by what is left of it and ``piece``."""
        if self._position < len(self._block):
            self._block = b"".join((memoryview(self._block)[self._position :], piece))
            self._position = 0
        else:
            self._position -= len(self._block)
            self._block = piece

    def _check_value(self, *, is_last: bool) -> bool:
        """Check the length of the last record's value and go to the record's end; False if it is not in the block."""
        rest, left = self._scanner.rest, len(self._block) - self._position
        if left < (rest if is_last else VARINT_BYTES):
            self._position += rest if is_last else 0
            return False
        index = self._scanner.index - 1
        length, at = read_varint(self._block, self._position, self._position + min(rest, left), index)
        rest -= at - self._position
        if length < -1 or max(length, 0) >= rest:
            raise bad_value(index, length, rest)
        self._position, self._status = at + rest, MORE
        return True

    def _scan(self, *, is_last: bool) -> bool:
        """Read on; whether it stopped at a record, rather than at the end of the block or of the records."""
        if self._position == len(self._block) and not is_last:
            return False
        self._status, self._position = self._scanner.scan(self._block, self._position, is_last)
        if self._status == BAD:
            self._raise_error()
        return self._status in {FOUND, VALUE}

    def _raise_error(self) -> NoReturn:
        """Read the record that the kernel has refused again, and raise its error."""
        index = self._scanner.index
        pieces = chain([memoryview(self._block)[self._position :]], self._pieces)
        for _ in parse_records(pieces, self._header, index):
            break
        raise AssertionError(f"record {index} is refused by the kernel alone")
