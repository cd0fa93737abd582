"""A member of a consumer group of the new protocol (KIP-848).

A member has an epoch, which is that of the target assignment that it is reconciled to; assigned partitions, each with
the epoch of its assignment; and partitions pending revocation. A partition in either of these two belongs to the
member.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final, NamedTuple, Self
from uuid import UUID

from broker_embedded._groups.consumer.records import ClassicMemberMetadata

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2
"""The epoch with which a static member leaves temporarily.

It may rejoin with another member id until its session ends.
"""


class TopicIdPartition(NamedTuple):
    """One partition of the topic with this id."""

    topic_id: UUID
    partition: int


class MemberState(IntEnum):
    """The reconciliation state of a member."""

    STABLE = 0, "it has the target assignment of its epoch"
    UNREVOKED_PARTITIONS = 1, "it must revoke partitions before its epoch increases"
    UNRELEASED_PARTITIONS = 2, "other members have not released partitions of its target yet"
    UNKNOWN = 127, "a state of a newer version"

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
    """One member. ``assigned`` and ``pending_revocation`` have the epoch of the assignment of each partition.

    ``classic`` is set if it uses the classic protocol, during a migration of the group.
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
        """The regular expression that it subscribes to, or None."""
        return self.subscribed_topic_regex or None

    @property
    def held(self) -> Iterator[TopicIdPartition]:
        """The partitions that no other member may have."""
        yield from self.assigned
        yield from self.pending_revocation

    def assignment_epoch(self, partition: TopicIdPartition) -> int | None:
        """The epoch at which the member got a partition that it holds, or None."""
        return self.assigned.get(partition, self.pending_revocation.get(partition))

    @property
    def protocol_names(self) -> frozenset[str]:
        """The classic protocols that it supports, if it uses the classic protocol."""
        return (
            frozenset() if self.classic is None else frozenset(entry.name for entry in self.classic.supported_protocols)
        )

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        """Whether it has exactly the target assignment of this epoch."""
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch

    def moved_to(self, member_epoch: int) -> "ConsumerMember":
        """The member at an epoch; the one before is remembered, in case the response that says so is lost."""
        return replace(self, member_epoch=member_epoch, previous_member_epoch=self.member_epoch)


def by_topic(partitions: Iterable[TopicIdPartition]) -> dict[UUID, list[int]]:
    """The partitions of each topic in ascending order, topics in the order of their ids."""
    found: dict[UUID, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        found.setdefault(topic_id, []).append(partition)
    return found
