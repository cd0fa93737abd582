from typing import Any

import pytest

from broker_embedded._groups.classic.group import ClassicGroup
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.heartbeat import HeartbeatRequest
from spark_kafka_native._protocol.messages.join_group import JoinGroupResponseMember
from spark_kafka_native._protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity, MemberResponse
from spark_kafka_native._protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.support.broker.driver import BrokerDriver
from tests.support.broker.members import begin_join, heartbeat, join, join_request, stable
from tests.support.groups.classic_driver import subscription


def group_of(broker: BrokerDriver) -> ClassicGroup:
    group = broker.broker.groups.get("g")
    assert isinstance(group, ClassicGroup)
    return group


@pytest.mark.parametrize("version", range(10))
def test_a_member_alone(broker: BrokerDriver, version: int) -> None:
    response = join(broker, version)
    assert (response.error_code, response.generation_id, response.leader) == (0, 1, response.member_id)
    assert (response.protocol_type, response.protocol_name) == ("consumer" if version >= 7 else None, "range")
    assert response.members == (JoinGroupResponseMember(member_id=response.member_id, metadata=subscription("t")),)
    assert not response.skip_assignment


@pytest.mark.parametrize("version", range(10))
def test_timeouts_are_those_of_the_version(broker: BrokerDriver, version: int) -> None:
    join(broker, version, session_timeout_ms=7_000, rebalance_timeout_ms=50_000)
    (member,) = group_of(broker).members.values()
    assert member.session_timeout_ms == 7_000
    assert member.rebalance_timeout_ms == (50_000 if version >= 1 else 7_000)


def test_a_member_id_starts_with_the_client_id(broker: BrokerDriver) -> None:
    begin_join(broker, join_request(), 0, client_id="me").cancel()
    (member,) = group_of(broker).members.values()
    assert member.member_id.startswith("me-")
    assert len(member.member_id) == len("me-") + 36
    assert member.client_id == "me"


@pytest.mark.parametrize("version", range(10))
def test_an_error_in_every_version(broker: BrokerDriver, version: int) -> None:
    response = broker.ask(join_request("g", "unknown"), version)
    assert (response.error_code, response.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "unknown")
    assert (response.generation_id, response.leader, response.members) == (-1, "", ())


@pytest.mark.parametrize("version", range(5, 10))
def test_a_response_without_protocol_can_be_encoded_in_every_version(broker: BrokerDriver, version: int) -> None:
    member_id = stable(broker, group_instance_id="i")
    assert broker.ask(join_request(group_instance_id="i"), version).error_code == ErrorCode.NONE
    response = broker.ask(join_request("g", member_id, group_instance_id="i"), version)
    protocol = None if version >= 7 else ""
    assert (response.error_code, response.protocol_name) == (ErrorCode.FENCED_INSTANCE_ID, protocol)


def test_a_group_that_cannot_be_kept_now(broker: BrokerDriver) -> None:
    broker.restart({"message.max.bytes": 100})
    response = broker.ask(join_request("g" * 100), 9)
    assert (response.error_code, response.member_id) == (ErrorCode.UNKNOWN_SERVER_ERROR, "")
    assert not broker.broker.groups.all


def test_settings_of_the_broker_count(broker: BrokerDriver) -> None:
    broker.restart({"group.min.session.timeout.ms": 100, "group.initial.rebalance.delay.ms": 0})
    task = begin_join(broker, join_request(session_timeout_ms=100), 0)
    broker.settle()
    assert broker.response(task).generation_id == 1
    assert broker.ask(join_request(session_timeout_ms=99), 0).error_code == ErrorCode.INVALID_SESSION_TIMEOUT


def sync_request(member_id: str, **others: object) -> SyncGroupRequest:
    fields = {"protocol_type": "consumer", "protocol_name": "range"} | others
    return SyncGroupRequest(group_id="g", generation_id=1, member_id=member_id, **fields)  # type: ignore[arg-type]  # by name


