import pytest

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest
from spark_kafka_native._protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from spark_kafka_native._protocol.messages.leave_group import LeaveGroupRequest
from spark_kafka_native._protocol.messages.list_groups import ListedGroup, ListGroupsRequest
from tests.support.broker.driver import BrokerDriver, commit_offset
from tests.support.broker.members import begin_join, heartbeat, join_request, stable
from tests.support.groups.classic_driver import subscription


def describe(broker: BrokerDriver, version: int, *groups: str, operations: bool = False) -> tuple[DescribedGroup, ...]:
    request = DescribeGroupsRequest(groups=groups, include_authorized_operations=operations)
    return broker.ask(request, version).groups


@pytest.mark.parametrize("version", range(7))
def test_groups_and_their_members(broker: BrokerDriver, version: int) -> None:
    ids = [stable(broker, group_id=group, group_instance_id="i") for group in "gh"]
    described = describe(broker, version, "h", "g")
    assert [group.group_id for group in described] == ["h", "g"]
    group = described[1]
    assert (group.error_code, group.group_state) == (0, "Stable")
    assert (group.protocol_type, group.protocol_data) == ("consumer", "range")
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


def test_authorized_operations_where_they_are_requested(broker: BrokerDriver) -> None:
    assert (describe(broker, 6), listed(broker)) == ((), {})
    stable(broker)
    assert describe(broker, 6, "g")[0].authorized_operations == -(2**31)
    operations = describe(broker, 6, "g", operations=True)[0].authorized_operations
    assert {bit for bit in range(32) if operations >> bit & 1} == {3, 6, 8, 10, 11}
    assert describe(broker, 6, "unknown", operations=True)[0].authorized_operations == -(2**31)


@pytest.fixture
def filled(broker: BrokerDriver) -> BrokerDriver:
    """A group in each of several states: simple, stable, and one that is about to rebalance."""
    broker.create("t")
    commit_offset(broker, 5, group_id="simple")
    stable(broker, group_id="stable")
    stable(broker, group_id="connect", protocol_type="connect", protocols={"compatible": b"url"})
    begin_join(broker, join_request("joining"), 0).cancel()
    return broker


def listed(broker: BrokerDriver, version: int = 5, **filters: tuple[str, ...]) -> dict[str, ListedGroup]:
    response = broker.ask(ListGroupsRequest(**filters), version)
    assert response.error_code == 0
    return {group.group_id: group for group in response.groups}


@pytest.mark.parametrize("version", range(6))
def test_list_groups_has_every_group_with_its_protocol_type(filled: BrokerDriver, version: int) -> None:
    found = listed(filled, version)
    assert {name: group.protocol_type for name, group in found.items()} == {
        "simple": "",
        "stable": "consumer",
        "connect": "connect",
        "joining": "consumer",
    }
    states = {name: group.group_state for name, group in found.items()}
    types = {group.group_type for group in found.values()}
    assert types == ({"classic"} if version >= 5 else {""})
    if version >= 4:
        assert states == {"simple": "Empty", "stable": "Stable", "connect": "Stable", "joining": "PreparingRebalance"}
    else:
        assert set(states.values()) == {""}


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({"states_filter": ("Stable",)}, {"stable", "connect"}),
        ({"states_filter": (" sTaBle ", "empty")}, {"stable", "connect", "simple"}),
        ({"states_filter": ("Dead",)}, set()),
        ({"types_filter": ("Classic",)}, {"simple", "stable", "connect", "joining"}),
        ({"types_filter": ("consumer",)}, set()),
        ({"types_filter": ("nonsense",)}, set()),
        ({"states_filter": ("PreparingRebalance",), "types_filter": ("classic", "consumer")}, {"joining"}),
    ],
)
def test_list_groups_filters_by_state_and_type(
    filled: BrokerDriver, filters: dict[str, tuple[str, ...]], names: set[str]
) -> None:
    assert set(listed(filled, 5, **filters)) == names


@pytest.mark.parametrize("version", range(3))
def test_only_empty_groups_are_deleted(broker: BrokerDriver, version: int) -> None:
    gone, stays = (stable(broker, group_id=group) for group in ("gone", "stays"))
    broker.ask(LeaveGroupRequest(group_id="gone", member_id=gone), 0)
    response = broker.ask(DeleteGroupsRequest(groups_names=("gone", "stays", "unknown", "gone")), version)
    assert set(response.results) == {
        DeletableGroupResult(group_id="gone"),
        DeletableGroupResult(group_id="stays", error_code=ErrorCode.NON_EMPTY_GROUP),
        DeletableGroupResult(group_id="unknown", error_code=ErrorCode.GROUP_ID_NOT_FOUND),
    }
    assert set(broker.broker.groups.all) == {"stays"}
    broker.restart()
    assert set(broker.broker.groups.all) == {"stays"}
    assert heartbeat(broker, stays, group_id="stays") is ErrorCode.NONE


def test_a_deleted_group_id_starts_with_generation_1(broker: BrokerDriver) -> None:
    broker.ask(LeaveGroupRequest(group_id="g", member_id=stable(broker)), 0)
    broker.ask(DeleteGroupsRequest(groups_names=("g",)), 2)
    assert heartbeat(broker, stable(broker), 1) is ErrorCode.NONE
