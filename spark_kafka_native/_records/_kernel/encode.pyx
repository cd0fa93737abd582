"""Columns to records: measured first, because where batches begin depends on sizes, and written once that is known."""

from cpython.bytes cimport PyBytes_AsString, PyBytes_FromStringAndSize
from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint64_t
from libc.string cimport memset

from spark_kafka_native._records._kernel.memory cimport Bytes, View, copy_ahead, made
from spark_kafka_native._records._kernel.varint cimport varint_size, write_varint


cdef enum:
    _MAX_HEADER_BYTES = 1 << 16


cdef struct Source:
    # Strings: how long each is, -1 for null, and where it begins in the data. NULL lengths: all are null.
    const int64_t* lengths
    const int64_t* offsets
    Bytes data
    int64_t size


cdef struct Content:
    int64_t rows
    Source key
    Source value
    # How many headers each row has, and its first one. NULL: none has any.
    const int64_t* counts
    const int64_t* first_headers
    Source header_key
    Source header_value


cdef struct Order:
    # The rows to write, one after the other, and the indexes in them with which batches begin, after ``header_bytes``
    # zeroes.
    const int64_t* rows
    int64_t count
    const int64_t* firsts
    int64_t batches
    const int64_t* times
    int64_t header_bytes


cdef class Measured:
    """Records measured, and ready to be written in any order.

    ``keys`` and ``values``: None if all are null, or large_binary data and offsets, where in the offsets to begin, and
    int64 lengths, -1 for null. ``counts``: int64s, how many of ``header_keys`` and ``header_values`` each of ``rows``
    has, or None. All must stay as they are for as long as this lives.

    Raises ValueError: a column is shorter than it must be, or a string lies outside its data.
    """

    cdef Content content
    cdef list views
    cdef readonly bytes sizes
    """Bytes of each record apart from its deltas and its own length: int64s."""
    cdef int64_t* size
    cdef bytes first_headers

    def __cinit__(self, int64_t rows, keys, values, counts, header_keys, header_values):
        cdef int64_t headers
        cdef View counted
        cdef bint good
        if rows < 0:
            raise ValueError(f"{rows} rows")
        self.views = []
        self.content.rows = rows
        self._open(&self.content.key, keys, rows)
        self._open(&self.content.value, values, rows)
        if counts is not None:
            counted = View(counts)
            self.views.append(counted)
            self.content.counts = <const int64_t*>counted.start
            self.first_headers = PyBytes_FromStringAndSize(NULL, rows * sizeof(int64_t))
            self.content.first_headers = <const int64_t*>PyBytes_AsString(self.first_headers)
            headers = -1
            if counted.count(sizeof(int64_t)) >= rows:
                headers = _sum(self.content.counts, rows, <int64_t*>PyBytes_AsString(self.first_headers))
            if headers < 0:
                raise ValueError("rows have no number of headers")
            self._open(&self.content.header_key, header_keys, headers)
            self._open(&self.content.header_value, header_values, headers)
        self.sizes = PyBytes_FromStringAndSize(NULL, rows * sizeof(int64_t))
        self.size = <int64_t*>PyBytes_AsString(self.sizes)
        with nogil:
            good = _measure(&self.content, self.size)
        if not good:
            raise ValueError("a string lies outside the data")

    cdef int _open(self, Source* source, strings, int64_t count) except -1:
        cdef View lengths, offsets, data
        cdef int64_t first
        if strings is None:
            return 0
        content, places, first, sizes = strings
        lengths, offsets = View(sizes), View(places)
        if lengths.count(sizeof(int64_t)) < count:
            raise ValueError("lengths are missing")
        if first < 0 or offsets.count(sizeof(int64_t)) - first < count:
            raise ValueError("offsets are missing")
        self.views += lengths, offsets
        source.lengths = <const int64_t*>lengths.start
        source.offsets = <const int64_t*>offsets.start + first
        if content is not None:
            data = View(content)
            self.views.append(data)
            source.data, source.size = <Bytes>data.start, data.size
        return 0

    def encode(self, rows, firsts, timestamps, int64_t header_bytes, allocate):
        """The records of ``rows`` in one buffer, and the position of each: int64s, the last one being the end.

        ``rows``: int64s, in the order of the records. ``firsts``: int64s, the records with which batches begin, each
        after ``header_bytes`` zeroes. ``timestamps``: int64s, of all rows.
        Raises ValueError: a row does not exist, timestamps are missing, or ``firsts`` do not ascend from 0.
        """
        cdef View listed = View(rows), begun = View(firsts), timed = View(timestamps), begins, data
        cdef Order order
        cdef int64_t size
        order.rows, order.count = <const int64_t*>listed.start, listed.count(sizeof(int64_t))
        order.firsts, order.batches = <const int64_t*>begun.start, begun.count(sizeof(int64_t))
        order.times, order.header_bytes = <const int64_t*>timed.start, header_bytes
        if timed.count(sizeof(int64_t)) < self.content.rows:
            raise ValueError("timestamps are missing")
        if not _are_rows(&order, self.content.rows):
            raise ValueError("a row does not exist")
        if not _are_firsts(&order):
            raise ValueError("the first rows of batches do not ascend from 0")
        if not 0 <= header_bytes <= _MAX_HEADER_BYTES:
            raise ValueError(f"{header_bytes} zeroes before each batch")
        begins = made(allocate, (order.count + 1) * sizeof(int64_t))
        with nogil:
            size = _place(self.size, &order, <int64_t*>begins.start)
        data = made(allocate, size)
        with nogil:
            _write(&self.content, self.size, &order, <uint8_t*>data.start)
        return data.owner, begins.owner


