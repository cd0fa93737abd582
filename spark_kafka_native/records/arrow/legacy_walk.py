"""Messages of formats v0 and v1 (grammar: `legacy`) on their way to Arrow: where they are, and their fields in columns.

Where messages begin is walked in plain Python, since each has a CRC of its own to be checked; a run of them is then
handled as if it were one batch. What is in them is read for all at once, in numpy.
"""

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spark_kafka_native.records.arrow.fields import Fields
from spark_kafka_native.records.arrow.varint import I64, U8, require
from spark_kafka_native.records.batch import LOG_OVERHEAD, NO_TIMESTAMP, BatchHeader, TimestampType
from spark_kafka_native.records.errors import CorruptBatch
from spark_kafka_native.records.legacy import (
    KEYS_AT,
    OVERHEADS,
    base_of_wrapper,
    check_message_crc,
    inner_fault,
    open_wrapper,
    read_message,
)

_HEAD = struct.Struct(">qiIbb")
_ENTRY = struct.Struct(">qiI")
_CRC_FROM = 16
_MAGIC_AT = 16
_KINDS_END = {
    TimestampType.NO_TIMESTAMP_TYPE: 18,
    TimestampType.CREATE_TIME: 18,
    TimestampType.LOG_APPEND_TIME: 26,
}
"""Where those bytes of a message end, magic and attributes first, that all of a run have in common."""
_TIMESTAMP_AT = 18
_CODEC_MASK = 0x07
_RUN_MESSAGES = 8192
"""Messages that one run holds at most, so that who stops after so many rows does not get many more."""


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages behind each other: where each begins, counted from where the first does, and its offset in the log."""

    starts: list[int]
    offsets: list[int]


def read_run(
    view: memoryview, position: int, *, from_offset: int, until_offset: int, check_crcs: bool
) -> tuple[BatchHeader, Messages]:
    """The messages from ``position`` on that can be handled together, with a header as if they were one batch.

    They have one magic, no codec, and under LogAppendTime one time. Either all are before ``from_offset``, and their
    CRCs are not looked at, or none is. All but the first are before ``until_offset``.

    Raises CorruptBatch: no message, a wrong CRC, offsets that do not ascend. IncompleteBatch: the first is cut off.
    """
    first = read_message(view, position)
    skipped = first.base_offset < from_offset
    kind_end = _KINDS_END[first.timestamp_type]
    kind, overhead, end = view[position + _MAGIC_AT : position + kind_end], OVERHEADS[first.magic], len(view)
    starts: list[int] = []
    offsets: list[int] = []
    at, offset, size, crc = position, first.base_offset, first.batch_length, first.crc
    while True:
        following = at + LOG_OVERHEAD + size
        if offsets and offset <= offsets[-1]:
            raise CorruptBatch(
                f"offset {offsets[-1] + 1} or a later one must come next", position=at, base_offset=offset
            )
        if check_crcs and not skipped and zlib.crc32(view[at + _CRC_FROM : following]) != crc:
            check_message_crc(view, at, read_message(view, at))
        starts.append(at - position)
        offsets.append(offset)
        at = following
        if at + kind_end > end or view[at + _MAGIC_AT : at + kind_end] != kind or len(starts) == _RUN_MESSAGES:
            break
        offset, size, crc = _ENTRY.unpack_from(view, at)
        if size < overhead or at + LOG_OVERHEAD + size > end:
            break  # for whoever reads on from there
        if (offset < from_offset) != skipped or offset >= until_offset:
            break
    return (
        first._replace(
            batch_length=at - position - LOG_OVERHEAD,
            base_timestamp=0,
            last_offset_delta=offsets[-1] - offsets[0],
            records_count=len(starts),
        ),
        Messages(starts, offsets),
    )


def read_wrapper(
    view: memoryview, position: int, wrapper: BatchHeader, *, check_crcs: bool, max_bytes: int
) -> tuple[BatchHeader, bytes, Messages]:
    """The messages inside a wrapper: a header as if they were one batch, the bytes they are in, and where there.

    Raises CorruptBatch: a wrong CRC, no sound message set inside, offsets that do not ascend.
    """
    if check_crcs:
        check_message_crc(view, position, wrapper)
    try:
        plain = open_wrapper(view, position, wrapper, max_bytes=max_bytes)
        starts, offsets = _walk_inner(plain, wrapper, check_crcs=check_crcs)
        shift = base_of_wrapper(wrapper, offsets[-1] if offsets else None)
    except CorruptBatch as error:
        raise type(error)(
            error.detail, position=position, base_offset=wrapper.base_offset, record_index=error.record_index
        ) from error
    header = wrapper._replace(
        base_offset=offsets[0] + shift,
        base_timestamp=0,
        last_offset_delta=offsets[-1] - offsets[0],
        records_count=len(starts),
    )
    return header, plain, Messages(starts, [offset + shift for offset in offsets] if shift else offsets)


def _walk_inner(plain: bytes, wrapper: BatchHeader, *, check_crcs: bool) -> tuple[list[int], list[int]]:
    """Where the messages inside begin, and the offsets that stand there."""
    view, end, overhead = memoryview(plain), len(plain), OVERHEADS[wrapper.magic]
    starts: list[int] = []
    offsets: list[int] = []
    at = 0
    while at < end:
        if end - at < _HEAD.size:
            raise CorruptBatch("a message inside is cut off", record_index=len(starts))
        offset, size, crc, magic, attributes = _HEAD.unpack_from(plain, at)
        if attributes & _CODEC_MASK or magic != wrapper.magic:
            raise inner_fault(magic, attributes, wrapper, len(starts))
        following = at + LOG_OVERHEAD + size
        if size < overhead or following > end:
            raise CorruptBatch(f"impossible size {size} of a message inside", record_index=len(starts))
        if check_crcs and (actual := zlib.crc32(view[at + _CRC_FROM : following])) != crc:
            raise CorruptBatch(
                f"CRC-32 of a message inside is {actual:#010x}, its header says {crc:#010x}", record_index=len(starts)
            )
        if offsets and offset <= offsets[-1]:
            raise CorruptBatch("its offset is not behind the one before it", record_index=len(starts))
        starts.append(at)
        offsets.append(offset)
        at = following
    return starts, offsets


def read_message_fields(data: U8, starts: I64, ends: I64, *, magics: I64, offset_deltas: I64) -> Fields:
    """The fields of the messages at ``starts``, which end at ``ends``, in ``data``; all int64[n].

    ``timestamp_deltas`` are the timestamps themselves, NO_TIMESTAMP where ``magics`` is 0.

    Raises BadRecord: lengths of key and value that do not fill the message.
    """
    keys_at = starts + np.where(magics == 0, KEYS_AT[0], KEYS_AT[1])
    timestamps = np.where(magics == 0, NO_TIMESTAMP, _int64s(data, starts + _TIMESTAMP_AT))
    key_lengths = _int32s(data, keys_at)
    key_starts = keys_at + 4
    values_at = key_starts + np.maximum(key_lengths, 0)
    require((key_lengths >= -1) & (values_at + 4 <= ends), "its key has an impossible length")
    value_lengths = _int32s(data, values_at)
    value_starts = values_at + 4
    require(
        (value_lengths >= -1) & (value_starts + np.maximum(value_lengths, 0) == ends),
        "its fields do not end where it ends",
    )
    return Fields(
        timestamp_deltas=timestamps,
        offset_deltas=offset_deltas,
        key_starts=key_starts,
        key_lengths=key_lengths,
        value_starts=value_starts,
        value_lengths=value_lengths,
        headers_counts=np.zeros(len(starts), dtype=np.int64),
        headers_starts=ends,
        ends=ends,
    )


def message_spans(messages: Sequence[Messages], spans: Sequence[tuple[int, int]]) -> tuple[I64, I64]:
    """Begins and ends of all messages, int64[n] both, in data where each group of them takes up one of ``spans``."""
    begins: list[int] = []
    ends: list[int] = []
    for group, (start, end) in zip(messages, spans, strict=True):
        begins += [start + at for at in group.starts]
        ends += [start + at for at in group.starts[1:]]
        ends.append(end)
    return np.array(begins, dtype=np.int64), np.array(ends, dtype=np.int64)


def _int32s(data: U8, positions: I64) -> I64:
    """Big-endian int32 at each position; places outside ``data`` read its nearest byte."""
    value = data.take(positions, mode="clip").astype(np.int64)
    for index in range(1, 4):
        value = value << 8 | data.take(positions + index, mode="clip")
    return value - ((value & 0x80000000) << 1)


def _int64s(data: U8, positions: I64) -> I64:
    """Big-endian int64 at each position; places outside ``data`` read its nearest byte."""
    return _int32s(data, positions) << 32 | (_int32s(data, positions + 4) & 0xFFFFFFFF)
