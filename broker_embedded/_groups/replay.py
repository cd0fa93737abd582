"""Replay of groups from the records of ``__consumer_offsets``.

key version   record of
0, 1          a committed offset (`broker_embedded._groups.offsets`); it creates a simple group if there is no group
2             a classic group
3 to 8, 16    a consumer group (KIP-848)
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from broker_embedded._groups.classic.group import ClassicConfig, ClassicGroup
from broker_embedded._groups.classic.records import CLASSIC_GROUP_RECORDS
from broker_embedded._groups.classic.replay import replay_group
from broker_embedded._groups.consumer.config import ConsumerContext
from broker_embedded._groups.consumer.group import ConsumerGroup
from broker_embedded._groups.consumer.records import KEY_VERSIONS, ConsumerGroupMetadataKey, read_entry
from broker_embedded._groups.consumer.replay import after
from broker_embedded._groups.group import Group
from broker_embedded._groups.records import OFFSET_KEY_VERSIONS, OFFSET_RECORDS
from broker_embedded._records.coordinator_record import CoordinatorRecord, key_version


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayContext:
    """The settings and topics of groups."""

    classic: ClassicConfig
    consumer: ConsumerContext = field(default_factory=ConsumerContext)


Replay: TypeAlias = Callable[[Mapping[str, Group], CoordinatorRecord, ReplayContext], tuple[str, Group | None] | None]
"""The group id and the group after a record, None if it is deleted; None if the record changes no group.

Raises CorruptBatch.
"""


def _replay_offset(
    groups: Mapping[str, Group], record: CoordinatorRecord, context: ReplayContext
) -> tuple[str, Group | None] | None:
    if record.value is None:
        return None
    group_id = OFFSET_RECORDS.read_key(record).group
    return None if group_id in groups else (group_id, ClassicGroup(group_id=group_id, config=context.classic))


def _replay_group(
    groups: Mapping[str, Group], record: CoordinatorRecord, context: ReplayContext
) -> tuple[str, Group | None] | None:
    group_id, group = replay_group(record, context.classic)
    if group is None and not isinstance(groups.get(group_id), ClassicGroup):
        return None  # the group was deleted before
    return group_id, group


def _replay_consumer_group(
    groups: Mapping[str, Group], record: CoordinatorRecord, context: ReplayContext
) -> tuple[str, Group | None] | None:
    entry = read_entry(record)
    group_id = entry.key.group_id
    group = groups.get(group_id)
    if not isinstance(group, ConsumerGroup):  # a simple group, which has no tombstone
        if entry.value is None:
            return None
        group = ConsumerGroup(group_id=group_id, context=context.consumer)
    ends = entry.value is None and isinstance(entry.key, ConsumerGroupMetadataKey)
    return group_id, None if ends else after(group, [entry])


_REPLAYS: Final[Mapping[int, Replay]] = {
    **dict.fromkeys(OFFSET_KEY_VERSIONS, _replay_offset),
    CLASSIC_GROUP_RECORDS.key_version: _replay_group,
    **dict.fromkeys(KEY_VERSIONS, _replay_consumer_group),
}


def replay(groups: dict[str, Group], record: CoordinatorRecord, context: ReplayContext) -> None:
    """Replay a record into ``groups``. One of an unknown kind is ignored. Raises CorruptBatch: nothing changed."""
    function = _REPLAYS.get(key_version(record))
    changed = None if function is None else function(groups, record, context)
    if changed is None:
        return
    group_id, group = changed
    if group is None:
        groups.pop(group_id, None)
    else:
        groups[group_id] = group
