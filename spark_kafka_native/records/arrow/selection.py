"""The part of decoding that goes batch by batch: which batches of a Fetch answer have records to show."""

from dataclasses import dataclass

from crc32c import crc32c

from spark_kafka_native.records.arrow import kernel
from spark_kafka_native.records.arrow.aborted import AbortedTransactions
from spark_kafka_native.records.arrow.batches import Batches
from spark_kafka_native.records.arrow.legacy_walk import Messages, read_run, read_wrapper
from spark_kafka_native.records.arrow.scratch import Scratch
from spark_kafka_native.records.arrow.selected import Limits, Part
from spark_kafka_native.records.arrow.spans import MAX_PAYLOAD_BYTES
from spark_kafka_native.records.arrow.walk import MIN_BODY_BYTES
from spark_kafka_native.records.batch import (
    RECORD_BATCH_OVERHEAD,
    BatchHeader,
    CompressionType,
    CorruptBatch,
    check_crc,
    read_header,
)
from spark_kafka_native.records.compression import decompress
from spark_kafka_native.records.control import ControlType, decode_control
from spark_kafka_native.records.errors import IncompleteBatch, OldFormatBatch
from spark_kafka_native.records.legacy import read_message

_MIN_RECORD_BYTES = 1 + MIN_BODY_BYTES
_CODECS = tuple(CompressionType)
_INT64_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Batches in order; ``next_offset`` and ``bytes_used`` count the batches that were passed over too."""

    parts: list[Part]
    next_offset: int
    bytes_used: int


def select(batches: Batches, limits: Limits, transactions: AbortedTransactions | None, scratch: Scratch) -> Selection:
    """The whole ones of ``batches`` that reach into the wanted offsets, less control and aborted ones.

    Compressed payloads are decompressed into ``scratch``.

    Raises CorruptBatch: as ``decode`` does, for all that is wrong before records are looked at.
    """
    walk = _Walk(batches, limits, transactions, scratch)
    position = walk.leap(batches.start)
    while position < len(batches.view):
        try:
            end = walk.step(position)
        except IncompleteBatch:
            break
        if end is None:
            break
        position = walk.leap(end)
    return Selection(parts=walk.parts, next_offset=walk.next_offset, bytes_used=position - batches.start)


class _Walk:
    """One selection on its way. What is named without an underscore is what the kernel goes on with."""

    def __init__(
        self, batches: Batches, limits: Limits, transactions: AbortedTransactions | None, scratch: Scratch
    ) -> None:
        self._view = batches.view
        self._limits = limits
        self._transactions = transactions
        self._scratch = scratch
        self._target_rows = limits.target_rows or _INT64_MAX
        self._headers = batches.headers if limits.from_offset <= _INT64_MAX else None
        self.parts: list[Part] = []
        self.rows = self.payload_bytes = self.log_position = 0
        self.first_position = -1
        self.next_offset = limits.from_offset

    def leap(self, position: int) -> int:
        """Take or pass over, compiled, what needs no decision from ``position`` on; where that ends."""
        if self._headers is None:
            return position
        limits, transactions = self._limits, self._transactions
        position, taken = kernel.select(
            self._view,
            self._headers,
            position,
            self,
            limits.from_offset,
            min(limits.until_offset, _INT64_MAX),
            min(self._target_rows, _INT64_MAX),
            min(limits.target_bytes, _INT64_MAX),
            MAX_PAYLOAD_BYTES,
            crc32c if limits.check_crcs else None,
            self._unpack,
            transactions is not None,
            _INT64_MAX if transactions is None else transactions.next_offset,
            transactions is not None and transactions.is_one_open,
        )
        if taken:
            self._part(is_old=False).numbers.frombytes(taken)
        return position

    def step(self, position: int) -> int | None:
        """Take or pass over what is at ``position``; where it ends, None if it is for another call."""
        view, limits = self._view, self._limits
        try:
            header = read_header(view, position)
        except OldFormatBatch:
            return self._step_messages(position)
        if not self.log_position <= header.base_offset < limits.until_offset or self._is_full():
            self._stop(position, header)
            return None
        end = position + header.size_in_bytes
        next_offset = header.next_offset
        in_range = next_offset > limits.from_offset
        if limits.check_crcs and (in_range or header.is_control):
            check_crc(view, position, header)
        if _is_visible(view, position, header, self._transactions) and in_range:
            start, codec = position + RECORD_BATCH_OVERHEAD, header.compression
            length = end - start
            if codec is not CompressionType.NONE:
                start, length = self._unpack(position, header.base_offset, codec, end)
            _check_size(length, position, header)
            if self.parts and not self._has_room(end, length):
                return None
            if header.records_count:
                self._take(header, position, start, length)
        self._pass(next_offset)
        return end

    def _unpack(self, position: int, base_offset: int, codec: int, end: int) -> tuple[int, int]:
        """Where in the scratch the payload of the batch at ``position`` begins, decompressed, and its length."""
        try:
            payload = decompress(
                _CODECS[codec],
                self._view[position + RECORD_BATCH_OVERHEAD : end],
                max_bytes=self._limits.max_decompressed_bytes,
            )
        except CorruptBatch as error:
            raise error.placed(start=position, base_offset=base_offset) from error
        return self._scratch.append(payload), len(payload)

    def _step_messages(self, position: int) -> int | None:
        """The same for a wrapper, or for as many messages as can be taken together."""
        view, limits = self._view, self._limits
        header = read_message(view, position)
        end = position + header.size_in_bytes
        if not header.compression:
            if not self.log_position <= header.base_offset < limits.until_offset or self._is_full():
                self._stop(position, header)
                return None
            header, messages = read_run(
                view,
                position,
                from_offset=limits.from_offset,
                until_offset=limits.until_offset,
                check_crcs=limits.check_crcs,
            )
            end = position + header.size_in_bytes
            if header.next_offset > limits.from_offset:
                if self.parts and not self._has_room(end, end - position):
                    return None
                self._take(header, position, position, end - position, messages)
        elif header.base_offset < self.log_position:  # a wrapper has the offset of its last message
            self._stop(position, header)
            return None
        elif header.next_offset > limits.from_offset:
            if self._is_full():
                return None
            header, plain, messages = read_wrapper(
                view, position, header, check_crcs=limits.check_crcs, max_bytes=limits.max_decompressed_bytes
            )
            if not self.log_position <= header.base_offset < limits.until_offset:
                self._stop(position, header)
                return None
            if self.parts and not self._has_room(end, len(plain)):
                return None
            self._take(header, position, self._scratch.append(plain), len(plain), messages)
        self._pass(header.next_offset)
        return end

    def _is_full(self) -> bool:
        """Whether as much as is wanted at once has been taken."""
        return self.payload_bytes >= self._limits.target_bytes or self.rows >= self._target_rows

    def _stop(self, position: int, header: BatchHeader) -> None:
        """Leave the batch for another call, or because nothing behind it is wanted."""
        if header.base_offset < self.log_position:
            raise CorruptBatch(
                f"offset {self.log_position} or a later one must come next",
                position=position,
                base_offset=header.base_offset,
            )
        if header.base_offset >= self._limits.until_offset:
            self.next_offset = self._limits.until_offset

    def _has_room(self, end: int, payload_bytes: int) -> bool:
        """Whether positions stay within bounds with one more payload, which ends at ``end`` in the buffer."""
        return max(end - self.first_position, self.payload_bytes + payload_bytes) <= MAX_PAYLOAD_BYTES

    def _take(
        self, header: BatchHeader, position: int, start: int, length: int, messages: Messages | None = None
    ) -> None:
        if self.first_position < 0:
            self.first_position = position
        part = self._part(is_old=messages is not None)
        part.add(header, position, start, length)
        if messages is not None:
            part.messages.append(messages)
        self.rows += header.records_count
        self.payload_bytes += length

    def _part(self, *, is_old: bool) -> Part:
        """Where the next batch belongs."""
        if not self.parts or self.parts[-1].is_old != is_old:
            self.parts.append(Part(is_old=is_old))
        return self.parts[-1]

    def _pass(self, next_offset: int) -> None:
        self.log_position = next_offset
        if next_offset > self.next_offset:
            self.next_offset = min(next_offset, self._limits.until_offset)


def _is_visible(view: memoryview, position: int, header: BatchHeader, transactions: AbortedTransactions | None) -> bool:
    """Whether the batch has records for users. Ask for every batch, in order: markers end transactions."""
    aborted = transactions is not None and transactions.drops(header)
    if not header.is_control:
        return not aborted
    if transactions is not None and header.has_producer_id:
        record = decode_control(view, position, header)
        if record is not None and record.type is ControlType.ABORT:
            transactions.end(header.producer_id)
    return False


def _check_size(length: int, position: int, header: BatchHeader) -> None:
    """Raise if a payload of ``length`` bytes is too short for its records, or has bytes and no records."""
    count = header.records_count
    if length < count * _MIN_RECORD_BYTES or (length and not count):
        raise CorruptBatch(
            f"{count} records cannot make {length} bytes", position=position, base_offset=header.base_offset
        )
