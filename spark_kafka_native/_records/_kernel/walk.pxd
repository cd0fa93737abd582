"""The records of a batch, field by field: the positions of the wanted fields are noted, nothing is copied yet."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from spark_kafka_native._records._kernel.columns cimport Column
from spark_kafka_native._records._kernel.memory cimport Bytes


cdef enum:
    MIN_RECORD_BYTES = 7
    LOG_APPEND_TIME = 1


cdef struct Batch:
    # As `selection` lists it: nine int64s.
    int64_t is_in_scratch
    int64_t start
    int64_t length
    int64_t records
    int64_t base_offset
    int64_t last_offset_delta
    int64_t base_time
    int64_t time_type
    int64_t position


cdef struct Output:
    # Rows so far, and their columns, with space for all records; those that were not requested are NULL.
    int64_t rows
    int64_t* offsets
    int64_t* timestamps
    int32_t* timestamp_types
    Column key
    Column value
    # Of each row where its headers begin, where it ends, and the sum of all headers before it.
    int32_t* header_lists
    Bytes* headers
    Bytes* headers_ends
    int64_t headers_count
    int64_t without_headers


cdef bint can_be_walked(const Batch* batch, int64_t size) noexcept nogil

cdef bint walk(
    Bytes at, Bytes end, const Batch* batch, int64_t from_offset, int64_t until_offset, Output* output
) noexcept nogil

cdef bint measure_headers(const Output* rows, Column* keys, Column* values) noexcept nogil

cdef void copy_headers(const Output* rows, uint8_t* keys, uint8_t* values, uint8_t* bits) noexcept nogil
