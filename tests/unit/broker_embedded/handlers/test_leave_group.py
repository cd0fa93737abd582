"""LeaveGroup, version by version, as bytes."""

import pytest

from spark_kafka_native.protocol.errors import ErrorCode
from spark_kafka_native.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity, MemberResponse
from tests.support.broker_driver import BrokerDriver
from tests.support.members import heartbeat, stable


@pytest.mark.parametrize("version", range(3))
def test_one_member_has_one_code(broker: BrokerDriver, version: int) -> None:
    member_id = stable(broker)
    assert broker.ask(LeaveGroupRequest(group_id="g", member_id=member_id), version).error_code == 0
    again = broker.ask(LeaveGroupRequest(group_id="g", member_id=member_id), version)
    assert again.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert heartbeat(broker, member_id) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", range(3, 6))
def test_several_members_have_a_code_each(broker: BrokerDriver, version: int) -> None:
    stable(broker, group_instance_id="i")
    members = (MemberIdentity(member_id="", group_instance_id="i"), MemberIdentity(member_id="nobody"))
    answer = broker.ask(LeaveGroupRequest(group_id="g", members=members), version)
    assert answer.error_code == 0
    assert answer.members == (
        MemberResponse(member_id="", group_instance_id="i"),
        MemberResponse(member_id="nobody", group_instance_id=None, error_code=ErrorCode.UNKNOWN_MEMBER_ID),
    )


@pytest.mark.parametrize("version", range(6))
def test_a_group_that_is_not_there(broker: BrokerDriver, version: int) -> None:
    if version < 3:
        request = LeaveGroupRequest(group_id="g", member_id="m")
        assert broker.ask(request, version).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        return
    request = LeaveGroupRequest(group_id="g", members=(MemberIdentity(member_id="m"),))
    answer = broker.ask(request, version)
    assert (answer.error_code, answer.members[0].error_code) == (0, ErrorCode.UNKNOWN_MEMBER_ID)


@pytest.mark.parametrize("version", range(6))
def test_a_group_needs_an_id(broker: BrokerDriver, version: int) -> None:
    assert broker.ask(LeaveGroupRequest(group_id=""), version).error_code == ErrorCode.INVALID_GROUP_ID
