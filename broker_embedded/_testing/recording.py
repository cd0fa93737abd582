"""The last requests of clients, and the number of requests of each API."""

import base64
import functools
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self
from uuid import UUID

from broker_embedded._testing.refusals import present
from broker_embedded._testing.rules import check_api
from spark_kafka_native._protocol import messages
from spark_kafka_native._protocol.codec import decode_from
from spark_kafka_native._protocol.framing import decode_request_header
from spark_kafka_native._protocol.schema import Request, Struct

MAX_REQUESTS: Final = 10_000
MAX_BYTES: Final = 32 * 1024 * 1024
"""Bounds of the recorded requests; the oldest are dropped first."""


@dataclass(frozen=True, kw_only=True)
class RecordedRequest:
    """A request of a client. ``number`` counts all requests from 1, ``faults`` are the ids of the applied faults.

    ``frame`` is the request as received, without its size.
    """

    number: int
    at_ms: int
    api: str
    version: int
    client_id: str
    frame: bytes
    faults: tuple[int, ...] = ()

    @functools.cached_property
    def request(self) -> Request[Any]:
        """The decoded request, a message of `spark_kafka_native._protocol.messages`."""
        header = decode_request_header(self.frame)
        return decode_from(messages.all_requests()[header.api_key], header.body, 0, header.api_version)[0]

    def to_fields(self) -> dict[str, Any]:
        """The request as JSON: bytes in base64, the message with the fields of its version."""
        return {
            "number": self.number,
            "at_ms": self.at_ms,
            "api": self.api,
            "version": self.version,
            "client_id": self.client_id,
            "faults": list(self.faults),
            "request": _plain(self.request, self.version),
            "frame": _plain(self.frame, self.version),
        }

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Self:
        """Parse the result of ``to_fields``."""
        return cls(
            number=fields["number"],
            at_ms=fields["at_ms"],
            api=fields["api"],
            version=fields["version"],
            client_id=fields["client_id"],
            frame=base64.b64decode(fields["frame"]),
            faults=tuple(fields["faults"]),
        )


def _plain(value: object, version: int) -> object:
    """A value as JSON."""
    if isinstance(value, Struct):
        return {spec.name: _plain(getattr(value, spec.name), version) for spec in present(type(value), version)}
    if isinstance(value, tuple):
        return [_plain(item, version) for item in value]
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    return value


class Recorder:
    """The last requests, within bounds."""

    def __init__(self, most: int = MAX_REQUESTS, most_bytes: int = MAX_BYTES) -> None:
        """``most`` 0 keeps none and only counts."""
        self._most = most
        self._most_bytes = most_bytes
        self._kept: deque[tuple[RecordedRequest, list[int]]] = deque()
        self._bytes = 0
        self._number = 0
        self.counts: Counter[str] = Counter()
        """The number of requests of each API, including those that are no longer kept."""

    def add(self, frame: memoryview, *, at_ms: int, api: str, version: int, client_id: str) -> "list[int]":
        """Record a request. Returns the list for the ids of its faults."""
        self._number += 1
        self.counts[api] += 1
        fault_ids: list[int] = []
        if self._most:
            request = RecordedRequest(
                number=self._number, at_ms=at_ms, api=api, version=version, client_id=client_id, frame=bytes(frame)
            )
            self._kept.append((request, fault_ids))
            self._bytes += len(frame)
            while len(self._kept) > self._most or (self._bytes > self._most_bytes and len(self._kept) > 1):
                self._bytes -= len(self._kept.popleft()[0].frame)
        return fault_ids

    def find(
        self, *, api: str | None = None, client_id: str | None = None, after: int = 0
    ) -> Iterator[RecordedRequest]:
        """The recorded requests, oldest first, optionally of one API or client, or after a number.

        Raises FieldError: the API is unknown.
        """
        if api is not None:
            check_api(api)
        for request, fault_ids in self._kept:
            if request.number > after and api in {None, request.api} and client_id in {None, request.client_id}:
                yield replace(request, faults=tuple(fault_ids))

    def clear(self) -> None:
        """Drop all requests and counts. Numbers continue."""
        self._kept.clear()
        self._bytes = 0
        self.counts.clear()
