"""One small interface for Kafka clients, ours and others', so that a test can be written once and run with each.

Every call opens its own client and closes it, has a deadline, and raises `TimeoutError` or `Refused`, never hangs.
"""

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
DEADLINE_S = 30.0

Header = tuple[str, bytes | None]
Configs = Mapping[str, str] | None


class Record(NamedTuple):
    """What is produced. `timestamp_ms` None is the client's clock."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    timestamp_ms: int | None = None
    partition: int = 0


class Stored(NamedTuple):
    """What is consumed."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


class Refused(Exception):
    """The broker's response was this error code."""

    def __init__(self, code: int) -> None:
        super().__init__(f"error code {code}")
        self.code = code


class Client(Protocol):
    """What each client can do for a test; `servers` is a `bootstrap.servers` value."""

    name: str
    sends_null_headers: bool

    def produce(
        self, servers: str, topic: str, records: Sequence[Record], *, compression: str = "none"
    ) -> list[tuple[int, int]]:
        """Send records with acks=all and idempotence; (partition, offset) of each, in order. Raises Refused."""
        ...

    def consume(self, servers: str, topic: str, counts: Mapping[int, int], *, start: int | None = None) -> list[Stored]:
        """Read `counts[partition]` records of each partition from `start`, or its beginning; sorted by partition."""
        ...

    def offsets_for_times(self, servers: str, topic: str, times_ms: Mapping[int, int]) -> dict[int, int | None]:
        """For each partition the offset of the first record at or after a time; None when there is none."""
        ...

    def watermarks(self, servers: str, topic: str, partition: int) -> tuple[int, int]:
        """The first offset and the one after the last."""
        ...

    def commit(self, servers: str, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Store a group's offsets without joining the group."""
        ...

    def committed(self, servers: str, group: str, topic: str, partitions: Sequence[int]) -> dict[int, int | None]:
        """A group's offsets; None where it has none."""
        ...

    def partitions(self, servers: str, topic: str) -> list[int] | None:
        """The partitions of a topic; None when there is no such topic. Does not create it."""
        ...

    def create_topic(
        self, servers: str, topic: str, partitions: int, *, replication: int = 1, configs: Configs = None
    ) -> None:
        """Create a topic. Raises Refused."""
        ...

    def create_partitions(self, servers: str, topic: str, total: int) -> None:
        """Raise the number of partitions to `total`. Raises Refused."""
        ...

    def delete_topic(self, servers: str, topic: str) -> None:
        """Delete a topic. Raises Refused."""
        ...


def still_missing(counts: Mapping[int, int], stored: Sequence[Stored], began: float) -> int:
    """How many of the expected records have not come yet. Raises TimeoutError after the deadline."""
    missing = max(0, sum(counts.values()) - len(stored))
    if missing and time.monotonic() - began > DEADLINE_S:
        raise TimeoutError(f"{missing} of {sum(counts.values())} records did not come in {DEADLINE_S:.0f} s")
    return missing
