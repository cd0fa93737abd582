"""Reading records for the status page: the broker's side of the worker process.

One thread reads bytes of the log, sends them to the worker, and waits for the page. One request is served at a time,
and at most `_MAX_WAITING` wait. The worker is killed if a page takes too long. The first batch of the range is then
tried alone, without the Avro schema, and is skipped if it fails again: so a search always continues.
"""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from http import HTTPStatus
from typing import Final, TypeVar

from broker_embedded._log.log import Log
from broker_embedded._log.timestamp_lookup import ContinueAt, Lookup
from broker_embedded._log.view import LogSlice, bytes_of
from broker_embedded._server.status.query import StatusError
from broker_embedded._server.status.records import PageRequest
from broker_embedded._server.status.worker import BAD_SCHEMA, FASTAVRO_MISSING, MEMORY_BYTES, SIZE
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._records.formats import read_any

_READ_BYTES: Final = 4 * 1024 * 1024
_MAX_BATCH_BYTES: Final = 16 * 1024 * 1024
_MAX_RESPONSE_BYTES: Final = 64 * 1024 * 1024
_TIMEOUT_S: Final = 2.5
_LOOKUP_S: Final = 5.0
_MAX_WAITING: Final = 4
_MODULE: Final = "broker_embedded._server.status.worker"

T = TypeVar("T")


class _WorkerFailed(Exception):
    """The worker ended, or was killed because it took too long."""


class RecordReader:
    """Reads pages of records. Belongs to the event loop."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="broker-status")
        self._worker: subprocess.Popen[bytes] | None = None
        self._waiting = 0
        self._closed = False

    async def page(self, log: Log, request: PageRequest) -> bytes:
        """The JSON of a page, with the bytes of ``log`` at the request's offset. Raises StatusError, KafkaError."""
        return await self._run(lambda: self._page(log, request))

    async def offset_at(self, log: Log, timestamp: int, end: int) -> int:
        """The offset of the first record with a timestamp or a later one, ``end`` if there is none before it.

        Raises StatusError, KafkaError.
        """
        return await self._run(lambda: _offset_at(log, timestamp, end))

    def kill(self) -> None:
        """End the worker, and refuse requests."""
        self._closed = True
        worker = self._worker
        if worker is not None:
            worker.kill()

    def join(self) -> None:
        """Wait for the thread, after ``kill``. Blocks."""
        self._executor.shutdown(cancel_futures=True)
        self._end_worker()

    async def _run(self, function: Callable[[], T]) -> T:
        if self._closed or self._waiting >= _MAX_WAITING:
            problem = "the broker stops" if self._closed else "other searches of this page are running; try again"
            raise StatusError(HTTPStatus.SERVICE_UNAVAILABLE, problem)
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, function)
        finally:
            self._waiting -= 1

    # --- in the thread -----------------------------------------------------------------------------------------------

    def _page(self, log: Log, request: PageRequest) -> bytes:
        found = _read(log, request, _READ_BYTES)
        if found.size > _MAX_BATCH_BYTES:
            return _skipped(request, found, f"it is larger than the {_MAX_BATCH_BYTES} bytes that are read")
        alone = _read(log, request, 1)
        attempts = [(request, found)]
        if alone.size < found.size:
            attempts.append((request, alone))
        if request.avro_schema:
            attempts.append((replace(request, avro_schema=""), alone))
        for attempt in attempts:
            with contextlib.suppress(_WorkerFailed):
                return self._ask(*attempt)
        limits = f"it cannot be read within {_TIMEOUT_S} s and {MEMORY_BYTES // 2**20} MiB"
        return _skipped(request, alone, limits)

    def _ask(self, request: PageRequest, found: LogSlice) -> bytes:
        """Send a request to the worker; its page. Raises _WorkerFailed, StatusError, KafkaError."""
        try:
            stored = bytes_of(found.regions)
        except OSError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        aborted = tuple((each.producer_id, each.first_offset, each.last_offset) for each in found.aborted)
        asked = json.dumps(asdict(replace(request, aborted=aborted))).encode()
        worker = self._running_worker()
        watch = threading.Timer(_TIMEOUT_S, worker.kill)
        watch.start()
        try:
            response = _exchange(worker, SIZE.pack(len(asked)) + asked, SIZE.pack(len(stored)), stored)
        except (OSError, ValueError):
            response = b""
        finally:
            watch.cancel()
        if not response:
            self._end_worker()
            raise _WorkerFailed
        status, body = response[0], response[1:]
        if status in {BAD_SCHEMA, FASTAVRO_MISSING}:
            code = HTTPStatus.BAD_REQUEST if status == BAD_SCHEMA else HTTPStatus.NOT_IMPLEMENTED
            raise StatusError(code, body.decode())
        return body

    def _running_worker(self) -> subprocess.Popen[bytes]:
        if self._worker is not None and self._worker.poll() is not None:
            self._end_worker()
        if self._worker is None:
            path = os.pathsep.join(folder or os.getcwd() for folder in sys.path)
            try:
                self._worker = subprocess.Popen(
                    [sys.executable, "-P", "-m", _MODULE],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env={**os.environ, "PYTHONPATH": path},
                    process_group=0,
                )
            except OSError as error:
                problem = f"the process that reads records cannot be started: {error}"
                raise StatusError(HTTPStatus.SERVICE_UNAVAILABLE, problem) from error
            if self._closed:  # `kill` has not seen it
                self._worker.kill()
        return self._worker

    def _end_worker(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            assert worker.stdin is not None
            assert worker.stdout is not None
            worker.kill()
            worker.stdout.close()
            with contextlib.suppress(OSError):  # it has not read all bytes
                worker.stdin.close()
            worker.wait()


def _read(log: Log, request: PageRequest, max_bytes: int) -> LogSlice:
    return log.reader.read(request.offset, max_bytes=max_bytes, upper_bound_offset=request.end, with_aborted=True)


def _exchange(worker: subprocess.Popen[bytes], *sent: bytes) -> bytes:
    """Send bytes, and receive a response; nothing if the worker ends. Raises OSError, ValueError."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    for piece in sent:
        worker.stdin.write(piece)
    worker.stdin.flush()
    head = worker.stdout.read(SIZE.size)
    size = SIZE.unpack(head)[0] if len(head) == SIZE.size else 0
    if not 0 < size <= _MAX_RESPONSE_BYTES:
        return b""
    response = worker.stdout.read(size)
    return response if len(response) == size else b""


def _skipped(request: PageRequest, found: LogSlice, reason: str) -> bytes:
    """A page without records, after the first batch of a slice. Raises KafkaError."""
    first = found.regions[0]
    header = read_any(bytes_of((replace(first, length=min(first.length, 1024)),)), whole=False)
    problem = f"the batch at offset {header.base_offset} is skipped: {reason}"
    page = {**request.reply, "next_offset": max(request.offset, header.next_offset), "problem": problem, "rows": []}
    return json.dumps(page, ensure_ascii=False).encode(errors="replace") + b"\n"


def _offset_at(log: Log, timestamp: int, end: int) -> int:
    deadline = time.monotonic() + _LOOKUP_S
    found: Lookup = ContinueAt(0)
    while isinstance(found, ContinueAt):  # one decompressed batch per call
        if time.monotonic() > deadline:
            raise StatusError(HTTPStatus.SERVICE_UNAVAILABLE, f"no record was found within {_LOOKUP_S:.0f} s")
        found = log.reader.look_up(timestamp, found.offset)
    return end if found is None else min(found.offset, end)
