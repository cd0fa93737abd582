"""How a scripted broker answers as the coordinator of groups with one member each, of either protocol of groups."""

import dataclasses
import struct
from typing import TYPE_CHECKING, Any, Final

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from spark_kafka_native._protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from spark_kafka_native._protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from spark_kafka_native._protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from spark_kafka_native._protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from spark_kafka_native._protocol.schema import Request, Response

if TYPE_CHECKING:
    from tests.support.scripted.partitions import FakeState

GROUP_VERSIONS: Final[dict[int, tuple[int, int]]] = {11: (2, 9), 12: (0, 4), 13: (0, 5), 14: (0, 5), 68: (0, 1)}
"""What Kafka 4.3 answers to ApiVersions, for the APIs of members."""
_MEMBER_ID_REQUIRED_SINCE: Final = 4
_JOINS: Final = 0
_HEARTBEAT_INTERVAL_MS: Final = 20
_KINDS: Final = (JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, LeaveGroupRequest, ConsumerGroupHeartbeatRequest)


@dataclasses.dataclass
class FakeGroup:
    """One group: the member that joined last, the only one, is its leader."""

    given_ids: set[str] = dataclasses.field(default_factory=set)
    member_id: str = ""
    generation: int = 0
    """The member epoch in groups of the consumer protocol."""
    topics: tuple[str, ...] = ()
    """Of a member of the consumer protocol."""
    joined: int = 0
    """Times that a member joined."""
    left: list[str] = dataclasses.field(default_factory=list)

    def check(self, member_id: str, generation: int, fenced: ErrorCode = ErrorCode.ILLEGAL_GENERATION) -> ErrorCode:
        """The error of a request of the group's member, or NONE."""
        if member_id != self.member_id:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if generation == self.generation else fenced


def group_response(request: Request[Any], version: int, state: "FakeState", broker: int) -> Response | ErrorCode | None:
    """The coordinator's response to a member's request; None: it is another request."""
    if not isinstance(request, _KINDS):
        return None
    if broker != state.coordinator:
        return ErrorCode.NOT_COORDINATOR
    group = state.groups.setdefault(request.group_id, FakeGroup())
    match request:
        case JoinGroupRequest():
            return _join(request, version, group)
        case SyncGroupRequest():
            code = group.check(request.member_id, request.generation_id)
            found = {each.member_id: bytes(each.assignment) for each in request.assignments}
            return code or SyncGroupResponse(assignment=found.get(request.member_id, b""))
        case HeartbeatRequest():
            return HeartbeatResponse(error_code=group.check(request.member_id, request.generation_id))
        case LeaveGroupRequest():
            group.left += [member.member_id for member in request.members]
            group.member_id = ""
            return LeaveGroupResponse()
    return _consumer_group_heartbeat(request, group, state)


def _join(request: JoinGroupRequest, version: int, group: FakeGroup) -> Response:
    if not request.member_id:
        given = f"member-{len(group.given_ids)}"
        group.given_ids.add(given)
        if version >= _MEMBER_ID_REQUIRED_SINCE:
            return JoinGroupResponse(
                error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=given, protocol_name=_no_name(version)
            )
        request = dataclasses.replace(request, member_id=given)
    if request.member_id not in group.given_ids:
        return JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID, protocol_name=_no_name(version))
    group.member_id, group.generation, group.joined = request.member_id, group.generation + 1, group.joined + 1
    chosen = request.protocols[0]
    member = JoinGroupResponseMember(member_id=group.member_id, metadata=bytes(chosen.metadata))
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=request.protocol_type,
        protocol_name=chosen.name,
        leader=group.member_id,
        member_id=group.member_id,
        members=(member,),
    )


def _no_name(version: int) -> str | None:
    return None if version >= 7 else ""


def _consumer_group_heartbeat(
    request: ConsumerGroupHeartbeatRequest, group: FakeGroup, state: "FakeState"
) -> Response | ErrorCode:
    if request.member_epoch < _JOINS:
        group.left.append(request.member_id)
        group.member_id = ""
        return ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
    if request.member_epoch == _JOINS:
        group.member_id, group.generation, group.joined = request.member_id, group.generation + 1, group.joined + 1
    elif code := group.check(request.member_id, request.member_epoch, ErrorCode.FENCED_MEMBER_EPOCH):
        return code
    assignment = None
    if request.subscribed_topic_names is not None:
        group.topics = request.subscribed_topic_names
        assignment = _all_of(group.topics, state)
    return ConsumerGroupHeartbeatResponse(
        member_id=group.member_id,
        member_epoch=group.generation,
        heartbeat_interval_ms=_HEARTBEAT_INTERVAL_MS,
        assignment=assignment,
    )


def _all_of(topics: tuple[str, ...], state: "FakeState") -> Assignment:
    return Assignment(
        topic_partitions=tuple(
            TopicPartitions(topic_id=state.topics[name].topic_id, partitions=tuple(state.topics[name].partitions))
            for name in topics
            if name in state.topics
        )
    )


UNDECODABLE: Final = struct.pack(">hi", 1, 7)
"""An assignment of seven topics without any."""
