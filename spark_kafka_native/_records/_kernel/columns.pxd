"""Columns of byte strings in Arrow's layout: first it is noted where each lies, then all are copied together."""

from libc.stdint cimport int32_t, int64_t

from spark_kafka_native._records._kernel.memory cimport Bytes, Memory, View


cdef struct Column:
    # Where each string lies, NULL for null, and before each the sum of all lengths. A column not wanted is all NULL.
    Bytes* starts
    int32_t* ends
    int64_t total
    int64_t nulls


cdef inline void put(Column* column, int64_t row, Bytes start, int64_t length) noexcept nogil:
    """Note the string of ``row``, null if its length is negative; the sum of lengths must stay an int32."""
    if column.starts is NULL:
        return
    column.starts[row] = NULL if length < 0 else start
    put_length(column, row, length)


cdef inline void put_length(Column* column, int64_t row, int64_t length) noexcept nogil:
    """Note the length of the string of ``row`` as ``put`` does, but not its position."""
    if length < 0:
        column.nulls += 1
    else:
        column.total += length
    column.ends[row + 1] = <int32_t>column.total


cdef class Strings:
    """A column in Arrow's layout: int32 offsets, bytes, and a bitmap, which is None without nulls."""

    cdef readonly object validity
    cdef readonly object offsets
    cdef readonly object data
    cdef readonly Py_ssize_t nulls


cdef class Builder:
    """A column with space for a number of strings: ``put`` them into ``column``, then ``finish``."""

    cdef Column column
    cdef Memory starts
    cdef View offsets

    cdef Strings finish(self, int64_t count, object allocate)
