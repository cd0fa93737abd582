"""Views of memory that others own, and memory that is allocated here. Both are released with their object."""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport INT64_MAX, int64_t
from libc.stdlib cimport free, malloc


@cython.no_gc_clear  # the buffer is needed to release it
cdef class View:
    """The memory of ``owner``, held for as long as this lives. Raises BufferError: it is not to be had, or written."""

    def __cinit__(self, owner, bint writable=False):
        PyObject_GetBuffer(owner, &self.buffer, PyBUF_WRITABLE if writable else PyBUF_SIMPLE)
        self.taken = True
        self.owner, self.start, self.size = owner, self.buffer.buf, self.buffer.len

    def __dealloc__(self):
        if self.taken:
            PyBuffer_Release(&self.buffer)


cdef class Memory:
    """``count`` things of ``each`` bytes to work in, their content undefined. Raises MemoryError."""

    def __cinit__(self, int64_t count, size_t each):
        if not 0 <= count <= INT64_MAX // <int64_t>each:
            raise MemoryError
        self.start = malloc(<size_t>count * each or 1)  # NULL may also be the result of malloc(0)
        if self.start is NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.start)


cdef View made(object allocate, int64_t size):
    """Memory of ``size`` bytes by ``allocate``. Raises ValueError: it is smaller."""
    cdef View view = View(allocate(size), True)
    if view.size < size:
        raise ValueError(f"{size} bytes were requested, {view.size} were allocated")
    return view
