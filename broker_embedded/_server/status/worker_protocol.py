"""Messages between the broker and the process that reads records (`worker`).

ready     `READY`, after the imports
request   size uint32 | PageRequest as JSON | size uint32 | batches
response  size uint32 | status uint8: 0 a page, 1 a problem with the schema, 2 fastavro is missing | JSON or text
"""

import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final

from spark_kafka_native._records.batch import BatchHeader

SIZE: Final = struct.Struct(">I")
READY: Final = b"ready\n"
PAGE, BAD_SCHEMA, FASTAVRO_MISSING = range(3)
OUT_OF_MEMORY: Final = 77
"""The exit status of a worker that has reached its limit of memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """The records to return: at most ``limit`` from ``offset`` on and before ``end``, those with ``key`` if it is set.

    ``shown_bytes`` is the most bytes to return of a key, of a value, and of all headers. ``aborted`` has producer id,
    first and last offset of aborted transactions, ``open_transactions`` the first offset of open ones by producer id.
    ``problems`` are copied into the response.
    """

    offset: int
    end: int
    limit: int
    shown_bytes: int
    key: str | None = None
    avro_schema: str = ""
    is_framed: bool = False
    aborted: tuple[tuple[int, int, int], ...] = ()
    open_transactions: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def encode_request(request: PageRequest) -> bytes:
    """A request as JSON."""
    return json.dumps(asdict(request)).encode()


def decode_request(text: bytes) -> PageRequest:
    """A request from its JSON."""
    fields = json.loads(text)
    aborted = tuple(tuple(each) for each in fields["aborted"])
    return PageRequest(**fields | {"aborted": aborted, "problems": tuple(fields["problems"])})


def encode_response(status: int, body: bytes) -> bytes:
    """A response with its size."""
    return SIZE.pack(len(body) + 1) + bytes([status]) + body


def decode_response(response: bytes) -> tuple[int, bytes]:
    """Status and body of a response without its size."""
    return response[0], response[1:]


def page_json(next_offset: int, problems: Sequence[str], rows: Iterable[str] = ()) -> bytes:
    """A page as JSON: ``next_offset``, ``problems`` about skipped batches, and ``rows``, which are JSON already."""
    head = json.dumps({"next_offset": next_offset, "problems": problems}, ensure_ascii=False)
    return f'{head[:-1]}, "rows": [{", ".join(rows)}]}}\n'.encode(errors="replace")


def skipped(header: BatchHeader, offset: int, reason: str) -> str:
    """The problem of a batch whose records from ``offset`` on are not shown."""
    start = f" from offset {offset} on" if offset > header.base_offset else ""
    return f"the batch at offset {header.base_offset} is skipped{start}: {reason}"
