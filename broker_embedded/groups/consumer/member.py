"""A member of a consumer group of the new protocol (KIP-848), as its records tell it.

What a member has is told by three things: its epoch, which is that of the last target assignment it has been moved to;
the partitions assigned to it, each with the epoch at which it got it; and those that it must give back first. A
partition belongs to the member that has it in either of the two.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final, NamedTuple, Self
from uuid import UUID

from broker_embedded.groups.consumer.records import ClassicMemberMetadata

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2
"""What a static member leaves for a while with; it may come back, under another member id, until its session ends."""


class TopicIdPartition(NamedTuple):
    """One partition of the topic with this id."""

    topic_id: UUID
    partition: int


class MemberState(IntEnum):
    """How far a member is on the way to its target."""

    STABLE = 0, "it has what it shall have as of its epoch"
    UNREVOKED_PARTITIONS = 1, "it must give partitions back before it goes on"
    UNRELEASED_PARTITIONS = 2, "it is at its epoch, but other members still hold what it shall have"
    UNKNOWN = 127, "a state of a version that is not known here"

    def __new__(cls, code: int, meaning: str) -> Self:
        """A member of the table."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.__doc__ = meaning
        return member

    @classmethod
    def of(cls, code: int) -> "MemberState":
        """The state with this code, or UNKNOWN."""
        return next((state for state in cls if state == code), cls.UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """One member. ``assigned`` and ``pending_revocation`` say for each partition at which epoch the member got it.

    ``classic`` is there if it speaks the classic protocol, while its group is on the way from or to it.
    """

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: frozenset[str] = frozenset()
    subscribed_topic_regex: str | None = ""
    server_assignor: str | None = None
    classic: ClassicMemberMetadata | None = None
    assigned: Mapping[TopicIdPartition, int] = field(default_factory=dict)
    pending_revocation: Mapping[TopicIdPartition, int] = field(default_factory=dict)

    @property
    def regex(self) -> str | None:
        """The regular expression that it is subscribed to, if any."""
        return self.subscribed_topic_regex or None

    @property
    def held(self) -> Iterator[TopicIdPartition]:
        """The partitions that nobody else may have."""
        yield from self.assigned
        yield from self.pending_revocation

    def assignment_epoch(self, partition: TopicIdPartition) -> int | None:
        """The epoch at which the member got a partition that it holds, or None."""
        return self.assigned.get(partition, self.pending_revocation.get(partition))

    @property
    def protocol_names(self) -> frozenset[str]:
        """The assignors of the classic protocol that it supports, if it speaks that."""
        return (
            frozenset() if self.classic is None else frozenset(entry.name for entry in self.classic.supported_protocols)
        )

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        """Whether it has all that the target assignment of this epoch gives it, and nothing else."""
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch

    def moved_to(self, member_epoch: int) -> "ConsumerMember":
        """The member at an epoch; the one before is remembered, in case the answer that says so is lost."""
        return replace(self, member_epoch=member_epoch, previous_member_epoch=self.member_epoch)


def by_topic(partitions: Iterable[TopicIdPartition]) -> dict[UUID, list[int]]:
    """The partitions of each topic in ascending order, topics in the order of their ids."""
    found: dict[UUID, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        found.setdefault(topic_id, []).append(partition)
    return found
