"""Members of a group in raw requests over real connections, the same to every broker."""

from collections.abc import Mapping
from typing import Any, Self, TypeVar

from dirty_equals import IsOneOf

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.framing import decode_response
from spark_kafka_native._protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from spark_kafka_native._protocol.messages.find_coordinator import FindCoordinatorRequest
from spark_kafka_native._protocol.messages.heartbeat import HeartbeatRequest
from spark_kafka_native._protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from spark_kafka_native._protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from spark_kafka_native._protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from spark_kafka_native._protocol.schema import Request, Response
from tests.support.groups.classic_driver import subscription
from tests.support.requests.of_topic import offset_commit
from tests.support.requests.raw_client import RawClient, request_bytes
from tests.support.waiting import eventually

ResponseT = TypeVar("ResponseT", bound=Response)

_IDS_SINCE = 4
_MEMBERS_SINCE = 3


class RawMember:
    """One client of a group, with one connection. A context manager.

    ``begin_join`` and ``begin_sync`` send; ``joined`` and ``synced`` wait for the response, which may take until others
    have done something.
    """

    def __init__(
        self, address: str, group_id: str, *, instance_id: str | None = None, topics: tuple[str, ...] = ("t",)
    ):
        self.group_id = group_id
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        self.protocols: Mapping[str, bytes] = {"range": subscription(*topics)}
        self.protocol_type = "consumer"
        self.protocol_name: str | None = None
        self.session_timeout_ms = 20_000
        self.rebalance_timeout_ms = 20_000
        self.client = RawClient(address)
        self._join_version = 9

    def __enter__(self) -> Self:
        wait_for_coordinator(self.client, self.group_id)
        return self

    def __exit__(self, *_: object) -> None:
        self.client.sock.close()

    # --- joining -----------------------------------------------------------------------------------------------------

    def join_request(self, **others: Any) -> JoinGroupRequest:
        """The member's JoinGroup, but for what ``others`` say."""
        protocols = (JoinGroupRequestProtocol(name=name, metadata=text) for name, text in self.protocols.items())
        fields = self._fields(
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            protocol_type=self.protocol_type,
            protocols=tuple(protocols),
        )
        return JoinGroupRequest(**fields | others)

    def begin_join(self, version: int = 9) -> None:
        """Send a JoinGroup, with an id that was requested before if the version needs that."""
        self._join_version = version
        if version >= _IDS_SINCE and not self.member_id and self.instance_id is None:
            given = self.client.ask(self.join_request(), version)
            assert given.error_code == ErrorCode.MEMBER_ID_REQUIRED, given
            self.member_id = given.member_id
        self._send(self.join_request(), version)

    def joined(self) -> JoinGroupResponse:
        """The response to the JoinGroup that was begun."""
        response = self._receive(JoinGroupResponse, self._join_version)
        if response.error_code == ErrorCode.NONE:
            self.member_id, self.generation = response.member_id, response.generation_id
            self.protocol_name = response.protocol_name
        return response

    def join(self, version: int = 9) -> JoinGroupResponse:
        """Join a group in which no other member has to join."""
        self.begin_join(version)
        return self.joined()

    # --- syncing -----------------------------------------------------------------------------------------------------

    def sync_request(self, assignments: Mapping[str, bytes] | None = None, **others: Any) -> SyncGroupRequest:
        """The member's SyncGroup, but for what ``others`` say; assignments are by member id."""
        given = (assignments or {}).items()
        fields = self._fields(
            generation_id=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            assignments=tuple(SyncGroupRequestAssignment(member_id=id_, assignment=part) for id_, part in given),
        )
        return SyncGroupRequest(**fields | others)

    def begin_sync(self, assignments: Mapping[str, bytes] | None = None) -> None:
        """Send a SyncGroup."""
        self._send(self.sync_request(assignments), 5)

    def synced(self) -> SyncGroupResponse:
        """The response to the SyncGroup that was begun."""
        return self._receive(SyncGroupResponse, 5)

    def sync(self, assignments: Mapping[str, bytes] | None = None) -> SyncGroupResponse:
        """SyncGroup, and its response."""
        self.begin_sync(assignments)
        return self.synced()

    # --- the rest ----------------------------------------------------------------------------------------------------

    def heartbeat(self, version: int = 4, **others: Any) -> ErrorCode:
        """One heartbeat; its error code."""
        request = HeartbeatRequest(**self._fields(generation_id=self.generation) | others)
        return ErrorCode.of(self.client.ask(request, version).error_code)

    def heartbeat_until(self, code: ErrorCode) -> None:
        """Send heartbeats until the response is this one."""
        eventually(self.heartbeat, code)

    def leave(self, version: int = 5, group_id: str | None = None) -> ErrorCode:
        """Leave the group, or another; the error code of the request or else of the member."""
        group_id = self.group_id if group_id is None else group_id
        if version < _MEMBERS_SINCE:
            request = LeaveGroupRequest(group_id=group_id, member_id=self.member_id)
            return ErrorCode.of(self.client.ask(request, version).error_code)
        identity = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)
        response = self.client.ask(LeaveGroupRequest(group_id=group_id, members=(identity,)), version)
        return ErrorCode.of(response.error_code or response.members[0].error_code)

    def commit(self, topic: str, offset: int, *, version: int = 9, **others: Any) -> ErrorCode:
        """Commit an offset of a topic's partition 0; the error code."""
        fields = self._fields(generation_id_or_member_epoch=self.generation)
        (found,) = self.client.ask(offset_commit(topic, offset, **fields | others), version).topics
        return ErrorCode.of(found.partitions[0].error_code)

    def _fields(self, **more: Any) -> dict[str, Any]:
        """What most requests say of the member, and more."""
        return {"group_id": self.group_id, "member_id": self.member_id, "group_instance_id": self.instance_id, **more}

    def _send(self, request: Request[Any], version: int) -> None:
        self.client.send(request_bytes(request, version))

    def _receive(self, response: type[ResponseT], version: int) -> ResponseT:
        _, received = decode_response(response, version, self.client.frame())
        return received