@pytest.mark.parametrize("version", range(6))
def test_the_leader_and_a_follower(broker: BrokerDriver, version: int) -> None:
    tasks = [begin_join(broker, join_request(), 3) for _ in range(2)]
    broker.advance(6_000)
    leader, follower = [joined for task in tasks if (joined := task.result()) is not None]
    waiting = broker.pending(sync_request(follower.member_id), version)
    assignments = tuple(
        SyncGroupRequestAssignment(member_id=member.member_id, assignment=member.member_id.encode())
        for member in leader.members
    )
    request = sync_request(leader.member_id, assignments=assignments)
    first = broker.ask(request, version)
    broker.settle()
    second = broker.response(waiting)
    assert (first.assignment, second.assignment) == (leader.member_id.encode(), follower.member_id.encode())
    names = ("consumer", "range") if version >= 5 else (None, None)
    assert (first.protocol_type, first.protocol_name) == (second.protocol_type, second.protocol_name) == names


@pytest.mark.parametrize("version", range(6))
def test_a_sync_group_error_in_every_version(broker: BrokerDriver, version: int) -> None:
    response = broker.ask(sync_request("unknown"), version)
    assert (response.error_code, response.assignment) == (ErrorCode.UNKNOWN_MEMBER_ID, b"")


@pytest.mark.parametrize(
    "protocol",
    [{"protocol_name": "sticky"}, {"protocol_type": "connect"}, {"protocol_name": None}, {"protocol_type": None}],
)
def test_sync_group_checks_the_protocol_from_v5_on(broker: BrokerDriver, protocol: dict[str, str | None]) -> None:
    request = sync_request(join(broker).member_id, **protocol)
    assert broker.ask(request, 5).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert broker.ask(request, 4).error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", range(5))
def test_heartbeat_in_every_version(broker: BrokerDriver, version: int) -> None:
    static: dict[str, Any] = {"group_instance_id": "i"} if version >= 3 else {}
    member_id = stable(broker, **static)
    wrong = ErrorCode.FENCED_INSTANCE_ID if static else ErrorCode.UNKNOWN_MEMBER_ID
    for sender, code in ((member_id, ErrorCode.NONE), ("other", wrong)):
        request = HeartbeatRequest(group_id="g", generation_id=1, member_id=sender, **static)
        assert broker.ask(request, version).error_code == code
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="other")
    assert broker.ask(request, version).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", range(3))
def test_leave_group_of_one_member_has_one_error_code(broker: BrokerDriver, version: int) -> None:
    member_id = stable(broker)
    assert broker.ask(LeaveGroupRequest(group_id="g", member_id=member_id), version).error_code == 0
    again = broker.ask(LeaveGroupRequest(group_id="g", member_id=member_id), version)
    assert again.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert heartbeat(broker, member_id) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", range(3, 6))
def test_several_members_have_a_code_each(broker: BrokerDriver, version: int) -> None:
    stable(broker, group_instance_id="i")
    members = (MemberIdentity(member_id="", group_instance_id="i"), MemberIdentity(member_id="unknown"))
    response = broker.ask(LeaveGroupRequest(group_id="g", members=members), version)
    assert response.error_code == 0
    assert response.members == (
        MemberResponse(member_id="", group_instance_id="i"),
        MemberResponse(member_id="unknown", group_instance_id=None, error_code=ErrorCode.UNKNOWN_MEMBER_ID),
    )


@pytest.mark.parametrize("version", range(6))
def test_a_group_that_is_not_there(broker: BrokerDriver, version: int) -> None:
    if version < 3:
        request = LeaveGroupRequest(group_id="g", member_id="m")
        assert broker.ask(request, version).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        return
    request = LeaveGroupRequest(group_id="g", members=(MemberIdentity(member_id="m"),))
    response = broker.ask(request, version)
    assert (response.error_code, response.members[0].error_code) == (0, ErrorCode.UNKNOWN_MEMBER_ID)


@pytest.mark.parametrize("version", range(6))
def test_a_group_needs_an_id(broker: BrokerDriver, version: int) -> None:
    assert broker.ask(LeaveGroupRequest(group_id=""), version).error_code == ErrorCode.INVALID_GROUP_ID
