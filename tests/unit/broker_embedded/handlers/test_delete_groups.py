"""DeleteGroups, version by version."""

import pytest

from spark_kafka_native.protocol.errors import ErrorCode
from spark_kafka_native.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest
from spark_kafka_native.protocol.messages.leave_group import LeaveGroupRequest
from tests.support.broker_driver import BrokerDriver
from tests.support.members import heartbeat, stable


@pytest.mark.parametrize("version", range(3))
def test_only_empty_groups_go(broker: BrokerDriver, version: int) -> None:
    gone, stays = (stable(broker, group_id=group) for group in ("gone", "stays"))
    broker.ask(LeaveGroupRequest(group_id="gone", member_id=gone), 0)
    answer = broker.ask(DeleteGroupsRequest(groups_names=("gone", "stays", "nobody", "gone")), version)
    assert set(answer.results) == {
        DeletableGroupResult(group_id="gone"),
        DeletableGroupResult(group_id="stays", error_code=ErrorCode.NON_EMPTY_GROUP),
        DeletableGroupResult(group_id="nobody", error_code=ErrorCode.GROUP_ID_NOT_FOUND),
    }
    assert set(broker.broker.groups.all) == {"stays"}
    broker.restart()
    assert set(broker.broker.groups.all) == {"stays"}
    assert heartbeat(broker, stays, group_id="stays") is ErrorCode.NONE


def test_a_group_that_was_deleted_begins_anew(broker: BrokerDriver) -> None:
    broker.ask(LeaveGroupRequest(group_id="g", member_id=stable(broker)), 0)
    broker.ask(DeleteGroupsRequest(groups_names=("g",)), 2)
    assert heartbeat(broker, stable(broker), 1) is ErrorCode.NONE