def wait_for_coordinator(client: RawClient, group_id: str) -> None:
    """Wait until the broker coordinates a group."""
    probe = HeartbeatRequest(group_id=group_id, generation_id=0, member_id="probe")

    def codes() -> tuple[ErrorCode, ErrorCode]:
        found = client.ask(FindCoordinatorRequest(key=group_id), 3).error_code
        return ErrorCode.of(found), ErrorCode.of(client.ask(probe, 4).error_code)

    not_yet = IsOneOf(ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NONE)
    eventually(codes, (ErrorCode.NONE, ~not_yet))


def join_all(*members: RawMember) -> list[JoinGroupResponse]:
    """Have all members join one generation; their responses. The first leads. No member must have joined before."""
    responses = [members[0].join()]
    for count, new in enumerate(members[1:], 1):
        new.begin_join()
        for member in members[:count]:
            member.heartbeat_until(ErrorCode.REBALANCE_IN_PROGRESS)
            member.begin_join()
        responses = [member.joined() for member in members[: count + 1]]
        assert {response.error_code for response in responses} == {0}, responses
        assert len({response.generation_id for response in responses}) == 1, responses
    return responses


def sync_all(leader: RawMember, *followers: RawMember) -> None:
    """Have the leader assign each member its member id."""
    for member in followers:
        member.begin_sync()
    everybody = (leader, *followers)
    responses = [leader.sync({member.member_id: member.member_id.encode() for member in everybody})]
    responses += [member.synced() for member in followers]
    assert [(response.error_code, response.assignment) for response in responses] == [
        (0, member.member_id.encode()) for member in everybody
    ]


def stabilize(*members: RawMember) -> None:
    """Have all members join one generation, and assign each its member id. The first leads."""
    join_all(*members)
    sync_all(*members)


def described(client: RawClient, group_id: str, version: int = 5) -> DescribedGroup:
    """A classic group as DescribeGroups answers it."""
    (group,) = client.ask(DescribeGroupsRequest(groups=(group_id,)), version).groups
    return group
