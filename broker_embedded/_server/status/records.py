"""A page of records as JSON, from the bytes of batches. Runs in the worker process (`worker`).

A page ends at its limit of records, at 4 MiB of JSON, or a second after its first record was read. It then has the
offset to continue at. A batch that cannot be read, or is larger than the limits here, is skipped; the page names it.
"""

import base64
import json
import math
import re
import time
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

from broker_embedded._server.status.avro_values import AvroSchema
from broker_embedded._server.status.worker_protocol import PageRequest, page_json, skipped
from spark_kafka_native._protocol.producer_id import NO_PRODUCER_ID
from spark_kafka_native._records.batch import BatchHeader, CorruptBatch, TimestampType
from spark_kafka_native._records.control import decode_control
from spark_kafka_native._records.conversion import read_records
from spark_kafka_native._records.formats import iter_any
from spark_kafka_native._records.record import LogRecord, iter_headers, read_varint

_MAX_BATCH_RECORDS: Final = 500_000
"""Records of a batch. Each page reads a batch from its start."""
_MAX_DECOMPRESSED_BYTES: Final = 64 * 1024 * 1024
_MAX_CHARS: Final = 4 * 1024 * 1024
_MAX_S: Final = 1.0
_CHECK_AFTER: Final = 1024 * 1024
_RECORD_COST: Final = 1024
"""Bytes that take as long as the fixed work for a record."""
_MAX_PROBLEMS: Final = 10
_MAX_HEADERS: Final = 100
_MAX_AVRO_BYTES: Final = 1024 * 1024
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
"""Characters that text does not have, apart from tabs and line breaks."""


def page_of_records(request: PageRequest, stored: memoryview) -> bytes:
    """The page of a request. Raises BadSchema, FastavroMissing."""
    page = _Page(request)
    page.read(stored)
    return page_json(page.next_offset, page.problems, page.rows)


class _Page:
    def __init__(self, request: PageRequest) -> None:
        self.rows: list[str] = []
        self.next_offset = request.offset
        self._problems = list(request.problems)
        self._request = request
        self._key = None if request.key is None else request.key.encode(errors="surrogatepass")
        self._avro = AvroSchema(request.avro_schema, is_framed=request.is_framed) if request.avro_schema else None
        self._deadline = math.inf
        self._chars = self._unchecked = self._more_problems = 0

    @property
    def problems(self) -> list[str]:
        """The first problems, and how many more there are."""
        more = [f"further skipped batches: {self._more_problems}"] if self._more_problems else []
        return self._problems + more

    def read(self, stored: memoryview) -> None:
        """Read batches until the page is complete."""
        try:
            for position, header in iter_any(stored):
                late = time.monotonic() >= self._deadline
                if late or self.next_offset >= self._request.end or not self._read_batch(stored, position, header):
                    return
                self._start_clock()
        except CorruptBatch as error:
            self._note(str(error))

    def _read_batch(self, stored: memoryview, position: int, header: BatchHeader) -> bool:
        """Add the wanted records of a batch; whether to read the next one."""
        try:
            if header.records_count > _MAX_BATCH_RECORDS:
                raise CorruptBatch(
                    f"it has {header.records_count} records, more than the {_MAX_BATCH_RECORDS} that are read"
                )
            described = _describe_batch(stored, position, header)
            for record in read_records(stored, position, header, max_bytes=_MAX_DECOMPRESSED_BYTES):
                if record.offset >= self.next_offset:
                    if self._is_complete():
                        return False
                    self._count(record)
                    if self._key is None or (record.key == self._key and not header.is_control):
                        self._add(record, header, described)
        except CorruptBatch as error:
            self._note(skipped(header, self.next_offset, str(error)))
        self.next_offset = max(self.next_offset, header.next_offset)
        return True

    def _start_clock(self) -> None:
        if self._deadline == math.inf:
            self._deadline = time.monotonic() + _MAX_S

    def _count(self, record: LogRecord) -> None:
        self._start_clock()  # not before: each page reads a batch from its start
        self._unchecked += _RECORD_COST + len(record.key or b"") + len(record.value or b"") + len(record.headers)
        self.next_offset = record.offset + 1

    def _is_complete(self) -> bool:
        if len(self.rows) >= self._request.limit or self._chars >= _MAX_CHARS:
            return True
        if self._unchecked < _CHECK_AFTER:
            return False
        self._unchecked = 0
        return time.monotonic() >= self._deadline

    def _note(self, problem: str) -> None:
        if len(self._problems) < _MAX_PROBLEMS:
            self._problems.append(problem)
        else:
            self._more_problems += 1

    def _add(self, record: LogRecord, header: BatchHeader, described: Mapping[str, Any]) -> None:
        most = self._request.shown_bytes
        is_stamped = header.timestamp_type is TimestampType.LOG_APPEND_TIME
        value = show(record.value, most)
        if self._avro is not None and value is not None and not header.is_control:
            assert record.value is not None
            value["avro"] = self._decoded(self._avro, record.value)
        row = {
            "offset": record.offset,
            "timestamp": record.timestamp,
            "timestamp_type": "LogAppendTime" if is_stamped else "CreateTime",
            "key": show(record.key, most),
            "value": value,
            **_headers(record.headers, most),
            **described,
            "transaction": self._outcome(record.offset, header),
        }
        self.rows.append(json.dumps(row, ensure_ascii=False))
        self._chars += len(self.rows[-1])

    @staticmethod
    def _decoded(avro: AvroSchema, value: bytes) -> Mapping[str, str]:
        if len(value) > _MAX_AVRO_BYTES:
            return {"problem": f"the value has {len(value)} bytes, more than the {_MAX_AVRO_BYTES} that are decoded"}
        return avro.decode(value)

    def _outcome(self, offset: int, header: BatchHeader) -> str | None:
        """The outcome of a record's transaction: committed, aborted or open; None without one."""
        if not header.is_transactional or header.is_control:
            return None
        producer_id = header.producer_id
        if any(owner == producer_id and first <= offset <= last for owner, first, last in self._request.aborted):
            return "aborted"
        return "open" if offset >= self._request.open_transactions.get(str(producer_id), offset + 1) else "committed"


