"""The uncompressed payloads of all batches, in one piece: columns in, bytes out.

The bytes of records alternate between varints that are made here and byte strings that are the user's: length,
attributes, deltas, key length | key | value length | value | header count, header key length | header key | ... So the
varints of all records are written into one small buffer, in order, which is cut wherever a byte string belongs; then
one ``take`` in Arrow lines up cuts and byte strings.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_kafka_native.records.arrow.columns import Columns, Headers
from spark_kafka_native.records.arrow.varint import I64, U8, varint_sizes, write_varints, zigzag

_NULL = 0x01  # the varint of a length of -1


class Varints(NamedTuple):
    """Integers as they go to the wire, and the bytes each takes: uint64[n], int64[n]."""

    zigzagged: npt.NDArray[np.uint64]
    sizes: I64


@dataclass(frozen=True, slots=True)
class Payload:
    """The records' bytes, with room before each batch, and where each begins: int64[n + 1], the last one being the end.

    ``data`` may be read-only.
    """

    data: memoryview
    begins: I64


class MeasuredRecords(Protocol):
    """Records of which is known what they take apart from their deltas and their own length.

    Those depend on the batch that a record ends up in. ``fixed_sizes``: int64[n], from the attributes to the last
    header.
    """

    @property
    def fixed_sizes(self) -> I64:
        """Bytes of each record that are the same in every batch."""
        ...

    def payload(self, firsts: I64, room: int) -> Payload:
        """Every record's bytes, in batches that begin with the rows ``firsts``, each behind ``room`` zeroes."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """MeasuredRecords in numpy. The varints are None where a column is."""

    columns: Columns
    fixed_sizes: I64
    key_lengths: Varints | None
    value_lengths: Varints | None
    headers_counts: Varints | None
    header_key_lengths: Varints | None
    header_value_lengths: Varints | None

    def payload(self, firsts: I64, room: int) -> Payload:
        """As MeasuredRecords has it."""
        timestamps = self.columns.timestamps
        counts = np.diff(firsts, append=len(timestamps))
        gaps = np.zeros(len(timestamps), dtype=np.int64)
        gaps[firsts] = room
        return build_payload(
            self.columns,
            self,
            timestamps - np.repeat(timestamps[firsts], counts),
            np.arange(len(timestamps)) - np.repeat(firsts, counts),
            gaps,
        )


def varints(values: I64) -> Varints:
    """``values`` ready to be written."""
    zigzagged = zigzag(values)
    return Varints(zigzagged, varint_sizes(zigzagged))


def measure(columns: Columns) -> Measured:
    """The first pass over ``columns``: all lengths, before it is known where batches begin."""
    rows = len(columns.timestamps)
    fixed_sizes = np.ones(rows, dtype=np.int64)  # the attributes
    lengths = [None if spans is None else varints(spans.lengths) for spans in (columns.keys, columns.values)]
    for spans, length in zip((columns.keys, columns.values), lengths, strict=True):
        fixed_sizes += 1 if spans is None or length is None else length.sizes + spans.sizes
    headers = columns.headers
    if headers is None:
        counts = header_keys = header_values = None
        fixed_sizes += 1
    else:
        counts = varints(headers.counts)
        header_keys, header_values = varints(headers.keys.lengths), varints(headers.values.lengths)
        sizes = header_keys.sizes + headers.keys.sizes + header_values.sizes + headers.values.sizes
        fixed_sizes += counts.sizes + np.diff(_running(sizes)[_running(headers.counts)])
    return Measured(
        columns=columns,
        fixed_sizes=fixed_sizes,
        key_lengths=lengths[0],
        value_lengths=lengths[1],
        headers_counts=counts,
        header_key_lengths=header_keys,
        header_value_lengths=header_values,
    )


def build_payload(
    columns: Columns, measured: Measured, timestamp_deltas: I64, offset_deltas: I64, gaps: I64
) -> Payload:
    """Every record's bytes, behind as many zeroes as ``gaps`` says; deltas are within batches. All are int64[n]."""
    times, offsets = varints(timestamp_deltas), varints(offset_deltas)
    bodies = measured.fixed_sizes + times.sizes + offsets.sizes
    lengths = varints(bodies)
    begins = _running(gaps + lengths.sizes + bodies)
    starts = _running(gaps + lengths.sizes + bodies - _string_bytes(columns))
    begins[:-1] += gaps
    made = np.zeros(int(starts[-1]), dtype=np.uint8)
    position = _write(made, starts[:-1] + gaps, lengths, gap=1)  # the attributes stay 0
    position = _write(made, _write(made, position, times), offsets)
    key_cuts = _write(made, position, measured.key_lengths, absent=_NULL)
    value_cuts = _write(made, key_cuts, measured.value_lengths, absent=_NULL)
    position = _write(made, value_cuts, measured.headers_counts, absent=0)
    used = [
        (spans.content, cuts)
        for spans, cuts in ((columns.keys, key_cuts), (columns.values, value_cuts))
        if spans is not None
    ]
    contents = [content for content, _ in used]
    cuts, order = _by_record(len(bodies), [cuts for _, cuts in used])
    if columns.headers is not None:
        header_cuts = _write_headers(made, position, columns.headers, measured)
        contents += columns.headers.keys.content, columns.headers.values.content
        cuts, order = _with_headers(cuts, order, columns.headers.counts, header_cuts, len(used))
    return Payload(_line_up(made, cuts, contents, order, int(begins[-1])), begins)


