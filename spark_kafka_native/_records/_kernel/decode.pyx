"""Batches to columns: the payloads of a Fetch response, whole or not at all.

Bytes that no writer would write are refused without a reason. `arrow.reference` reads the batches again and raises the
error, so that the two cannot raise different ones.
"""

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t
from libc.string cimport memset

from spark_kafka_native._records._kernel.columns cimport Builder, Column, Strings
from spark_kafka_native._records._kernel.memory cimport Bytes, Memory, View, made
from spark_kafka_native._records._kernel.walk cimport Batch, Output, can_be_walked, copy_headers, measure_headers, walk


cdef class Rows:
    """The requested columns, the others being None; ``count`` rows of each."""

    cdef readonly Py_ssize_t count
    cdef readonly Strings key
    cdef readonly Strings value
    cdef readonly object offset
    cdef readonly object timestamp
    cdef readonly object timestamp_type
    cdef readonly Headers headers


cdef class Headers:
    """Lists in Arrow's layout, null where there are none, of ``count`` keys and values."""

    cdef readonly object validity
    cdef readonly object offsets
    cdef readonly Py_ssize_t nulls
    cdef readonly Py_ssize_t count
    cdef readonly Strings keys
    cdef readonly Strings values


def decode(buffer, scratch, batches, int64_t from_offset, int64_t until_offset, columns, allocate):
    """The records of ``batches`` from ``from_offset`` until ``until_offset`` as ``columns``, or None.

    None: anything no writer would write is in one of the batches. ``batches``: int64s, nine for each batch, whether
    its payload is in ``scratch`` instead of ``buffer``, from where there, how many bytes, how many records, base
    offset, last offset delta, the time that records count from, the type of times, and where the batch is, which does
    not matter here. ``columns`` has names of Rows. ``allocate`` makes a writable buffer of a number of bytes.
    """
    cdef View listed = View(batches), plain = View(buffer), unpacked = View(scratch)
    cdef const Batch* first = <const Batch*>listed.start
    cdef int64_t count = listed.count(sizeof(Batch))
    cdef int64_t most = _most_rows(first, count, plain.size, unpacked.size)
    cdef _Lists lists = None
    cdef Builder keys = None, values = None
    cdef View offsets, times, types
    cdef Output out
    cdef bint good
    cdef Rows rows = Rows()
    if most < 0:
        return None
    memset(&out, 0, sizeof(Output))
    if "offset" in columns:
        offsets = made(allocate, most * sizeof(int64_t))
        out.offsets, rows.offset = <int64_t*>offsets.start, offsets.owner
    if "timestamp" in columns:
        times = made(allocate, most * sizeof(int64_t))
        out.timestamps, rows.timestamp = <int64_t*>times.start, times.owner
    if "timestamp_type" in columns:
        types = made(allocate, most * sizeof(int32_t))
        out.timestamp_types, rows.timestamp_type = <int32_t*>types.start, types.owner
    if "key" in columns:
        keys = Builder(most, allocate)
        out.key = keys.column
    if "value" in columns:
        values = Builder(most, allocate)
        out.value = values.column
    if "headers" in columns:
        lists = _Lists(most, allocate)
        lists.open(&out)
    with nogil:
        good = _walk_all(first, count, <Bytes>plain.start, <Bytes>unpacked.start, from_offset, until_offset, &out)
    if not good:
        return None
    rows.count = out.rows
    if lists is not None:
        rows.headers = lists.finish(&out, allocate)
        if rows.headers is None:
            return None
    if keys is not None:
        keys.column = out.key
        rows.key = keys.finish(out.rows, allocate)
    if values is not None:
        values.column = out.value
        rows.value = values.finish(out.rows, allocate)
    return rows


cdef int64_t _most_rows(const Batch* batch, int64_t count, int64_t plain_size, int64_t unpacked_size) noexcept nogil:
    """How many records ``count`` batches claim; -1 if one cannot have them, or offsets would not be int32s."""
    cdef int64_t most = 0, payload = 0, index
    for index in range(count):
        if not can_be_walked(batch + index, unpacked_size if batch[index].is_in_scratch else plain_size):
            return -1
        most += batch[index].records
        if batch[index].length > INT32_MAX - payload:
            return -1
        payload += batch[index].length
    return most


cdef bint _walk_all(
    const Batch* batch,
    int64_t count,
    Bytes plain,
    Bytes unpacked,
    int64_t from_offset,
    int64_t until_offset,
    Output* out,
) noexcept nogil:
    cdef int64_t index
    cdef Bytes start
    for index in range(count):
        start = (unpacked if batch.is_in_scratch else plain) + batch.start
        if not walk(start, start + batch.length, batch, from_offset, until_offset, out):
            return False
        batch += 1
    return True


cdef class _Lists:
    """Room for the headers of rows, which are read once all rows are known."""

    cdef View offsets
    cdef Memory starts
    cdef Memory ends

    def __cinit__(self, int64_t most, allocate):
        self.offsets = made(allocate, (most + 1) * sizeof(int32_t))
        self.starts, self.ends = Memory(most, sizeof(Bytes)), Memory(most, sizeof(Bytes))

    cdef void open(self, Output* out) noexcept:
        out.header_lists = <int32_t*>self.offsets.start
        out.header_lists[0] = 0
        out.headers, out.headers_ends = <Bytes*>self.starts.start, <Bytes*>self.ends.start

    cdef Headers finish(self, const Output* out, object allocate):
        """None if a header is none."""
        cdef int64_t count = out.headers_count
        cdef Headers headers = Headers()
        cdef Strings keys = Strings(), values = Strings()
        cdef View key_ends = made(allocate, (count + 1) * sizeof(int32_t))
        cdef View value_ends = made(allocate, (count + 1) * sizeof(int32_t))
        cdef View validity = made(allocate, (out.rows + 7) // 8)
        cdef View key_data, value_data, value_validity
        cdef uint8_t* bits = NULL
        cdef Column key, value
        cdef bint good
        memset(&key, 0, sizeof(Column))
        memset(&value, 0, sizeof(Column))
        key.ends, value.ends = <int32_t*>key_ends.start, <int32_t*>value_ends.start
        key.ends[0] = value.ends[0] = 0
        with nogil:
            good = measure_headers(out, &key, &value)
        if not good:
            return None
        key_data, value_data = made(allocate, key.total), made(allocate, value.total)
        if value.nulls:
            value_validity = made(allocate, (count + 7) // 8)
            bits = <uint8_t*>value_validity.start
            memset(bits, 0, (count + 7) // 8)
            values.validity = value_validity.owner
        with nogil:
            copy_headers(out, <uint8_t*>key_data.start, <uint8_t*>value_data.start, bits)
            _mark_lists(out, <uint8_t*>validity.start)
        keys.offsets, keys.data, keys.nulls = key_ends.owner, key_data.owner, 0
        values.offsets, values.data, values.nulls = value_ends.owner, value_data.owner, value.nulls
        headers.validity, headers.offsets, headers.nulls = validity.owner, self.offsets.owner, out.without_headers
        headers.count, headers.keys, headers.values = count, keys, values
        return headers


cdef void _mark_lists(const Output* out, uint8_t* bits) noexcept nogil:
    cdef int64_t row
    memset(bits, 0, (out.rows + 7) // 8)
    for row in range(out.rows):
        bits[row >> 3] |= (out.header_lists[row + 1] > out.header_lists[row]) << (row & 7)