def _describe_batch(stored: memoryview, position: int, header: BatchHeader) -> dict[str, Any]:
    control = decode_control(stored, position, header) if header.is_control else None
    has_producer = header.producer_id != NO_PRODUCER_ID
    return {
        "batch": {
            "base_offset": header.base_offset,
            "size_bytes": header.size_in_bytes,
            "compression": header.compression.label,
            "magic": header.magic,
            "leader_epoch": header.partition_leader_epoch,
        },
        "producer": {"id": header.producer_id, "epoch": header.producer_epoch} if has_producer else None,
        "control": None if control is None else control.type.name,
    }


def _headers(stored: bytes, most: int) -> dict[str, Any]:
    """The first headers, their number, and the problem if they are malformed."""
    rows: list[dict[str, Any]] = []
    left = most
    try:
        count, _ = read_varint(stored, 0, len(stored), 0)
        for key, value in islice(iter_headers(stored), _MAX_HEADERS):
            rows.append({"key": show(key, left), "value": show(value, left)})
            left = max(0, left - len(key) - len(value or b""))
    except CorruptBatch as error:
        return {"headers": rows, "header_count": len(rows), "header_problem": str(error)}
    return {"headers": rows, "header_count": count, "header_problem": None}


def show(data: bytes | None, most: int) -> dict[str, Any] | None:
    """Bytes as JSON: their ``size``, and at most ``most`` of them, as ``text`` if they are text, or as ``base64``.

    None is null.
    """
    if data is None:
        return None
    first = data[:most]
    row: dict[str, Any] = {"size": len(data)}
    text = _text_of(first, whole=len(first) == len(data))
    if text is None:
        row["base64"] = base64.b64encode(first).decode()
    else:
        row["text"] = text
    return row


def _text_of(data: bytes, *, whole: bool) -> str | None:
    """UTF-8 without control characters, whose last character may be incomplete unless it is ``whole``; or None."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        if whole or error.reason != "unexpected end of data":
            return None
        text = data[: error.start].decode()
    return None if _CONTROL.search(text) else text
