"""The records of a batch, piece by piece: of each its time, its offset and whether it has a key, and no more."""

from libc.stdint cimport int64_t, uint64_t

from spark_kafka_native._records._kernel.memory cimport Bytes, View
from spark_kafka_native._records._kernel.varint cimport read_varint, read_varlong

cdef enum Status:
    MORE
    FOUND
    VALUE
    BAD
    DONE


cdef int64_t START_BYTES = 31
cdef int64_t LENGTH_BYTES = 5
cdef int64_t MIN_BODY_BYTES = 6
cdef int64_t NO_TIMESTAMP = -1


cdef class Scanner:
    """As `scan.Scanner`, which documents everything."""

    cdef readonly int64_t index, timestamp, offset_delta, rest, largest
    cdef readonly bint has_key, is_found, in_order
    cdef int64_t count, base_time, earliest, latest, from_delta
    cdef bint is_stamped, needs_key

    def __init__(
        self,
        int64_t count,
        int64_t base_time,
        bint is_stamped,
        int64_t earliest,
        int64_t latest,
        bint needs_key,
        int64_t from_delta,
    ):
        self.count, self.base_time, self.is_stamped = count, base_time, is_stamped
        self.earliest, self.latest, self.needs_key, self.from_delta = earliest, latest, needs_key, from_delta
        self.index = self.timestamp = self.offset_delta = self.rest = 0
        self.largest = NO_TIMESTAMP
        self.has_key = self.is_found = False
        self.in_order = True

    def scan(self, block, int64_t position, bint is_last):
        cdef View view = View(block)
        cdef Status status
        with nogil:
            status = self._scan(<Bytes>view.start, view.size, &position, is_last)
        return status, position

    cdef Status _scan(self, Bytes start, int64_t size, int64_t* position, bint is_last) noexcept nogil:
        cdef Bytes at, end, stop
        cdef int64_t length, time, delta, key_length, record_end, value_at, left
        end = start + size
        while self.index < self.count:
            left = size - position[0]
            if not is_last and left < START_BYTES:
                return MORE
            if left <= 0:
                return BAD
            at = read_varint(start + position[0], end, &length)
            if at is NULL or length < MIN_BODY_BYTES:
                return BAD
            record_end = at - start + length
            if is_last and record_end > size:
                return BAD
            stop = start + (record_end if record_end < size else size)
            at = read_varlong(at + 1, stop, &time)
            if at is NULL:
                return BAD
            at = read_varint(at, stop, &delta)
            if at is NULL or delta < 0:
                return BAD
            at = read_varint(at, stop, &key_length)
            if at is NULL or key_length < -1:
                return BAD
            value_at = at - start + (key_length if key_length > 0 else 0)
            if value_at >= record_end:
                return BAD
            self.offset_delta = delta
            self.has_key = key_length >= 0
            self.timestamp = self.base_time
            if not self.is_stamped:
                self.timestamp = <int64_t>(<uint64_t>self.base_time + <uint64_t>time)
            if value_at + LENGTH_BYTES <= size or is_last:
                at = read_varint(start + value_at, stop, &length)
                if at is NULL or length < -1 or at - start + (length if length > 0 else 0) >= record_end:
                    return BAD
                self._take()
                position[0] = record_end
                if self.is_found:
                    return FOUND
                continue
            self._take()
            self.rest = record_end - value_at
            position[0] = value_at
            return VALUE
        return DONE

    cdef inline void _take(self) noexcept nogil:
        if self.timestamp > self.largest:
            self.largest = self.timestamp
        if self.offset_delta != self.index:
            self.in_order = False
        self.index += 1
        self.is_found = self.offset_delta >= self.from_delta and (
            (self.needs_key and not self.has_key)
            or (
                self.timestamp != NO_TIMESTAMP
                and (self.timestamp < self.earliest or self.timestamp > self.latest)
            )
        )
