"""Replay of classic groups from records of ``__consumer_offsets``."""

from broker_embedded._groups.classic.group import ClassicConfig, ClassicGroup, ClassicState
from broker_embedded._groups.classic.member import ClassicMember, subscribed_topics
from broker_embedded._groups.classic.records import GroupMetadataValue, MemberMetadata, read_group_record
from broker_embedded._records.coordinator_record import CoordinatorRecord
from spark_kafka_native._protocol.consumer_protocol import CONSUMER_PROTOCOL
from spark_kafka_native._protocol.messages.join_group import JoinGroupRequestProtocol


def replay_group(record: CoordinatorRecord, config: ClassicConfig) -> tuple[str, ClassicGroup | None]:
    """The id of the group that a record is about, and the group; None if it was deleted. Raises CorruptBatch."""
    group_id, value = read_group_record(record)
    return group_id, None if value is None else group_of(group_id, value, config)


def group_of(group_id: str, value: GroupMetadataValue, config: ClassicConfig) -> ClassicGroup:
    """A group from its record: stable if it has members, else empty."""
    members = {member.member_id: _member_of(member, value.protocol or "") for member in value.members}
    subscribed = None
    if value.protocol_type == CONSUMER_PROTOCOL:
        subscribed = subscribed_topics(member.subscription for member in value.members)
    return ClassicGroup(
        group_id=group_id,
        config=config,
        state=ClassicState.STABLE if members else ClassicState.EMPTY,
        state_since_ms=None if value.current_state_timestamp < 0 else value.current_state_timestamp,
        generation=value.generation,
        protocol_type=value.protocol_type,
        protocol_name=value.protocol,
        leader=value.leader if value.leader in members else next(iter(members), None),
        members=members,
        subscribed=subscribed,
    )


def _member_of(member: MemberMetadata, protocol: str) -> ClassicMember:
    return ClassicMember(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=member.session_timeout,
        rebalance_timeout_ms=member.session_timeout if member.rebalance_timeout < 0 else member.rebalance_timeout,
        protocols=(JoinGroupRequestProtocol(name=protocol, metadata=member.subscription),),
        assignment=member.assignment,
    )
