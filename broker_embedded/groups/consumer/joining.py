"""What joining a consumer group has in common in both protocols."""

from dataclasses import replace

from broker_embedded.groups.consumer.draft import Draft
from broker_embedded.groups.consumer.entries import current_entry, member_entry, member_tombstones, target_entry
from broker_embedded.groups.consumer.member import ConsumerMember
from broker_embedded.groups.consumer.records import ClassicMemberMetadata, ClassicProtocolEntry
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError
from spark_kafka_native.protocol.messages.join_group import JoinGroupRequestProtocol


def check_size(draft: Draft, member_id: str) -> None:
    """Raise KafkaError, GROUP_MAX_SIZE_REACHED: the group is full, and this is none of its members."""
    if len(draft.group.members) >= draft.config.max_size and member_id not in draft.group.members:
        detail = f"group {draft.group.group_id!r} has {len(draft.group.members)} members (group.consumer.max.size)"
        raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, detail)


def take_over(draft: Draft, last: ConsumerMember, member_id: str) -> ConsumerMember:
    """A static member under its new member id, with all that it had under the last one."""
    group_id, target = draft.group.group_id, draft.group.targets.get(last.member_id, frozenset())
    new = replace(last, member_id=member_id, member_epoch=0, previous_member_epoch=0)
    draft.put(
        *member_tombstones(group_id, last.member_id),
        member_entry(group_id, new),
        target_entry(group_id, member_id, target),
        current_entry(group_id, new),
    )
    if member_id != last.member_id:
        draft.cancel_timers_of(last.member_id)
    return new


def classic_metadata(session_timeout_ms: int, protocols: tuple[JoinGroupRequestProtocol, ...]) -> ClassicMemberMetadata:
    """What is kept of the JoinGroup of a member that speaks the classic protocol."""
    return ClassicMemberMetadata(
        session_timeout_ms=session_timeout_ms,
        supported_protocols=tuple(
            ClassicProtocolEntry(name=protocol.name, metadata=protocol.metadata) for protocol in protocols
        ),
    )
