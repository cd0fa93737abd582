"""The process that reads records for the status page: ``python -m broker_embedded._server.status.worker CPU_S BYTES``.

A record that a client has written can take much time and memory to read: a few KiB decompress to gigabytes, and a
schema of the page can overflow the stack. This process keeps that away from the broker, whose event loop also would
wait for the GIL. It has a low priority, a limit of memory, and one of processor time for each request: the kernel ends
it with SIGPROF. It ends when the broker closes its standard input. `worker_protocol` has the requests and responses.
"""

import contextlib
import os
import resource
import signal
import sys
from io import RawIOBase
from pathlib import Path
from typing import Final

from broker_embedded._server.status.avro_values import BadSchema, FastavroMissing
from broker_embedded._server.status.records import page_of_records
from broker_embedded._server.status.worker_protocol import (
    BAD_SCHEMA,
    FASTAVRO_MISSING,
    OUT_OF_MEMORY,
    PAGE,
    READY,
    SIZE,
    decode_request,
    encode_response,
)

_NICE: Final = 10
_OOM_SCORE: Final = 1000


def main() -> int:
    """Answer requests until the broker closes the pipe; the exit status."""
    cpu_s, memory_bytes = float(sys.argv[1]), int(sys.argv[2])
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGPROF})  # the mask is that of the broker's process
    with contextlib.suppress(OSError, ValueError):  # there are systems without such a limit
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        limit = memory_bytes if hard == resource.RLIM_INFINITY else min(memory_bytes, hard)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):
        os.nice(_NICE)
    with contextlib.suppress(OSError):  # where memory is short, the kernel ends this process and no other one
        Path("/proc/self/oom_score_adj").write_text(str(_OOM_SCORE), encoding="ascii")
    requests, responses = open(0, "rb", buffering=0), open(1, "wb", buffering=0)  # noqa: SIM115  # until it ends
    _write(responses, READY)
    while (request := _read(requests)) is not None and (stored := _read(requests)) is not None:
        signal.setitimer(signal.ITIMER_PROF, cpu_s)
        status, body = _answer(request, stored)
        signal.setitimer(signal.ITIMER_PROF, 0)
        _write(responses, encode_response(status, body))
    return 0


def _answer(request: bytes, stored: bytes) -> tuple[int, bytes]:
    try:
        return PAGE, page_of_records(decode_request(request), memoryview(stored))
    except BadSchema as error:
        return BAD_SCHEMA, str(error).encode(errors="replace")
    except FastavroMissing as error:
        return FASTAVRO_MISSING, str(error).encode()


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
    try:
        sys.exit(main())
    except MemoryError:
        os._exit(OUT_OF_MEMORY)
