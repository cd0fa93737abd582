"""Columns of byte strings in Arrow's layout: first it is noted where each lies, then all are copied together."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memset

from spark_kafka_native._records._kernel.memory cimport Bytes, Memory, View, copy_ahead, made


cdef class Strings:
    pass


cdef class Builder:
    def __cinit__(self, int64_t most, allocate):
        self.starts = Memory(most, sizeof(Bytes))
        self.offsets = made(allocate, (most + 1) * sizeof(int32_t))
        self.column.starts = <Bytes*>self.starts.start
        self.column.ends = <int32_t*>self.offsets.start
        self.column.ends[0] = 0

    cdef Strings finish(self, int64_t count, object allocate):
        """The first ``count`` strings, copied together, while what they lie in is still held."""
        cdef Strings strings = Strings()
        cdef View data = made(allocate, self.column.total), validity
        cdef uint8_t* bits = NULL
        if self.column.nulls:
            validity = made(allocate, (count + 7) // 8)
            bits = <uint8_t*>validity.start
            strings.validity = validity.owner
        with nogil:
            _copy_all(&self.column, count, <uint8_t*>data.start, bits)
        strings.offsets, strings.data, strings.nulls = self.offsets.owner, data.owner, self.column.nulls
        return strings


cdef void _copy_all(const Column* column, int64_t count, uint8_t* to, uint8_t* bits) noexcept nogil:
    """``bits`` are NULL where there are no nulls."""
    cdef int64_t row
    if bits is NULL:
        for row in range(count):
            copy_ahead(to + column.ends[row], column.starts[row], column.ends[row + 1] - column.ends[row])
        return
    memset(bits, 0, (count + 7) // 8)
    for row in range(count):
        if column.starts[row] is not NULL:
            copy_ahead(to + column.ends[row], column.starts[row], column.ends[row + 1] - column.ends[row])
            bits[row >> 3] |= 1 << (row & 7)