def _write(made: U8, position: I64, numbers: Varints | None, *, gap: int = 0, absent: int = 0) -> I64:
    """Write one varint of each record and return the positions behind; a column that is not there, ``absent``."""
    if numbers is None:
        made[position] = absent
        return position + 1
    write_varints(made, position, *numbers)
    return position + numbers.sizes + gap


def _write_headers(made: U8, position: I64, headers: Headers, measured: Measured) -> I64:
    """Write the lengths within headers; returns the cuts for keys and values by turns: int64[2 * number of headers]."""
    keys, values = measured.header_key_lengths, measured.header_value_lengths
    if keys is None or values is None:
        raise AssertionError("headers were not measured")
    running = _running(keys.sizes + values.sizes)
    firsts = _running(headers.counts)[:-1]
    starts = np.repeat(position - running[firsts], headers.counts) + running[:-1]
    cuts = np.empty(2 * len(starts), dtype=np.int64)
    cuts[0::2] = _write(made, starts, keys)
    cuts[1::2] = _write(made, cuts[0::2], values)
    return cuts


def _by_record(rows: int, columns_cuts: list[I64]) -> tuple[I64, I64]:
    """Cuts in ascending order, and the number of the byte string that belongs into each.

    Byte strings are numbered column by column: those of the first are 0 to ``rows``, and so on.
    """
    if not columns_cuts:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    cuts = np.stack(columns_cuts, axis=1).ravel()
    order = (np.arange(rows)[:, np.newaxis] + np.arange(len(columns_cuts)) * rows).ravel()
    return cuts, order


def _with_headers(cuts: I64, order: I64, counts: I64, header_cuts: I64, width: int) -> tuple[I64, I64]:
    """``cuts`` and ``order`` of ``width`` byte strings a record with the headers' ones in between.

    Header keys are numbered behind all other byte strings, header values behind the keys.
    """
    firsts = _running(counts)
    of_headers = np.repeat(width * np.arange(1, len(counts) + 1), 2 * counts) + np.arange(len(header_cuts))
    is_header = np.zeros(len(cuts) + len(header_cuts), dtype=np.bool_)
    is_header[of_headers] = True
    all_cuts = np.empty(len(is_header), dtype=np.int64)
    all_cuts[is_header], all_cuts[~is_header] = header_cuts, cuts
    header_order = len(order) + np.arange(int(firsts[-1]))[:, np.newaxis] + np.array([0, int(firsts[-1])])
    all_order = np.empty(len(is_header), dtype=np.int64)
    all_order[is_header], all_order[~is_header] = header_order.ravel(), order
    return all_cuts, all_order


def _line_up(made: U8, cuts: I64, contents: list[pa.LargeBinaryArray], order: I64, size: int) -> memoryview:
    """``made``, cut at ``cuts``, with a byte string of ``contents`` in each cut: ``size`` bytes."""
    pieces = len(cuts) + 1
    offsets = np.empty(pieces + 1, dtype=np.int64)
    offsets[0], offsets[1:-1], offsets[-1] = 0, cuts, len(made)
    between = pa.Array.from_buffers(
        pa.large_binary(), pieces, [None, pa.py_buffer(offsets.data), pa.py_buffer(made.data)]
    )
    indices = np.empty(2 * pieces - 1, dtype=np.int64)
    indices[0::2] = np.arange(pieces)
    indices[1::2] = order + pieces
    lined_up = pa.concat_arrays([between, *contents]).take(pa.array(indices, pa.int64())).buffers()[2]
    if lined_up is None or lined_up.size != size:
        raise AssertionError(f"{size} bytes of records were measured, {lined_up and lined_up.size} were made")
    return memoryview(lined_up)


def _string_bytes(columns: Columns) -> I64:
    """Bytes of each record that are the user's: int64[n]."""
    total = np.zeros(len(columns.timestamps), dtype=np.int64)
    for spans in (columns.keys, columns.values):
        if spans is not None:
            total += spans.sizes
    if columns.headers is not None:
        sizes = columns.headers.keys.sizes + columns.headers.values.sizes
        total += np.diff(_running(sizes)[_running(columns.headers.counts)])
    return total


def _running(values: I64) -> I64:
    """Sums of all values before each, and of all: int64[n + 1]."""
    sums = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(values, out=sums[1:])
    return sums
