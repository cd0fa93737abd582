"""A response with the same bytes as the last one is not decoded again.

A stream asks for its topics' partitions at every trigger, and while nothing moves the brokers' responses are the same
bytes. Comparing those takes a thousandth of the time that making ten thousand objects of them does, and the caller can
see that the message is the known one.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from spark_kafka_native._protocol.schema import Response

MIN_BYTES: Final = 4096
"""Smaller responses are decoded as fast as they are compared."""


class _Cached(NamedTuple):
    version: int
    raw: bytes
    message: Response


class ResponseCache:
    """The last large response of one kind, for all connections to a cluster. Threads may share it."""

    def __init__(self, kind: type[Response]) -> None:
        self._kind = kind
        self._last: _Cached | None = None

    def decoded(
        self, kind: type[Response], version: int, frame: memoryview, decode: Callable[[], Response]
    ) -> Response:
        """What ``decode`` makes of the ``frame``, or made of one with the same bytes after the correlation id."""
        if kind is not self._kind or len(frame) < MIN_BYTES:
            return decode()
        last, raw = self._last, bytes(frame[4:])
        if last is not None and last.version == version and last.raw == raw:
            return last.message
        message = decode()
        self._last = _Cached(version, raw, message)
        return message
