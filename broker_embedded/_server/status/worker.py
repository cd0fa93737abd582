"""The process that reads records for the status page: ``python -m broker_embedded._server.status.worker``.

A record that a client has written can take much time and memory to read: a few KiB decompress to gigabytes, and a
schema of the page can overflow the stack. This process keeps that away from the broker, whose event loop also would
wait for the interpreter's lock. It has limits of memory, a low priority, and ends after a minute without a request.

    request   size uint32 | PageRequest as JSON | size uint32 | batches
    response  size uint32 | status uint8: 0 a page, 1 a problem with the schema, 2 fastavro is missing | JSON or text
"""

import contextlib
import os
import resource
import select
import struct
import sys
from io import RawIOBase
from typing import Final

from broker_embedded._server.status.avro_values import SchemaProblem
from broker_embedded._server.status.records import page_of_records, request_from

SIZE: Final = struct.Struct(">I")
PAGE, BAD_SCHEMA, FASTAVRO_MISSING = range(3)
MEMORY_BYTES: Final = 1024 * 1024 * 1024
_NICE: Final = 10
_IDLE_S: Final = 60


def main() -> int:
    """Answer requests until the broker closes the pipe; the exit status."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):
        os.nice(_NICE)
    requests, responses = open(0, "rb", buffering=0), open(1, "wb", buffering=0)  # noqa: SIM115  # until it ends
    while select.select([requests], [], [], _IDLE_S)[0]:
        request = _read(requests)
        if request is None:
            break
        stored = _read(requests)
        if stored is None:
            break
        status, body = _answer(request, stored)
        _write(responses, SIZE.pack(len(body) + 1) + bytes([status]) + body)
    return 0


def _answer(request: bytes, stored: bytes) -> tuple[int, bytes]:
    try:
        return PAGE, page_of_records(request_from(request), memoryview(stored))
    except SchemaProblem as problem:
        return FASTAVRO_MISSING if problem.is_missing else BAD_SCHEMA, str(problem).encode(errors="replace")


def _read(pipe: RawIOBase) -> bytes | None:
    """The next sized bytes; None at the end of the pipe."""
    size = _exactly(pipe, SIZE.size)
    return None if size is None else _exactly(pipe, SIZE.unpack(size)[0])


def _exactly(pipe: RawIOBase, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        piece = pipe.read(size - len(data))
        if not piece:
            return None
        data += piece
    return bytes(data)


def _write(pipe: RawIOBase, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[pipe.write(view) or 0 :]


if __name__ == "__main__":
    sys.exit(main())
