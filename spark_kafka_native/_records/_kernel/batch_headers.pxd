"""The headers of the batches of a buffer, as a table of numbers."""

from libc.stdint cimport int64_t

from spark_kafka_native._records._kernel.memory cimport Memory


cdef struct Header:
    # As `batch.BatchHeader` has it, the whole batch being ``size`` bytes from ``position`` on.
    int64_t position
    int64_t size
    int64_t base_offset
    int64_t last_offset_delta
    int64_t attributes
    int64_t base_timestamp
    int64_t max_timestamp
    int64_t producer_id
    int64_t producer_epoch
    int64_t records_count
    int64_t crc
    int64_t leader_epoch


cdef class BatchHeaders:
    cdef Memory memory
    cdef Header* first
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t end

    cdef Py_ssize_t row_at(self, int64_t position) noexcept
