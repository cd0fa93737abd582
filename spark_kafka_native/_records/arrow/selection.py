"""The first part of decoding: which batches of a Fetch response have records to show."""

from dataclasses import dataclass
from itertools import pairwise
from operator import lt

from crc32c import crc32c

from spark_kafka_native._records.arrow import kernel
from spark_kafka_native._records.arrow.aborted import AbortedTransactions, is_visible
from spark_kafka_native._records.arrow.batches import Batches
from spark_kafka_native._records.arrow.selected import Limits, MessagePart, Part
from spark_kafka_native._records.batch import (
    RECORD_BATCH_OVERHEAD,
    BatchHeader,
    CompressionType,
    CorruptBatch,
    check_crc,
    read_header,
)
from spark_kafka_native._records.decompression import decompress_to
from spark_kafka_native._records.errors import IncompleteBatch, OldFormatBatch
from spark_kafka_native._records.legacy import (
    Messages,
    check_message_crc,
    open_wrapper,
    read_message,
    read_wrapped,
    walk_messages,
)
from spark_kafka_native._records.record import MIN_RECORD_BYTES
from spark_kafka_native._records.scratch import Scratch

MAX_PAYLOAD_BYTES = 2**31 - 1
"""Offsets within an Arrow array are int32."""
_RUN_MESSAGES = 8192
_RUN_BYTES = 1 << 20
"""Limits of the messages that are read together, so that few are read after ``target_rows``."""
_CODECS = tuple(CompressionType)
_MAGIC_AT = 16
_ATTRIBUTES_AT = 17
_INT64_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Batches in order; ``next_offset`` and ``bytes_used`` count skipped batches too."""

    parts: list[Part | MessagePart]
    next_offset: int
    bytes_used: int


def select(batches: Batches, limits: Limits, transactions: AbortedTransactions | None, scratch: Scratch) -> Selection:
    """The whole batches with wanted offsets, except control batches and aborted ones.

    Compressed payloads are decompressed into ``scratch``.

    Raises CorruptBatch: as ``decode``, for all errors but those of single records.
    """
    selector = _Selector(batches, limits, transactions, scratch)
    position = selector.select_by_kernel(batches.start)
    while position < len(batches.view):
        try:
            end = selector.select_one(position)
        except IncompleteBatch:
            break
        if end is None:
            break
        position = selector.select_by_kernel(end)
    return Selection(parts=selector.parts, next_offset=selector.next_offset, bytes_used=position - batches.start)


class _Selector:
    """The state of one selection. The kernel reads and writes the attributes without an underscore."""

    def __init__(
        self, batches: Batches, limits: Limits, transactions: AbortedTransactions | None, scratch: Scratch
    ) -> None:
        self._view = batches.view
        self._limits = limits
        self._transactions = transactions
        self._scratch = scratch
        self._target_rows = limits.target_rows or _INT64_MAX
        self._headers = batches.headers if limits.from_offset <= _INT64_MAX else None
        self.parts: list[Part | MessagePart] = []
        self.rows = self.payload_bytes = self.log_position = 0
        self.first_position = -1
        self.next_offset = limits.from_offset

    def select_by_kernel(self, position: int) -> int:
        """Take or skip batches from ``position`` on by the kernel, as far as it can; the position after them."""
        if self._headers is None or self.log_position > _INT64_MAX:  # no batch can follow the last offset
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
            self._batches().numbers.frombytes(taken)
        return position

    def select_one(self, position: int) -> int | None:
        """Take or skip the batch at ``position``; the position after it, None if it is for another call."""
        view, limits = self._view, self._limits
        try:
            header = read_header(view, position)
        except OldFormatBatch:
            return self._select_messages(position)
        if not self.log_position <= header.base_offset < limits.until_offset or self._is_full():
            self._stop(position, header)
            return None
        end = position + header.size_in_bytes
        next_offset = header.next_offset
        in_range = next_offset > limits.from_offset
        if limits.check_crcs and (in_range or header.is_control):
            check_crc(view, position, header)
        if is_visible(view, position, header, self._transactions) and in_range:
            start, codec = position + RECORD_BATCH_OVERHEAD, header.compression
            length = end - start
            if codec is not CompressionType.NONE:
                start, length = self._unpack(position, header.base_offset, codec, end)
            _check_size(length, position, header)
            if self.parts and not self._fits(end, length):
                return None
            if header.records_count:
                self._batches().add(header, position, start, length)
                self._count(position, header.records_count, length)
        self._advance(next_offset)
        return end

    def _unpack(self, position: int, base_offset: int, codec: int, end: int) -> tuple[int, int]:
        """Decompress the payload of the batch at ``position``; its position in the scratch, and its length."""
        start = self._scratch.used
        stored = self._view[position + RECORD_BATCH_OVERHEAD : end]
        try:
            length = decompress_to(self._scratch, _CODECS[codec], stored, max_bytes=self._limits.max_decompressed_bytes)
        except CorruptBatch as error:
            raise error.placed(start=position, base_offset=base_offset) from error
        return start, length

    def _select_messages(self, position: int) -> int | None:
        """The same for a wrapper, or for as many messages as can be taken together."""
        view, limits = self._view, self._limits
        header = read_message(view, position)
        end = position + header.size_in_bytes
        if header.base_offset < self.log_position:  # a wrapper has the offset of its last message
            self._stop(position, header)
        if not header.compression and header.base_offset >= limits.until_offset:
            self._stop(position, header)
            return None
        if self._is_full() and not (header.compression and header.next_offset <= limits.from_offset):
            return None
        if header.next_offset > limits.from_offset:
            if header.compression:
                messages, length = self._open_wrapper(position, header)
                if not self.log_position <= messages.offsets[0] < limits.until_offset:
                    self._stop(position, header._replace(base_offset=messages.offsets[0]))
                    return None
            else:
                messages, length = self._read_run(position, end)
                end = position + length
            if self.parts and not self._fits(end, length):
                return None
            self._messages().add(messages, header.timestamp_type, limits)
            self._count(position, len(messages.offsets), length)
            header = header._replace(base_offset=messages.offsets[-1])
        self._advance(header.next_offset)
        return end

    def _read_run(self, position: int, end: int) -> tuple[Messages, int]:
        """Messages from the one at ``position`` on, which ends at ``end``, and the bytes they take in the buffer."""
        limits = self._limits
        data, messages = bytes(self._view[position : max(end, position + _RUN_BYTES)]), Messages()
        try:
            size = walk_messages(
                data,
                0,
                messages,
                magic=data[_MAGIC_AT],
                attributes=data[_ATTRIBUTES_AT],
                most=_RUN_MESSAGES,
                until_offset=limits.until_offset,
                check_crcs=limits.check_crcs,
            )
        except CorruptBatch as error:
            raise CorruptBatch(
                f"bad record: {error.detail}",
                position=position + (error.position or 0),
                base_offset=error.base_offset,
                record_index=0,
            ) from None
        if index := _first_misplaced(messages.offsets):
            offset = messages.offsets[index]
            raise _misplaced(messages.offsets[index - 1] + 1, position + messages.positions[index], offset)
        return messages, size

    def _open_wrapper(self, position: int, header: BatchHeader) -> tuple[Messages, int]:
        """The messages inside the wrapper at ``position``, and the bytes they take there."""
        view, limits = self._view, self._limits
        if limits.check_crcs:
            check_message_crc(view, position, header)
        try:
            plain = open_wrapper(view, position, header, max_bytes=limits.max_decompressed_bytes)
            messages = read_wrapped(plain, header, check_crcs=limits.check_crcs)
            if index := _first_misplaced(messages.offsets):
                before, offset = messages.offsets[index - 1], messages.offsets[index]
                what = f"offset {offset} is not greater than the previous message's offset {before}"
                raise CorruptBatch(what, record_index=index)
        except CorruptBatch as error:
            raise type(error)(
                error.detail, position=position, base_offset=header.base_offset, record_index=error.record_index
            ) from error
        return messages, len(plain)

    def _is_full(self) -> bool:
        return self.payload_bytes >= self._limits.target_bytes or self.rows >= self._target_rows

    def _stop(self, position: int, header: BatchHeader) -> None:
        """Leave the batch for another call, or because no later offset is wanted."""
        if header.base_offset < self.log_position:
            raise _misplaced(self.log_position, position, header.base_offset)
        if header.base_offset >= self._limits.until_offset:
            self.next_offset = self._limits.until_offset

    def _fits(self, end: int, payload_bytes: int) -> bool:
        """Whether offsets stay int32s with one more payload, which ends at ``end`` in the buffer."""
        return max(end - self.first_position, self.payload_bytes + payload_bytes) <= MAX_PAYLOAD_BYTES

    def _count(self, position: int, rows: int, payload_bytes: int) -> None:
        """Add a batch that has been taken to the numbers that are compared with the limits."""
        if self.first_position < 0:
            self.first_position = position
        self.rows += rows
        self.payload_bytes += payload_bytes

    def _batches(self) -> Part:
        if not self.parts or not isinstance(part := self.parts[-1], Part):
            self.parts.append(part := Part())
        return part

    def _messages(self) -> MessagePart:
        if not self.parts or not isinstance(part := self.parts[-1], MessagePart):
            self.parts.append(part := MessagePart())
        return part

    def _advance(self, next_offset: int) -> None:
        self.log_position = next_offset
        if next_offset > self.next_offset:
            self.next_offset = min(next_offset, self._limits.until_offset)


def _check_size(length: int, position: int, header: BatchHeader) -> None:
    """Raise if a payload of ``length`` bytes is too short for its records, or has bytes and no records."""
    count = header.records_count
    if length < count * MIN_RECORD_BYTES or (length and not count):
        raise CorruptBatch(
            f"{count} records cannot make {length} bytes", position=position, base_offset=header.base_offset
        )


def _first_misplaced(offsets: list[int]) -> int:
    """The index of the first offset that is not greater than the one before it; 0 if all are."""
    if all(map(lt, offsets, offsets[1:])):
        return 0
    return next(index for index, (before, offset) in enumerate(pairwise(offsets), 1) if offset <= before)


def _misplaced(least: int, position: int, offset: int) -> CorruptBatch:
    return CorruptBatch(f"offset {least} or a later one must come next", position=position, base_offset=offset)
