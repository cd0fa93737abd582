"""Reading records for the status page: bytes of the log go to a worker process, which makes the page.

One thread reads the bytes, sends them to the worker, and waits for the page. One request is served at a time, and at
most `_MAX_WAITING` wait. If the worker cannot read the batches of a request, the first one is tried alone, then without
the Avro schema, and is skipped if it fails again. On a busy machine the time of a request may end before that. The
client repeats it, and its first batch is tried alone, without the schema; late again, it is skipped. So a search always
continues.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http import HTTPStatus
from typing import Final, TypeVar
from uuid import UUID

from broker_embedded._log.log import Log
from broker_embedded._log.timestamp_lookup import ContinueAt, Lookup
from broker_embedded._log.view import LogSlice, bytes_of
from broker_embedded._platform.cancellation import Cancellation, WorkCancelled
from broker_embedded._server.status.query import StatusError
from broker_embedded._server.status.worker_process import WorkerFailed, WorkerLate, WorkerLost, WorkerProcess
from broker_embedded._server.status.worker_protocol import (
    BAD_SCHEMA,
    FASTAVRO_MISSING,
    PageRequest,
    decode_response,
    encode_request,
    page_json,
    skipped,
)
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._protocol.wire import FileRegion
from spark_kafka_native._records.batch import BatchHeader, CorruptBatch
from spark_kafka_native._records.formats import read_any

_LEAST_READ_BYTES: Final = 1024
_READ_BYTES: Final = 4 * 1024 * 1024
_MAX_BATCH_BYTES: Final = 16 * 1024 * 1024
_HEAD_BYTES: Final = 1024
_PAGE_S: Final = 60.0
_LOOKUP_S: Final = 5.0
_IDLE_S: Final = 60.0
_TRIES: Final = 2
_MAX_WAITING: Final = 4
_MAX_LATE: Final = 100
_STOPPING: Final = "the broker stops"

T = TypeVar("T")


class RecordReader:
    """Reads pages of records. Belongs to the event loop."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="broker-status")
        self._worker: WorkerProcess | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._read_bytes = _READ_BYTES
        """Smaller after a failure, so that few attempts isolate the batch."""
        self._late: dict[tuple[UUID | None, TopicPartition, int], None] = {}
        """Where requests began whose time has ended, the last one last: topic, partition and offset."""
        self._waiting = 0
        self._lookups: set[Cancellation] = set()
        self._closed = False

    async def page(self, log: Log, request: PageRequest) -> bytes:
        """The page of a request, by `page_json`, from the bytes of ``log``. Raises StatusError, KafkaError."""
        return await self._run(lambda: self._page(log, request))

    async def offset_at(self, log: Log, timestamp: int, end: int) -> int:
        """The offset of the first record with a timestamp or a later one, ``end`` if there is none before it.

        Raises StatusError, KafkaError.
        """
        limit = _TimeLimit(_LOOKUP_S)
        self._lookups.add(limit)
        try:
            return await self._run(lambda: _offset_at(log, timestamp, end, limit))
        except WorkCancelled as error:
            raise StatusError(HTTPStatus.SERVICE_UNAVAILABLE, str(error)) from None
        finally:
            self._lookups.discard(limit)

    def kill(self) -> None:
        """End the worker, and refuse requests."""
        self._closed = True
        for lookup in self._lookups:
            lookup.cancel(_STOPPING)
        if self._idle is not None:
            self._idle.cancel()
        worker = self._worker
        if worker is not None:
            worker.kill()

    def join(self) -> None:
        """Wait for the thread, after ``kill``. Blocks."""
        self._executor.shutdown(cancel_futures=True)
        self._end_worker()

    async def _run(self, function: Callable[[], T]) -> T:
        if self._closed:
            raise _broker_stops()
        if self._waiting >= _MAX_WAITING:
            problem = "other searches of this page are running; try again"
            raise StatusError(HTTPStatus.SERVICE_UNAVAILABLE, problem, {"Retry-After": "1"})
        if self._idle is not None:
            self._idle.cancel()
        loop = asyncio.get_running_loop()
        self._waiting += 1
        try:
            return await loop.run_in_executor(self._executor, function)
        finally:
            self._waiting -= 1
            if not self._waiting and not self._closed:
                self._idle = loop.call_later(_IDLE_S, self._executor.submit, self._end_worker)

    # --- in the thread -----------------------------------------------------------------------------------------------

    def _page(self, log: Log, request: PageRequest) -> bytes:
        deadline = time.monotonic() + _PAGE_S
        # Records may have been deleted since the request came.
        request = replace(request, offset=max(request.offset, min(log.log_start_offset, request.end)))
        found = _read(log, request, self._read_bytes)
        if not found.regions:  # compaction has left nothing up to the end
            return page_json(request.end, ())
        if found.size > _MAX_BATCH_BYTES:
            return _skipped(request, found, f"it is larger than the {_MAX_BATCH_BYTES} bytes that are read")
        start = (log.topic_id, log.partition, request.offset)
        was_late = start in self._late
        late = f"it is not read within {_PAGE_S:g} s, because this machine is busy"
        if was_late:
            del self._late[start]
            found = _first_batch(found)
            request = _without_schema(request, found, late)
        try:
            return self._page_of(request, found, deadline)
        except WorkerLate:
            if was_late:
                return _skipped(request, found, late)
            self._late[start] = None
            if len(self._late) > _MAX_LATE:
                del self._late[next(iter(self._late))]
            self._read_less()
            problem = "reading takes too long, because this machine is busy; try again"
            raise StatusError(HTTPStatus.SERVICE_UNAVAILABLE, problem, {"Retry-After": "1"}) from None

    def _read_less(self) -> None:
        self._read_bytes = max(self._read_bytes // 16, _LEAST_READ_BYTES)

    def _page_of(self, request: PageRequest, found: LogSlice, deadline: float) -> bytes:
        """The page of a slice.

        If the worker fails: of its first batch, then of that without the schema, then a page that skips the batch.
        Raises WorkerLate, StatusError, KafkaError.
        """
        try:
            page = self._ask(request, found, deadline)
            self._read_bytes = min(2 * self._read_bytes, _READ_BYTES)
            return page
        except WorkerFailed as error:
            reason = str(error)
        alone = _first_batch(found)
        if alone.size < found.size:
            self._read_less()
            try:
                return self._ask(request, alone, deadline)
            except WorkerFailed as error:
                reason = str(error)
        if request.avro_schema:
            try:
                return self._ask(_without_schema(request, alone, reason), alone, deadline)
            except WorkerFailed as error:
                reason = str(error)
        return _skipped(request, alone, reason)

    def _ask(self, request: PageRequest, found: LogSlice, deadline: float) -> bytes:
        """Send a request to the worker; its page. Raises WorkerFailed, WorkerLate, StatusError, KafkaError."""
        stored = _bytes_of(found.regions)
        aborted = tuple((each.producer_id, each.first_offset, each.last_offset) for each in found.aborted)
        asked = encode_request(replace(request, aborted=aborted))
        lost = ""
        for _ in range(_TRIES):
            try:
                response = self._running_worker(deadline).ask(asked, stored, deadline)
                break
            except WorkerLost as error:
                self._end_worker()
                lost = str(error)
            except BaseException:
                self._end_worker()
                raise
        else:
            raise WorkerFailed(lost)
        status, body = decode_response(response)
        if status in {BAD_SCHEMA, FASTAVRO_MISSING}:
            code = HTTPStatus.BAD_REQUEST if status == BAD_SCHEMA else HTTPStatus.NOT_IMPLEMENTED
            raise StatusError(code, body.decode())
        return body

    def _running_worker(self, deadline: float) -> WorkerProcess:
        if self._worker is not None and self._worker.has_ended:
            self._end_worker()
        if self._worker is None:
            self._worker = WorkerProcess()
            if self._closed:  # `kill` has not seen it
                raise _broker_stops()
            self._worker.wait_until_ready(deadline)
        return self._worker

    def _end_worker(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.close()


class _TimeLimit(Cancellation):
    """Cancels work some seconds after its first check."""

    __slots__ = ("_deadline", "_seconds")

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds
        self._deadline: float | None = None

    def check(self) -> None:
        """Raise WorkCancelled if the work is cancelled."""
        now = time.monotonic()
        if self._deadline is None:
            self._deadline = now + self._seconds
        if now > self._deadline:
            self.cancel(f"the time cannot be looked up within {self._seconds:.0f} s; start at an offset")
        super().check()


def _broker_stops() -> StatusError:
    return StatusError(HTTPStatus.SERVICE_UNAVAILABLE, _STOPPING)


def _read(log: Log, request: PageRequest, max_bytes: int) -> LogSlice:
    return log.reader.read(request.offset, max_bytes=max_bytes, upper_bound_offset=request.end, with_aborted=True)


def _without_schema(request: PageRequest, found: LogSlice, reason: str) -> PageRequest:
    """The request without its schema if it has one, and then with that problem. Raises KafkaError."""
    if not request.avro_schema:
        return request
    problem = f"the batch at offset {_header(found).base_offset} is shown without the Avro schema: {reason}"
    return replace(request, avro_schema="", problems=(problem,))


def _skipped(request: PageRequest, found: LogSlice, reason: str) -> bytes:
    """A page without records, after the first batch of a slice. Raises KafkaError."""
    header = _header(found)
    problem = skipped(header, request.offset, reason)
    return page_json(max(request.offset, header.next_offset), (problem,))


def _header(found: LogSlice) -> BatchHeader:
    """The header of a slice's first batch. Raises KafkaError."""
    head = replace(found.regions[0], length=min(found.regions[0].length, _HEAD_BYTES))
    try:
        return read_any(_bytes_of((head,)), whole=False)
    except CorruptBatch as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error


def _bytes_of(regions: Iterable[FileRegion]) -> bytes:
    """The bytes of a slice's regions. Raises KafkaError."""
    try:
        return bytes_of(regions)
    except OSError as error:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error


def _first_batch(found: LogSlice) -> LogSlice:
    """The first batch of a slice. Raises KafkaError."""
    size = _header(found).size_in_bytes
    return replace(found, regions=(replace(found.regions[0], length=size),), size=size)


def _offset_at(log: Log, timestamp: int, end: int, cancellation: Cancellation) -> int:
    """As `RecordReader.offset_at`. Raises KafkaError, WorkCancelled."""
    found: Lookup = ContinueAt(0)
    while isinstance(found, ContinueAt):  # one decompressed batch per call
        cancellation.check()
        found = log.reader.look_up(timestamp, found.offset, cancellation)
    return end if found is None else min(found.offset, end)
