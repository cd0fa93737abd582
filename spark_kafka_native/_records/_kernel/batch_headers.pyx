"""The headers of the batches of a buffer, as a table of numbers.

A header is accepted if `batch.read_header` accepts it. The table ends before anything else: an older format, a batch
that is cut off, or damage. Python reads on from there and raises the error.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport INT64_MAX, int16_t, int32_t, int64_t, uint16_t, uint32_t, uint64_t

from spark_kafka_native._records._kernel.memory cimport Bytes, Memory, View

cdef enum:
    LOG_OVERHEAD = 12
    RECORD_BATCH_OVERHEAD = 61
    MAGIC_AT = 16
    MAGIC = 2
    CODEC_MASK = 7
    LAST_CODEC = 4


cdef class BatchHeaders:
    """The headers of the first ``count`` whole batches of ``buffer``, which take its bytes up to ``end``.

    The buffer is not held: the garbage collector cannot collect a memoryview that C holds.
    """

    def __cinit__(self, buffer):
        cdef int64_t count, end
        cdef View view = View(buffer)
        with nogil:
            count = _read_all(<Bytes>view.start, view.size, NULL, INT64_MAX, &end)
        self.memory = Memory(count, sizeof(Header))
        self.first = <Header*>self.memory.start
        with nogil:
            self.count = _read_all(<Bytes>view.start, end, self.first, count, &end)
        self.end = end

    @property
    def numbers(self):
        """The table: int64s, twelve for each batch."""
        return PyBytes_FromStringAndSize(<char*>self.first, self.count * <Py_ssize_t>sizeof(Header))

    def next_offset(self, int64_t position, int64_t offset, int64_t epoch):
        """The next offset after the batches from ``position`` on, the leader epoch of the first that has it, and ``end``.

        ``offset`` and ``epoch`` where no batch reaches beyond ``offset``; ``position`` where no batch begins there.
        """
        cdef Header* header
        cdef Py_ssize_t row
        for row in range(self.row_at(position), self.count):
            header = self.first + row
            if header.base_offset + header.last_offset_delta >= offset:
                offset, epoch = header.base_offset + header.last_offset_delta + 1, header.leader_epoch
            position = self.end
        return offset, epoch, position

    cdef Py_ssize_t row_at(self, int64_t position) noexcept:
        """Which batch begins at ``position``; ``count`` if none does."""
        cdef Py_ssize_t low = 0, high = self.count, middle
        while low < high:
            middle = (low + high) // 2
            if self.first[middle].position < position:
                low = middle + 1
            else:
                high = middle
        return low if low < self.count and self.first[low].position == position else self.count


cdef int64_t _read_all(Bytes start, int64_t size, Header* table, int64_t most, int64_t* end) noexcept nogil:
    """How many batches there are, and in ``end`` where the last one ends; a table holds ``most`` of them."""
    cdef Header header
    cdef int64_t count = 0, position = 0
    while count < most and _read(start + position, size - position, &header):
        if table is not NULL:
            header.position = position
            table[count] = header
        count += 1
        position += header.size
    end[0] = position
    return count


cdef inline bint _read(Bytes at, int64_t available, Header* header) noexcept nogil:
    """Read all but the position. False: it is refused."""
    if available < RECORD_BATCH_OVERHEAD or at[MAGIC_AT] != MAGIC:
        return False
    header.base_offset = _int64_at(at)
    header.size = LOG_OVERHEAD + _int32_at(at + 8)
    header.leader_epoch = _int32_at(at + 12)
    header.crc = _uint32_at(at + 17)
    header.attributes = _int16_at(at + 21)
    header.last_offset_delta = _int32_at(at + 23)
    header.base_timestamp = _int64_at(at + 27)
    header.max_timestamp = _int64_at(at + 35)
    header.producer_id = _int64_at(at + 43)
    header.producer_epoch = _int16_at(at + 51)
    header.records_count = _int32_at(at + 57)
    return (
        RECORD_BATCH_OVERHEAD <= header.size <= available
        and header.attributes & CODEC_MASK <= LAST_CODEC
        and header.last_offset_delta >= 0
        and 0 <= header.records_count <= header.last_offset_delta + 1
        and header.base_offset < INT64_MAX - header.last_offset_delta  # a next offset must fit too
    )


cdef inline int64_t _int64_at(Bytes at) noexcept nogil:
    return <int64_t>(<uint64_t>_uint32_at(at) << 32 | _uint32_at(at + 4))


cdef inline uint32_t _uint32_at(Bytes at) noexcept nogil:
    return <uint32_t>at[0] << 24 | <uint32_t>at[1] << 16 | <uint32_t>at[2] << 8 | at[3]


cdef inline int64_t _int32_at(Bytes at) noexcept nogil:
    return <int32_t>_uint32_at(at)


cdef inline int64_t _int16_at(Bytes at) noexcept nogil:
    return <int16_t>(<uint16_t>at[0] << 8 | at[1])
