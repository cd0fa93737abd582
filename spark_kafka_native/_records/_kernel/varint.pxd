"""Variable-length integers, zigzag: int32 and int64 to read, int64 to write, which is the same for an int32."""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from spark_kafka_native._records._kernel.memory cimport Bytes


cdef inline Bytes read_varint(Bytes at, Bytes end, int64_t* value) noexcept nogil:
    """The int32 at ``at``; returns the position after it, NULL if it is cut off or out of range."""
    return _read(at, end, value, 28, 0x0F)


cdef inline Bytes read_varlong(Bytes at, Bytes end, int64_t* value) noexcept nogil:
    """The int64 at ``at``, as ``read_varint``."""
    return _read(at, end, value, 63, 0x01)


cdef inline Bytes _read(Bytes at, Bytes end, int64_t* value, int last_shift, uint8_t last_most) noexcept nogil:
    """``last_shift`` is that of the last byte there can be, which is at most ``last_most``."""
    cdef uint64_t found, byte
    cdef int shift = 7
    if at >= end:
        return NULL
    found = at[0]
    at += 1
    if found >= 0x80:
        if at < end and at[0] < 0x80:  # two bytes, as most that are not one
            value[0] = unfolded((found & 0x7F) | <uint64_t>at[0] << 7)
            return at + 1
        found &= 0x7F
        while True:
            if at >= end or (shift == last_shift and at[0] > last_most):
                return NULL
            byte = at[0]
            at += 1
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
    value[0] = unfolded(found)
    return at


cdef inline int64_t varint_size(int64_t value) noexcept nogil:
    """Bytes that ``value`` takes."""
    cdef uint64_t left = folded(value)
    cdef int64_t size = 1
    while left >= 0x80:
        left >>= 7
        size += 1
    return size


cdef inline uint8_t* write_varint(uint8_t* to, int64_t value) noexcept nogil:
    """Write ``value`` at ``to``; returns the position after it."""
    cdef uint64_t left = folded(value)
    while left >= 0x80:
        to[0] = <uint8_t>(left | 0x80)
        to += 1
        left >>= 7
    to[0] = <uint8_t>left
    return to + 1


cdef inline uint64_t folded(int64_t value) noexcept nogil:
    return (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)


cdef inline int64_t unfolded(uint64_t value) noexcept nogil:
    return <int64_t>(value >> 1) ^ -<int64_t>(value & 1)
