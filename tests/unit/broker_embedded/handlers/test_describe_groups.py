"""DescribeGroups, version by version."""

import pytest

from spark_kafka_native.protocol.errors import ErrorCode
from spark_kafka_native.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from tests.support.broker_driver import BrokerDriver
from tests.support.group_driver import subscription
from tests.support.members import stable


def describe(broker: BrokerDriver, version: int, *groups: str, operations: bool = False) -> tuple[DescribedGroup, ...]:
    request = DescribeGroupsRequest(groups=groups, include_authorized_operations=operations)
    return broker.ask(request, version).groups


@pytest.mark.parametrize("version", range(7))
def test_groups_and_their_members(broker: BrokerDriver, version: int) -> None:
    ids = [stable(broker, group_id=group, group_instance_id="i") for group in "gh"]
    described = describe(broker, version, "h", "g")
    assert [group.group_id for group in described] == ["h", "g"]
    group = described[1]
    assert (group.error_code, group.group_state, group.protocol_type, group.protocol_data) == (
        0,
        "Stable",
        "consumer",
        "range",
    )
    (member,) = group.members
    assert (member.member_id, member.client_id) == (ids[0], "test")
    assert member.group_instance_id == ("i" if version >= 4 else None)
    assert (member.member_metadata, member.member_assignment) == (subscription("t"), b"all")


@pytest.mark.parametrize("version", range(7))
def test_a_group_that_is_not_there(broker: BrokerDriver, version: int) -> None:
    (group,) = describe(broker, version, "g")
    assert (group.group_id, group.group_state, group.members) == ("g", "Dead", ())
    if version >= 6:
        assert (group.error_code, group.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group g not found.")
    else:
        assert (group.error_code, group.error_message) == (0, None)


def test_operations_where_they_are_asked_for(broker: BrokerDriver) -> None:
    stable(broker)
    assert describe(broker, 6, "g")[0].authorized_operations == -(2**31)
    operations = describe(broker, 6, "g", operations=True)[0].authorized_operations
    assert {bit for bit in range(32) if operations >> bit & 1} == {3, 6, 8, 10, 11}
    assert describe(broker, 6, "nobody", operations=True)[0].authorized_operations == -(2**31)


def test_nothing_asked_nothing_answered(broker: BrokerDriver) -> None:
    assert describe(broker, 6) == ()
