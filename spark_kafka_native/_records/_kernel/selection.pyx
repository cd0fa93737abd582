"""Which batches have records to show, as far as that needs no decision.

The others are left to `selection` in Python, which then calls this again: markers, batches of transactions that may be
aborted, anything malformed, and the batch that exceeds a limit.
"""

from cpython.buffer cimport PyBuffer_FillInfo
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t

from spark_kafka_native._records._kernel.batch_headers cimport BatchHeaders, Header
from spark_kafka_native._records._kernel.memory cimport Bytes, View
from spark_kafka_native._records._kernel.walk cimport LOG_APPEND_TIME, MIN_RECORD_BYTES, Batch

cdef enum:
    RECORD_BATCH_OVERHEAD = 61
    CRC_FROM = 21
    CODEC_MASK = 7
    LOG_APPEND_TIME_BIT = 0x08
    TRANSACTIONAL_BIT = 0x10
    CONTROL_BIT = 0x20
    AT_ONCE = 128


cdef class Window:
    """Bytes of the batches, others from one look to the next: slices would cost more than many a CRC."""

    cdef View view
    cdef Bytes start
    cdef Py_ssize_t size

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        PyBuffer_FillInfo(buffer, self, <void*>self.start, self.size, 1, flags)

    cdef void look_at(self, const Header* header) noexcept:
        """What is under the batch's CRC."""
        self.start = <Bytes>self.view.start + header.position + CRC_FROM
        self.size = header.size - CRC_FROM


def select(
    buffer,
    BatchHeaders headers not None,
    int64_t position,
    progress,
    int64_t from_offset,
    int64_t until_offset,
    int64_t target_rows,
    int64_t target_bytes,
    int64_t most_bytes,
    crc32c,
    unpack,
    bint committed_only,
    int64_t aborted_from,
    bint is_one_open,
):
    """Pass over or take batches from ``position`` on: where the one is that is left to others, and those taken.

    These are int64s as `decode` has them. ``progress`` is how far others have come, and moved on here. ``most_bytes``
    is the largest distance, and the largest sum of payloads. ``crc32c`` is None if CRCs are not to be checked.
    ``unpack`` is given position, base offset, codec and the batch's end, decompresses the payload, and returns where in
    the scratch it begins, and its length. ``aborted_from`` is the first offset of the next aborted transaction to come,
    ``is_one_open`` whether one has begun; both count only if ``committed_only``. Raises ValueError: ``headers`` are of
    more bytes than ``buffer`` has.
    """
    cdef int64_t log_position = progress.log_position, next_offset = progress.next_offset
    cdef int64_t rows = progress.rows, payload_bytes = progress.payload_bytes, first_position = progress.first_position
    cdef Py_ssize_t row
    cdef int64_t next, start, length, taken = 0
    cdef const Header* header
    cdef Batch[AT_ONCE] batches
    cdef list chunks = []
    cdef Window window = Window()
    window.view = View(buffer)
    if window.view.size < headers.end:
        raise ValueError(f"headers of {headers.end} bytes, {window.view.size} are there")
    for row in range(headers.row_at(position), headers.count):
        header = headers.first + row
        if payload_bytes >= target_bytes or rows >= target_rows:
            break
        if not log_position <= header.base_offset < until_offset:
            break
        next = header.base_offset + header.last_offset_delta + 1
        if committed_only and (
            header.attributes & CONTROL_BIT
            or next > aborted_from
            or (is_one_open and header.attributes & TRANSACTIONAL_BIT)
        ):
            break
        if crc32c is not None and (next > from_offset or header.attributes & CONTROL_BIT):
            window.look_at(header)
            if <int64_t>crc32c(window) != header.crc:
                break
        if next > from_offset and not header.attributes & CONTROL_BIT:
            start, length = header.position + RECORD_BATCH_OVERHEAD, header.size - RECORD_BATCH_OVERHEAD
            if header.attributes & CODEC_MASK:
                start, length = unpack(
                    header.position, header.base_offset, header.attributes & CODEC_MASK, header.position + header.size
                )
            if length < header.records_count * MIN_RECORD_BYTES or (length and not header.records_count):
                break
            if first_position >= 0 and (
                header.position + header.size - first_position > most_bytes or length > most_bytes - payload_bytes
            ):
                break
            if header.records_count:
                if taken == AT_ONCE:
                    chunks.append(PyBytes_FromStringAndSize(<char*>batches, taken * <Py_ssize_t>sizeof(Batch)))
                    taken = 0
                _take(batches + taken, header, start, length)
                taken += 1
                rows += header.records_count
                payload_bytes += length
                if first_position < 0:
                    first_position = header.position
        position, log_position = header.position + header.size, next
        if next > next_offset:
            next_offset = min(next, until_offset)
    progress.log_position, progress.next_offset, progress.rows = log_position, next_offset, rows
    progress.payload_bytes, progress.first_position = payload_bytes, first_position
    chunks.append(PyBytes_FromStringAndSize(<char*>batches, taken * <Py_ssize_t>sizeof(Batch)))
    return position, b"".join(chunks)


cdef inline void _take(Batch* batch, const Header* header, int64_t start, int64_t length) noexcept:
    cdef bint is_stamped = header.attributes & LOG_APPEND_TIME_BIT
    batch.is_in_scratch = header.attributes & CODEC_MASK != 0
    batch.start = start
    batch.length = length
    batch.records = header.records_count
    batch.base_offset = header.base_offset
    batch.last_offset_delta = header.last_offset_delta
    batch.base_time = header.max_timestamp if is_stamped else header.base_timestamp
    batch.time_type = LOG_APPEND_TIME if is_stamped else 0
    batch.position = header.position
