"""Records as users of the record clients see them."""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple


@dataclasses.dataclass(slots=True)
class ProducerRecord:
    """A record to send to ``topic``.

    ``key`` and ``value``: bytes, None, or what the serializers take. ``partition``: None leaves it to the partitioner.
    ``timestamp_ms``: milliseconds since 1970; None is the time of ``send``. ``headers``: pairs of a name, and bytes or
    None. Do not change a record after it was sent.
    """

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()

    @property
    def header_bytes(self) -> int:
        """The bytes of the headers' names and values, about."""
        return sum(len(name) + (memoryview(value).nbytes if value else 0) for name, value in self.headers)

    def check(self) -> None:
        """Raise TypeError or ValueError that names the wrong field."""
        if not isinstance(self.topic, str):
            raise TypeError(f"topic must be str, not {type(self.topic).__name__}")
        for name, number in (("partition", self.partition), ("timestamp_ms", self.timestamp_ms)):
            if number is None:
                continue
            if not isinstance(number, int) or isinstance(number, bool):
                raise TypeError(f"topic {self.topic}: {name} must be int or None, not {type(number).__name__}")
            if not 0 <= number < (2**31 if name == "partition" else 2**63):
                raise ValueError(f"topic {self.topic}: {name} {number} is out of bounds")
        if not isinstance(self.headers, Sequence) or isinstance(self.headers, str | bytes):
            kind = type(self.headers).__name__
            raise TypeError(f"topic {self.topic}: headers must be a sequence of tuples, not {kind}")
        for header in self.headers:
            _check_header(self.topic, header)


class RecordMetadata(NamedTuple):
    """Where a record was written.

    ``offset`` is -1 with ``acks=0``, and for a record that the broker had already when a retry arrived.
    ``timestamp_ms`` is the broker's for topics with ``message.timestamp.type=LogAppendTime``, else the record's.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class ConsumerRecord(NamedTuple):
    """A record of a partition, as a consumer returns it.

    ``key`` and ``value``: bytes, the object of a deserializer, or None. ``timestamp_ms``: milliseconds since 1970, None
    before Kafka 0.10, and for records without one. ``headers``: pairs of a name, and bytes or None.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    is_log_append_time: bool
    """Whether the timestamp is the broker's (``message.timestamp.type=LogAppendTime``), not the producer's."""
    key: Any
    value: Any
    headers: tuple[tuple[str, bytes | None], ...] = ()


def _check_header(topic: str, header: object) -> None:
    if not (isinstance(header, tuple) and len(header) == 2):
        raise TypeError(f"topic {topic}: a header must be a tuple of name and value, not {header!r:.100}")
    name, value = header
    if not isinstance(name, str):
        raise TypeError(f"topic {topic}: the name of a header must be str, not {type(name).__name__}")
    if value is not None and not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError(
            f"topic {topic}: the value of header {name!r} must be bytes or None, not {type(value).__name__}"
        )
