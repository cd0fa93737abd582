"""The record walk: where each record of a payload begins and ends.

A payload is ``(length varint, body)*``, so in principle each record must be looked at to find the next. Three guesses
spare most of that, in numpy:

1. Records of equal length are a stride: compare their length bytes all at once.
2. A body starts with an attributes byte, which is 0, behind the last byte of its length. In payloads that are not
   full of zero bytes few other places look like that, and records' ends must be other records' begins.
3. Short lengths need no loop over their bytes: a list comprehension steps from record to record.

A guess proposes, it never decides: the proposal is taken for a batch if its records fill the batch from its first byte
to its last, each beginning where the one before it ends, which only the true walk does. Where that fails, a plain loop
walks carefully, and it is the one that says what is wrong.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from spark_kafka_native.records.arrow.varint import I64, U8, Bools, read_varints
from spark_kafka_native.records.errors import BadRecord
from spark_kafka_native.records.record import read_varint

MIN_BODY_BYTES = 6
"""Attributes, timestamp delta, offset delta, key length, value length and header count, a byte each."""

_STRIDE_MIN_RECORDS = 512  # below, numpy's fixed cost eats the gain
_STRIDE_SHORT = 32
_STRIDE_FIRST = 256
_ZEROS_MIN_RECORDS = 96
_ZEROS_MAX_RECORD_BYTES = 256  # on average; longer ones are cheaper to step through than to search
_ZEROS_PER_RECORD = 6
_ZEROS_ROUNDS = 4

_STEP_ONE_BYTE = [1 + (byte >> 1) for byte in range(0x80)]
_STEP_TWO_BYTES = [2 + ((byte & 0x7F) >> 1) for byte in range(0x100)]


class Region(NamedTuple):
    """One batch's ``records``, their number, in ``data[start:end]``, the first being number ``row`` overall."""

    row: int
    start: int
    end: int
    records: int


@dataclass(frozen=True, slots=True)
class Bodies:
    """Records without their length: ``starts`` and ``ends``, int64[n], positions in the data."""

    starts: I64
    ends: I64


def walk(data: U8, regions: Sequence[Region]) -> Bodies:
    """The records of ``regions``, which follow each other in rows and in ``data``, each with at least one record.

    Raises BadRecord: a region's records do not add up to it.
    """
    last = regions[-1]
    begins = np.zeros(last.row + last.records, dtype=np.int64)
    try:
        _propose(data, regions, begins)
        bodies = _bodies(data, begins)
        good = _fit(regions, begins, bodies)
    except BadRecord:  # a region is corrupt, or a proposal misled
        good = np.zeros(len(begins), dtype=np.bool_)
    if not good.all():
        view = data.data
        for region in regions:
            if not good[region.row : region.row + region.records].all():
                begins[region.row : region.row + region.records] = step_carefully(view, region)
        bodies = _bodies(data, begins)
    return bodies


def step_carefully(view: memoryview, region: Region) -> list[int]:
    """Begins of the records of ``region``, one after the other, every step checked.

    Raises BadRecord: a length that is cut off, over-long, too short for a record or beyond the region; too few or too
    many records for the region.
    """
    begins = []
    position = region.start
    for index in range(region.row, region.row + region.records):
        if position >= region.end:
            raise BadRecord(index, f"the batch ends before its {region.records} records do")
        begins.append(position)
        length, position = read_varint(view, position, region.end, index)
        if not MIN_BODY_BYTES <= length <= region.end - position:
            raise BadRecord(index, f"impossible record length {length}, {region.end - position} bytes are left")
        position += length
    if position != region.end:
        raise BadRecord(
            region.row + region.records - 1, f"{region.end - position} bytes are left behind the batch's last record"
        )
    return begins


def _bodies(data: U8, begins: I64) -> Bodies:
    lengths, starts = read_varints(data, begins)
    return Bodies(starts, starts + lengths)


def _fit(regions: Sequence[Region], begins: I64, bodies: Bodies) -> Bools:
    """Whether each record is where it must be: bool[n]; only a region where all are holds the true walk."""
    next_begins = np.empty_like(begins)
    next_begins[:-1] = begins[1:]
    firsts = np.array([region.row for region in regions])
    next_begins[firsts[1:] - 1] = [region.end for region in regions[:-1]]
    next_begins[-1] = regions[-1].end
    good: Bools = bodies.ends == next_begins
    good &= bodies.ends - bodies.starts >= MIN_BODY_BYTES
    good[firsts] &= begins[firsts] == [region.start for region in regions]
    return good


