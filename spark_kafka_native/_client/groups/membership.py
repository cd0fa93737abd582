"""What the protocols of consumer groups share: the member's identity, its topics, and who reads its partitions."""

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from typing import Final, Protocol

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._zookeeper.connect_string import ConnectString

NO_GENERATION: Final = -1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MemberIdentity:
    """What a member's requests carry; ``generation`` is the member epoch in groups of the consumer protocol."""

    member_id: str = ""
    generation: int = NO_GENERATION
    instance_id: str | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MembershipConfig:
    """A member's settings; times in milliseconds."""

    group_id: str
    instance_id: str | None
    session_timeout_ms: int
    heartbeat_interval_ms: int
    rebalance_timeout_ms: int
    """How long a rebalance waits for the member: ``max.poll.interval.ms``."""
    request_timeout_ms: int
    assignors: tuple[str, ...]
    remote_assignor: str | None
    """The coordinator's assignor in groups of the consumer protocol; None: the coordinator chooses."""
    rack: str | None

    def about(self, code: int) -> str:
        """What an error of the group is about: the group, and the setting that it refers to."""
        setting = {
            ErrorCode.INVALID_SESSION_TIMEOUT: f"session.timeout.ms={self.session_timeout_ms}",
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL: f"partition.assignment.strategy={','.join(self.assignors)}",
            ErrorCode.FENCED_INSTANCE_ID: f"group.instance.id={self.instance_id}",
            ErrorCode.UNRELEASED_INSTANCE_ID: f"group.instance.id={self.instance_id}",
            ErrorCode.UNSUPPORTED_ASSIGNOR: f"group.remote.assignor={self.remote_assignor}",
        }.get(ErrorCode.of(code))
        return f"group {self.group_id}" if setting is None else f"group {self.group_id}, {setting}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperMembershipConfig:
    """The settings of a member of a group in ZooKeeper; times in milliseconds."""

    connect: ConnectString
    group_id: str
    consumer_id: str | None
    session_timeout_ms: int
    connection_timeout_ms: int
    assignor: str
    rebalance_max_retries: int
    rebalance_backoff_ms: int
    exclude_internal_topics: bool


class Topics(Protocol):
    """The topics that a member subscribes to."""

    def subscribed(self) -> frozenset[str]:
        """The names now: with a filter, those of existing topics that it accepts. Raises KafkaError."""
        ...

    def partition_counts(self, topics: Iterable[str]) -> dict[str, int]:
        """The number of partitions of each of ``topics`` that exists, as a broker knows it now. Raises KafkaError."""
        ...

    def is_outdated(self) -> bool:
        """Whether brokers are to be asked again; once for each ``metadata.max.age.ms``, and after a change."""
        ...


class Reader(Protocol):
    """Who reads a member's partitions. Called in the member's thread; no call blocks for long, unless it commits."""

    @property
    def owned(self) -> Collection[TopicPartition]:
        """The partitions that are read."""
        ...

    def assign(
        self, partitions: Collection[TopicPartition], streams: Mapping[TopicPartition, int] | None = None
    ) -> None:
        """Read these partitions, too, from their committed offsets on. Raises KafkaError: none of them is read.

        A partition without a committed offset is owned, but not read while it has no leader or does not exist yet.
        ``streams``: which of the streams of its topic reads each partition; None: those with the fewest partitions.
        """
        ...

    def begin_pending(self, now: float) -> float:
        """Read owned partitions that ``assign`` could not, if a retry is due; the time of the next one.

        Raises KafkaError: a retry cannot help.
        """
        ...

    def stop(self, partitions: Collection[TopicPartition]) -> None:
        """Return no more records of these partitions."""
        ...

    def is_stopped(self, partitions: Collection[TopicPartition]) -> bool:
        """Whether no record of these partitions is being processed. ``wake`` follows when that changes."""
        ...

    def commit_and_remove(self, partitions: Collection[TopicPartition]) -> None:
        """Commit the offsets of stopped partitions, if commits are automatic, and forget them.

        Raises what a listener of the application raises, as ``assign`` and ``lose``, once that is done.
        """
        ...

    def lose(self, partitions: Collection[TopicPartition]) -> None:
        """Forget partitions without a commit, because another member has them already."""
        ...

    def commit_if_due(self, now: float) -> float:
        """Commit offsets, if commits are automatic and one is due; the time of the next one. Raises nothing."""
        ...

    def is_stalled(self, now: float) -> bool:
        """Whether a record has been processed for longer than ``max.poll.interval.ms``."""
        ...

    @property
    def stalled(self) -> str:
        """The records that have been processed for too long, for a log line, at the last ``is_stalled``."""
        ...


class Membership(Protocol):
    """One member's part in a group."""

    @property
    def identity(self) -> MemberIdentity:
        """What commits carry now. Threads may read it."""
        ...

    def run(self) -> None:
        """Be a member until ``MemberWaits.stop``; then leave. Raises KafkaError: the member cannot join."""
        ...
