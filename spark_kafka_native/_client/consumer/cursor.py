"""The state of one partition of a `Fetcher`: its position, its leader and its next Fetch. Pure."""

import dataclasses
import math
from typing import TYPE_CHECKING, Final
from uuid import UUID

from spark_kafka_native._client.cluster.metadata import NO_EPOCH, PartitionLeader
from spark_kafka_native._client.retry import Backoff
from spark_kafka_native._net.connection import MAX_THROTTLE_MS
from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._protocol.wire import ZERO_UUID

if TYPE_CHECKING:
    from spark_kafka_native._client.config import ClientConfig

_NEVER: Final = -math.inf


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRange:
    """The offsets of a partition from ``from_offset`` up to but not including ``until_offset``.

    ``leader`` saves a Metadata request; its topic id, if any, is the only topic that is read.
    ``known_epoch`` is a leader epoch in which the log was seen to reach up to ``until_offset``: a later leader that
    lacks some of it has lost records of the range. Without it only what was read is compared with a new leader's log.
    ``topic_id``: of the only topic that is read, if ``leader`` is None.
    """

    partition: TopicPartition
    from_offset: int
    until_offset: int
    leader: PartitionLeader | None = None
    known_epoch: int = NO_EPOCH
    topic_id: UUID = ZERO_UUID


@dataclasses.dataclass(slots=True)
class FetchMetrics:
    """Counters of one `Fetcher` from its start."""

    requests: int = 0
    retries: int = 0
    bytes_fetched: int = 0
    records: int = 0


class PreferredReplica:
    """Which replica to read instead of the leader, and for how long (KIP-392). Times are those of ``time.monotonic()``.

    The leader's choice holds for ``metadata.max.age.ms``; then the leader is asked again, because another replica may
    be closer by then. A replica that fails, or has no records although there are some, is given up for the leader. The
    leader then gets no rack for the same time, so that it does not name the replica again at once.
    """

    __slots__ = ("_given_up_until", "_max_age_s", "_rack", "_valid_until", "node_id")

    def __init__(self, rack: str, max_age_ms: float) -> None:
        """``rack`` is ``client.rack``; if empty, leaders name no replica."""
        self.node_id: int | None = None
        """The replica to read; None: the leader."""
        self._rack = rack
        self._max_age_s = max_age_ms / 1000
        self._valid_until = self._given_up_until = _NEVER

    def rack(self, now: float) -> str:
        """The rack that Fetch requests name."""
        return self._rack if now >= self._given_up_until else ""

    def follow(self, node_id: int, now: float) -> None:
        """Read the replica that the leader has named."""
        self.node_id = node_id
        self._valid_until = now + self._max_age_s

    def give_up(self, now: float) -> bool:
        """Read the leader from now on. Whether a replica was read."""
        if self.node_id is None:
            return False
        self.node_id = None
        self._given_up_until = now + self._max_age_s
        return True

    def expire(self, now: float) -> bool:
        """Ask the leader again if its choice is ``metadata.max.age.ms`` old. Whether it is."""
        if self.node_id is None or now < self._valid_until:
            return False
        self.node_id = None
        return True


class Cursor:
    """The state of one partition.

    All rows below ``position`` have been yielded, and ``epoch`` is the leader epoch of the record before it (-1: not
    known). The next Fetch is at ``next_offset``, after the record of ``next_epoch``: further than ``position`` while
    received batches are being decoded.
    """

    __slots__ = (
        "_extended_ms",
        "_progress_at",
        "_timeout_ms",
        "backoff",
        "compared_epoch",
        "corrupt_at",
        "end_offset",
        "epoch",
        "failure",
        "from_offset",
        "known_epoch",
        "last_error",
        "leader",
        "lookups",
        "max_bytes",
        "next_epoch",
        "next_offset",
        "partition",
        "position",
        "replica",
        "retry_at",
        "state",
        "topic_id",
        "until_offset",
    )

    def __init__(
        self, wanted: PartitionRange, config: "ClientConfig", *, timeout_ms: float, jitter: float, now: float
    ) -> None:
        self.partition = wanted.partition
        self.from_offset = self.position = self.next_offset = wanted.from_offset
        self.epoch = self.next_epoch = NO_EPOCH
        self.until_offset = wanted.until_offset
        self.end_offset = wanted.until_offset
        """Where reading stops: before ``until_offset`` if the log was truncated there."""
        self.leader = wanted.leader
        self.topic_id = wanted.topic_id if wanted.leader is None else wanted.leader.topic_id
        """The only topic that is read; all zeroes until one is known."""
        self.known_epoch = wanted.known_epoch
        self.compared_epoch = wanted.known_epoch
        """The latest leader epoch whose log is known to have what was read, and what is to be read."""
        self.replica = PreferredReplica(config.client_rack, config.metadata_max_age_ms)
        self.max_bytes = config.max_partition_fetch_bytes
        self.backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, jitter=jitter)
        self.retry_at = 0.0
        """When a source is looked for, on ``time.monotonic``."""
        self.lookups = 0
        """Metadata responses in a row that did not have the topic, or had another one of its name."""
        self.last_error: KafkaError | None = None
        """Of the last try, if there was no progress since."""
        self.failure: KafkaError | None = None
        """Why this partition is not read on."""
        self.corrupt_at: int | None = None
        """Where a batch could not be read once."""
        self.state = "no broker has answered"
        self._timeout_ms = timeout_ms
        self._progress_at = now
        self._extended_ms = 0.0

    @property
    def is_finished(self) -> bool:
        """Whether nothing is left to read, or nothing more can be read."""
        return self.failure is not None or self.position >= self.end_offset

    @property
    def fetch_topic_id(self) -> UUID:
        """The topic id that the leader knows; zeroes if it knows none, so that the Fetch has to name the topic."""
        return ZERO_UUID if self.leader is None else self.leader.topic_id

    @property
    def leader_epoch(self) -> int:
        """The leader's epoch; -1 if it is not known."""
        return NO_EPOCH if self.leader is None else self.leader.leader_epoch

    def remaining_ms(self, now: float) -> float:
        """Milliseconds until the partition has been without progress for its timeout; 0 once it has."""
        return max(self._timeout_ms + self._extended_ms - (now - self._progress_at) * 1000, 0.0)

    def extend_for_throttle(self, throttle_ms: float) -> None:
        """Do not count a throttle as time without progress, up to ``MAX_THROTTLE_MS`` in all (KIP-219)."""
        self._extended_ms = min(self._extended_ms + throttle_ms, MAX_THROTTLE_MS)

    def advance(self, position: int, epoch: int, now: float) -> None:
        """Everything below ``position`` is decoded."""
        if position > self.position:
            self._progress_at, self._extended_ms = now, 0.0
            self.last_error = None
            self.backoff.reset()
        self.position, self.epoch = position, epoch

    def look_leader_up_again(self, now: float) -> None:
        """Look the leader up before the next Fetch, and count the time without progress from now on."""
        self.leader = None
        self._progress_at, self._extended_ms = now, 0.0

    def rewind(self) -> None:
        """Fetch again what was received and is not decoded."""
        self.next_offset, self.next_epoch = self.position, self.epoch