def _propose(data: U8, regions: Sequence[Region], begins: I64) -> None:
    """Fill ``begins``: int64[n], zeroes, with guesses. Rows that are left as they are will fail the check."""
    begins[[region.row for region in regions]] = [region.start for region in regions]
    rest = [
        _stride(data, region, begins) if region.records >= _STRIDE_MIN_RECORDS else region
        for region in regions
        if region.records > 1
    ]
    # What cannot be, because the count lies, is left to be blamed.
    rest = [region for region in rest if 1 < region.records <= (region.end - region.start) // (1 + MIN_BODY_BYTES)]
    rest = _search_zeros(data, rest, begins)
    if rest:
        view = data.data
        for region in rest:
            begins[region.row : region.row + region.records] = _step(view, region)


def _stride(data: U8, region: Region, begins: I64) -> Region:
    """Guess runs of records of equal length; what is left once they become short."""
    position, row, count = region.start, region.row, region.records
    stretch = _STRIDE_FIRST
    while count and position < region.end:
        length_bytes, size = _size_at(data, position)
        stretch = min(stretch, count, (region.end - position) // size)
        if not stretch:
            break
        run = _run_length(data, position, length_bytes, size, stretch)
        begins[row : row + run] = np.arange(position, position + run * size, size)
        position, row, count = position + run * size, row + run, count - run
        if count:
            begins[row] = position
        if run < min(_STRIDE_SHORT, count):
            break
        stretch = 4 * run
    return Region(row, position, region.end, count)


def _size_at(data: U8, position: int) -> tuple[int, int]:
    """Bytes of the length at ``position`` and of the whole record; a guess, so whatever is there will do."""
    value = shift = 0
    for byte in data[position : position + 5].tolist():
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    return shift // 7, shift // 7 + (value >> 1)


def _run_length(data: U8, position: int, length_bytes: int, size: int, stretch: int) -> int:
    """How many of the next ``stretch`` records have the same length bytes as the first one."""
    run = stretch
    for index in range(position, position + length_bytes):
        same = data[index : index + (run - 1) * size + 1 : size] == data[index]
        if not same.all():
            run = int(same.argmin())
    return run


def _search_zeros(data: U8, regions: list[Region], begins: I64) -> list[Region]:
    """Guess from the zero attributes bytes; the regions whose count they do not meet are left."""
    records = sum(region.records for region in regions)
    if records < _ZEROS_MIN_RECORDS:
        return regions
    first, last = regions[0].start, regions[-1].end
    if sum(region.end - region.start for region in regions) > _ZEROS_MAX_RECORD_BYTES * records:
        return regions
    zeros = data[first:last] == 0
    starts = np.array([region.start for region in regions])
    places = _places(zeros, _ZEROS_PER_RECORD * records)
    if places is None:
        return regions
    found, ends = _with_starts(data, starts, *_look_alikes(data, places + first))
    for _ in range(_ZEROS_ROUNDS):
        if len(found) == records:
            break
        linked = _linked(found - first, ends - first, starts - first, zeros)
        found, ends = found[linked], ends[linked]
    bounds = np.searchsorted(found, [(region.start, region.end) for region in regions])
    counts = [region.records for region in regions]
    low, high = int(bounds[0, 0]), int(bounds[-1, 1])
    if high - low == records == len(begins) and (bounds[:, 1] - bounds[:, 0] == counts).all():
        begins[:] = found[low:high]
        return []
    rest = []
    for region, (low, high) in zip(regions, bounds.tolist(), strict=True):
        if high - low == region.records:
            begins[region.row : region.row + region.records] = found[low:high]
        else:
            rest.append(region)
    return rest


def _places(flags: Bools, limit: int) -> I64 | None:
    """Indices of the set ``flags``: bool[n], or None if there are many more than ``limit``.

    What flatnonzero does, in half the time where they are sparse: eight flags at once.
    """
    whole = len(flags) & ~7
    words = np.flatnonzero(flags[:whole].view(np.uint64) != 0)
    if len(words) > limit:
        return None
    within = np.flatnonzero(flags[:whole].view(np.uint64)[words].view(np.bool_))
    places: I64 = (words[within >> 3] << 3) + (within & 7)
    return np.concatenate([places, np.flatnonzero(flags[whole:]) + whole])


def _linked(begins: I64, ends: I64, starts: I64, marks: Bools) -> Bools:
    """Which look-alikes begin where another one ends or a region does; ``marks`` is memory to work in, one a byte."""
    marks.fill(False)
    marks[ends[ends < len(marks)]] = True
    marks[starts] = True
    linked: Bools = marks.take(begins)
    return linked


def _with_starts(data: U8, starts: I64, begins: I64, ends: I64) -> tuple[I64, I64]:
    """``begins`` and ``ends`` with the records at ``starts`` among them, which need not look like any."""
    places = begins.searchsorted(starts)
    missing = (begins.take(places, mode="clip") != starts) if len(begins) else np.ones(len(starts), dtype=np.bool_)
    if not missing.any():
        return begins, ends
    lengths, bodies = read_varints(data, starts[missing])
    found = bodies + np.maximum(lengths, 0)  # a length may be anything, as nothing vouches for it yet
    return np.insert(begins, places[missing], starts[missing]), np.insert(ends, places[missing], found)


def _look_alikes(data: U8, zeros: I64) -> tuple[I64, I64]:
    """Begins and ends of what would be records with their attributes at ``zeros`` and a length of one or two bytes.

    In front of a length of one byte, another record's header count of 0 is looked for: without that, too much looks
    like a record.
    """
    zeros = zeros[zeros.searchsorted(2) :]
    high = data.take(zeros - 1)
    low = data.take(zeros - 2)
    two = low >= 0x80
    likely = np.flatnonzero((two | ((low == 0) & (high >= 2 * MIN_BODY_BYTES))) & (high < 0x80))
    zeros, two, length = zeros.take(likely), two.take(likely), high.take(likely).astype(np.int64)
    of_two = (length << 6) | ((low.take(likely) & 0x7F) >> 1)
    length = of_two if two.all() else np.where(two, of_two, length >> 1)
    return zeros - 1 - two, zeros + length


def _step(view: memoryview, region: Region) -> list[int] | int:
    """Guess by stepping over lengths of one and two bytes; 0 if that leaves the data."""
    one, two = _STEP_ONE_BYTE, _STEP_TWO_BYTES
    position = region.start
    try:
        return [region.start] + [
            position := position
            + (one[byte] if (byte := view[position]) < 0x80 else two[byte] + (view[position + 1] << 6))
            for _ in range(region.records - 1)
        ]
    except IndexError:
        return 0
