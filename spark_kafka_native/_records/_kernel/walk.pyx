"""The records of a batch, field by field: the positions of the wanted fields are noted, nothing is copied yet.

Everything in a payload may be hostile. A pointer moves on only by what has been found to be there: lengths are compared
with the bytes that are left, never added to a pointer first, and counts with the fewest bytes they can take.
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint64_t

from spark_kafka_native._records._kernel.columns cimport Column, put, put_length
from spark_kafka_native._records._kernel.memory cimport Bytes, copy_ahead
from spark_kafka_native._records._kernel.varint cimport read_varint, read_varlong

cdef enum:
    MIN_HEADER_BYTES = 2


cdef bint can_be_walked(const Batch* batch, int64_t size) noexcept nogil:
    """Whether the payload lies within ``size`` bytes and may hold its records, whose offsets are int64s."""
    return (
        batch.start >= 0
        and 0 <= batch.length <= size - batch.start
        and 0 <= batch.records <= batch.length // MIN_RECORD_BYTES
        and batch.base_offset >= 0
        and 0 <= batch.last_offset_delta <= INT64_MAX - batch.base_offset
    )


cdef bint walk(
    Bytes at, Bytes end, const Batch* batch, int64_t from_offset, int64_t until_offset, Output* output
) noexcept nogil:
    """Read the records of a batch, which must fill its payload; the wanted ones become rows. False: it is refused."""
    cdef int64_t records = batch.records, base_offset = batch.base_offset, last_delta = batch.last_offset_delta
    cdef int64_t index, length, time, delta, key_length, value_length, headers, offset, row
    cdef int64_t least_delta = 0
    cdef Bytes stop
    cdef Bytes key
    cdef Bytes value
    cdef Output out = output[0]  # nothing else points at this one, so that it stays in registers
    row = out.rows
    for index in range(records):
        at = read_varint(at, end, &length)
        if at is NULL or length < 1 or length > end - at:
            return False
        stop = at + length
        at = read_varlong(at + 1, stop, &time)
        if at is NULL:
            return False
        at = read_varint(at, stop, &delta)
        if at is NULL or delta < least_delta or delta > last_delta:
            return False
        least_delta = delta + 1
        at = read_varint(at, stop, &key_length)
        if at is NULL or key_length < -1 or key_length > stop - at:
            return False
        key = at
        if key_length > 0:
            at += key_length
        at = read_varint(at, stop, &value_length)
        if at is NULL or value_length < -1 or value_length > stop - at:
            return False
        value = at
        if value_length > 0:
            at += value_length
        at = read_varint(at, stop, &headers)
        if at is NULL or headers < 0 or headers * MIN_HEADER_BYTES > stop - at or (headers == 0 and at != stop):
            return False
        offset = base_offset + delta
        if from_offset <= offset < until_offset:
            if out.offsets is not NULL:
                out.offsets[row] = offset
            if out.timestamps is not NULL:
                out.timestamps[row] = _time_of(batch, time)
            if out.timestamp_types is not NULL:
                out.timestamp_types[row] = <int32_t>batch.time_type
            put(&out.key, row, key, key_length)
            put(&out.value, row, value, value_length)
            if out.header_lists is not NULL:
                out.headers_count += headers
                out.without_headers += headers == 0
                out.header_lists[row + 1] = <int32_t>out.headers_count
                out.headers[row] = at
                out.headers_ends[row] = stop
            row += 1
        at = stop
    out.rows = row
    output[0] = out
    return at == end


cdef inline int64_t _time_of(const Batch* batch, int64_t delta) noexcept nogil:
    """A record's time in ms. The sum wraps around, as Java's does, and so did the difference that the writer made."""
    if batch.time_type == LOG_APPEND_TIME:
        return batch.base_time
    return <int64_t>(<uint64_t>batch.base_time + <uint64_t>delta)


cdef bint measure_headers(const Output* rows, Column* keys, Column* values) noexcept nogil:
    """Note the lengths of all headers, which must fill the rest of their records. False: they are malformed.

    Positions are not noted, because they would take 16 bytes per header, and a header may have two bytes only.
    """
    cdef int64_t row, index = 0, length
    cdef Bytes at
    cdef Bytes end
    for row in range(rows.rows):
        at, end = rows.headers[row], rows.headers_ends[row]
        while index < rows.header_lists[row + 1]:
            at = read_varint(at, end, &length)
            if at is NULL or not 0 <= length <= end - at:
                return False
            put_length(keys, index, length)
            at = read_varint(at + length, end, &length)
            if at is NULL or not -1 <= length <= end - at:
                return False
            put_length(values, index, length)
            if length > 0:
                at += length
            index += 1
        if at != end:
            return False
    return True


cdef void copy_headers(const Output* rows, uint8_t* keys, uint8_t* values, uint8_t* bits) noexcept nogil:
    """Copy what ``measure_headers`` has measured. ``bits``, all zeroes or NULL, show which values are not null."""
    cdef int64_t row, index = 0, length
    cdef Bytes at
    cdef Bytes end
    for row in range(rows.rows):
        at, end = rows.headers[row], rows.headers_ends[row]
        while index < rows.header_lists[row + 1]:
            at = read_varint(at, end, &length)
            copy_ahead(keys, at, length)
            keys += length
            at = read_varint(at + length, end, &length)
            if length >= 0:
                copy_ahead(values, at, length)
                values += length
                at += length
                if bits is not NULL:
                    bits[index >> 3] |= 1 << (index & 7)
            index += 1