cdef int64_t _sum(const int64_t* counts, int64_t rows, int64_t* before) noexcept nogil:
    """The sum of ``counts``, with the sum before each; -1 if one is negative, or they are too many."""
    cdef int64_t row, total = 0
    for row in range(rows):
        if counts[row] < 0 or counts[row] > INT64_MAX - total:
            return -1
        before[row] = total
        total += counts[row]
    return total


cdef bint _are_rows(const Order* order, int64_t rows) noexcept nogil:
    cdef int64_t index
    for index in range(order.count):
        if not 0 <= order.rows[index] < rows:
            return False
    return True


cdef bint _are_firsts(const Order* order) noexcept nogil:
    cdef int64_t batch, least = 0
    if order.batches == 0 or order.firsts[0] != 0:
        return order.batches == order.count == 0
    for batch in range(order.batches):
        if not least <= order.firsts[batch] < order.count:
            return False
        least = order.firsts[batch] + 1
    return True


cdef bint _measure(const Content* content, int64_t* sizes) noexcept nogil:
    cdef int64_t row, header = 0, last = 0, size
    cdef bint good = True
    for row in range(content.rows):
        size = 1 + _string_size(&content.key, row, &good) + _string_size(&content.value, row, &good)
        if content.counts is NULL:
            size += 1
        else:
            size += varint_size(content.counts[row])
            last += content.counts[row]
            while header < last:
                size += _string_size(&content.header_key, header, &good)
                size += _string_size(&content.header_value, header, &good)
                header += 1
        sizes[row] = size
    return good


cdef inline int64_t _string_size(const Source* source, int64_t row, bint* good) noexcept nogil:
    cdef int64_t length, offset
    if source.lengths is NULL:
        return 1
    length = source.lengths[row]
    if length <= 0:
        return varint_size(length)
    offset = source.offsets[row]
    if length > source.size or offset < 0 or offset > source.size - length:
        good[0] = False
        return 1
    return varint_size(length) + length


cdef inline int64_t _time_delta(const Order* order, int64_t begin, int64_t index) noexcept nogil:
    return <int64_t>(<uint64_t>order.times[order.rows[index]] - <uint64_t>order.times[order.rows[begin]])


cdef inline int64_t _end_of_batch(const Order* order, int64_t batch) noexcept nogil:
    return order.firsts[batch + 1] if batch + 1 < order.batches else order.count


cdef int64_t _place(const int64_t* sizes, const Order* order, int64_t* begins) noexcept nogil:
    """Where each record begins, and where the last one ends."""
    cdef int64_t batch, index, begin, body, at = 0
    for batch in range(order.batches):
        begin = order.firsts[batch]
        at += order.header_bytes
        for index in range(begin, _end_of_batch(order, batch)):
            body = sizes[order.rows[index]]
            body += varint_size(_time_delta(order, begin, index)) + varint_size(index - begin)
            begins[index] = at
            at += varint_size(body) + body
    begins[order.count] = at
    return at


cdef void _write(const Content* content, const int64_t* sizes, const Order* order, uint8_t* to) noexcept nogil:
    """Write as many bytes as ``_place`` has counted."""
    cdef int64_t batch, index, begin, row, time, header
    for batch in range(order.batches):
        begin = order.firsts[batch]
        memset(to, 0, order.header_bytes)
        to += order.header_bytes
        for index in range(begin, _end_of_batch(order, batch)):
            row = order.rows[index]
            time = _time_delta(order, begin, index)
            to = write_varint(to, sizes[row] + varint_size(time) + varint_size(index - begin))
            to[0] = 0  # the attributes
            to = write_varint(to + 1, time)
            to = write_varint(to, index - begin)
            to = _write_string(to, &content.key, row)
            to = _write_string(to, &content.value, row)
            if content.counts is NULL:
                to = write_varint(to, 0)
                continue
            to = write_varint(to, content.counts[row])
            for header in range(content.first_headers[row], content.first_headers[row] + content.counts[row]):
                to = _write_string(to, &content.header_key, header)
                to = _write_string(to, &content.header_value, header)


cdef inline uint8_t* _write_string(uint8_t* to, const Source* source, int64_t row) noexcept nogil:
    cdef int64_t length = -1 if source.lengths is NULL else source.lengths[row]
    to = write_varint(to, length)
    if length > 0:
        copy_ahead(to, source.data + source.offsets[row], length)
        to += length
    return to
