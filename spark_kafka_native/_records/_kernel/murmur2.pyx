"""murmur2 with the seed of Kafka's Java clients, whose partitioner takes it of keys."""

from libc.stdint cimport int64_t, uint32_t

from spark_kafka_native._records._kernel.memory cimport Bytes, View

cdef enum:
    SEED = 0x9747B28C
    M = 0x5BD1E995


def murmur2(data, starts, lengths):
    """murmur2 of the strings at ``starts``, of ``lengths`` bytes, both int64s, in ``data``: a bytearray of int32s.

    Raises ValueError: one of them is not there.
    """
    cdef View content = View(data), begins = View(starts), sizes = View(lengths)
    cdef int64_t rows = sizes.count(sizeof(int64_t))
    cdef bint good = begins.size >= sizes.size
    hashes = bytearray(rows * sizeof(uint32_t))
    cdef View hashed = View(hashes, True)
    if good:
        with nogil:
            good = _hash_all(
                <Bytes>content.start,
                content.size,
                <const int64_t*>begins.start,
                <const int64_t*>sizes.start,
                rows,
                <uint32_t*>hashed.start,
            )
    if not good:
        raise ValueError("a string lies outside the data")
    return hashes


cdef bint _hash_all(
    Bytes data, int64_t size, const int64_t* starts, const int64_t* lengths, int64_t rows, uint32_t* hashes
) noexcept nogil:
    cdef int64_t row
    for row in range(rows):
        if lengths[row] < 0 or starts[row] < 0 or starts[row] > size - lengths[row]:
            return False
        hashes[row] = _hash(data + starts[row], lengths[row])
    return True


cdef inline uint32_t _hash(Bytes data, int64_t size) noexcept nogil:
    cdef uint32_t h = <uint32_t>SEED ^ <uint32_t>size
    cdef uint32_t k
    while size >= 4:
        k = data[0] | <uint32_t>data[1] << 8 | <uint32_t>data[2] << 16 | <uint32_t>data[3] << 24
        k *= <uint32_t>M
        k ^= k >> 24
        h = h * <uint32_t>M ^ k * <uint32_t>M
        data += 4
        size -= 4
    if size:
        if size == 3:
            h ^= <uint32_t>data[2] << 16
        if size >= 2:
            h ^= <uint32_t>data[1] << 8
        h = (h ^ data[0]) * <uint32_t>M
    h = (h ^ h >> 13) * <uint32_t>M
    return h ^ h >> 15
