"""Which record of a batch is the first of a time or later: no more is read of records than time and offset."""

from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t

from spark_kafka_native.records._kernel.memory cimport Bytes, View
from spark_kafka_native.records._kernel.varint cimport read_varint, read_varlong

cdef enum Outcome:
    REFUSED
    FOUND
    NONE


cdef struct Sought:
    int64_t timestamp
    int64_t from_offset


def first_at_or_after(
    payload,
    int64_t records,
    int64_t base_offset,
    int64_t base_time,
    bint is_stamped,
    int64_t timestamp,
    int64_t from_offset,
):
    """Offset and time of the first of so many ``records`` that is not before ``timestamp`` nor ``from_offset``.

    An empty tuple if none is so; None if one that had to be looked at is none. ``is_stamped``: all have ``base_time``.
    """
    cdef View view = View(payload)
    cdef Sought found = Sought(timestamp, from_offset)
    cdef Outcome outcome
    with nogil:
        outcome = _find(<Bytes>view.start, view.size, records, base_offset, base_time, is_stamped, &found)
    if outcome == REFUSED:
        return None
    return (found.from_offset, found.timestamp) if outcome == FOUND else ()


cdef Outcome _find(
    Bytes at, int64_t size, int64_t records, int64_t base_offset, int64_t base_time, bint is_stamped, Sought* sought
) noexcept nogil:
    """What is found takes the place of what is sought."""
    cdef int64_t index, length, time, delta
    cdef Bytes end = at + size
    cdef Bytes stop
    for index in range(records):
        at = read_varint(at, end, &length)
        if at is NULL or not 1 <= length <= end - at:
            return REFUSED
        stop = at + length
        at = read_varlong(at + 1, stop, &time)
        if at is NULL:
            return REFUSED
        at = read_varint(at, stop, &delta)
        if at is NULL or not _fits(base_offset, delta):
            return REFUSED
        if is_stamped:
            time = 0
        if not _fits(base_time, time):
            return REFUSED
        if base_time + time >= sought.timestamp and base_offset + delta >= sought.from_offset:
            sought.timestamp, sought.from_offset = base_time + time, base_offset + delta
            return FOUND
        at = stop
    return NONE


cdef inline bint _fits(int64_t one, int64_t other) noexcept nogil:
    """Whether their sum is an int64."""
    return one <= INT64_MAX - other if other >= 0 else one >= INT64_MIN - other
