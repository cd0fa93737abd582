"""Replay of a consumer group from its records."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from broker_embedded._groups.consumer.entries import (
    ResolvedRegex,
    resolved_of,
    target_of,
    with_assignment,
    with_metadata,
)
from broker_embedded._groups.consumer.group import ConsumerGroup
from broker_embedded._groups.consumer.member import LEAVE_EPOCH, ConsumerMember, TopicIdPartition
from broker_embedded._groups.consumer.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    Entry,
    Key,
    Value,
)

_NO_ASSIGNMENT_EPOCH = -1
ValueT = TypeVar("ValueT")


def after(group: ConsumerGroup, entries: Iterable[Entry]) -> ConsumerGroup:
    """The group after these records. The caller handles the tombstone of the group itself."""
    changing = _Changing(group)
    for entry in entries:
        if entry.value is None:
            changing.delete(entry.key)
        else:
            changing.set(entry.key, entry.value)
    return changing.done()


class _Changing:
    """A mutable group during a replay. Tables are copied on their first change."""

    def __init__(self, group: ConsumerGroup) -> None:
        self.group = group
        self.subscriptions_changed = False
        self._tables: dict[str, Any] = {}

    @property
    def members(self) -> dict[str, ConsumerMember]:
        return self._table("members", self.group.members)

    @property
    def static_members(self) -> dict[str, str]:
        return self._table("static_members", self.group.static_members)

    @property
    def targets(self) -> dict[str, frozenset[TopicIdPartition]]:
        return self._table("targets", self.group.targets)

    @property
    def regexes(self) -> dict[str, ResolvedRegex]:
        return self._table("regexes", self.group.regexes)

    def _table(self, name: str, before: Mapping[str, ValueT]) -> dict[str, ValueT]:
        table: dict[str, ValueT] | None = self._tables.get(name)
        if table is None:
            table = self._tables[name] = dict(before)
        return table

    def done(self) -> ConsumerGroup:
        group = replace(self.group, **self._tables) if self._tables else self.group
        return group.with_subscriptions_changed() if self.subscriptions_changed else group

    def set(self, key: Key, value: Value) -> None:
        match value:
            case ConsumerGroupMetadataValue():
                self.group = replace(self.group, epoch=value.epoch, metadata_hash=value.metadata_hash)
            case ConsumerGroupPartitionMetadataValue():
                self.group = replace(self.group, has_partition_metadata=True)
            case ConsumerGroupTargetAssignmentMetadataValue():
                self.group = replace(
                    self.group,
                    assignment_epoch=value.assignment_epoch,
                    assignment_timestamp=value.assignment_timestamp,
                )
            case ConsumerGroupRegularExpressionValue():
                assert isinstance(key, ConsumerGroupRegularExpressionKey)
                self.regexes[key.regular_expression] = resolved_of(value)
                self.subscriptions_changed = True
            case _:
                assert isinstance(
                    key,
                    ConsumerGroupMemberMetadataKey
                    | ConsumerGroupTargetAssignmentMemberKey
                    | ConsumerGroupCurrentMemberAssignmentKey,
                )
                self._set_of_member(key.member_id, value)

    def _set_of_member(self, member_id: str, value: Value) -> None:
        match value:
            case ConsumerGroupMemberMetadataValue():
                self._put(with_metadata(self._member(member_id), value))
                self.subscriptions_changed = True
            case ConsumerGroupCurrentMemberAssignmentValue():
                self._put(with_assignment(self._member(member_id), value))
            case ConsumerGroupTargetAssignmentMemberValue():
                self.targets[member_id] = target_of(value)

    def delete(self, key: Key) -> None:
        match key:
            case ConsumerGroupPartitionMetadataKey():
                self.group = replace(self.group, has_partition_metadata=False)
            case ConsumerGroupTargetAssignmentMetadataKey():
                self.group = replace(self.group, assignment_epoch=_NO_ASSIGNMENT_EPOCH, assignment_timestamp=0)
            case ConsumerGroupTargetAssignmentMemberKey():
                self.targets.pop(key.member_id, None)
            case ConsumerGroupCurrentMemberAssignmentKey() if key.member_id in self.members:
                self.members[key.member_id] = replace(
                    self.members[key.member_id],
                    member_epoch=LEAVE_EPOCH,
                    previous_member_epoch=LEAVE_EPOCH,
                    assigned={},
                    pending_revocation={},
                )
            case ConsumerGroupMemberMetadataKey():
                self._remove(key.member_id)
            case ConsumerGroupRegularExpressionKey():
                self.regexes.pop(key.regular_expression, None)
                self.subscriptions_changed = True

    def _member(self, member_id: str) -> ConsumerMember:
        return self.members.get(member_id) or ConsumerMember(member_id=member_id)

    def _put(self, member: ConsumerMember) -> None:
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def _remove(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is not None and self.static_members.get(member.instance_id or "") == member_id:
            del self.static_members[member.instance_id or ""]
        self.group = replace(self.group, must_rejoin=self.group.must_rejoin - {member_id})
        self.subscriptions_changed = True
