"""SyncGroup, version by version, as bytes."""

import pytest

from spark_kafka_native.protocol.errors import ErrorCode
from spark_kafka_native.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.support.broker_driver import BrokerDriver
from tests.support.members import begin_join, join, join_request


def sync_request(member_id: str, **others: object) -> SyncGroupRequest:
    fields = {"protocol_type": "consumer", "protocol_name": "range"} | others
    return SyncGroupRequest(group_id="g", generation_id=1, member_id=member_id, **fields)  # type: ignore[arg-type]  # by name


@pytest.mark.parametrize("version", range(6))
def test_the_leader_and_a_follower(broker: BrokerDriver, version: int) -> None:
    tasks = [begin_join(broker, join_request(), 3) for _ in range(2)]
    broker.advance(6_000)
    leader, follower = [joined for task in tasks if (joined := task.result()) is not None]
    waiting = broker.begin(sync_request(follower.member_id), version)
    broker.settle()
    assert not waiting.done()
    assignments = tuple(
        SyncGroupRequestAssignment(member_id=member.member_id, assignment=member.member_id.encode())
        for member in leader.members
    )
    request = sync_request(leader.member_id, assignments=assignments)
    first = broker.ask(request, version)
    broker.settle()
    second = waiting.result()
    assert second is not None
    assert (first.assignment, second.assignment) == (leader.member_id.encode(), follower.member_id.encode())
    names = ("consumer", "range") if version >= 5 else (None, None)
    assert (first.protocol_type, first.protocol_name) == (second.protocol_type, second.protocol_name) == names


@pytest.mark.parametrize("version", range(6))
def test_an_error_in_every_version(broker: BrokerDriver, version: int) -> None:
    answer = broker.ask(sync_request("nobody"), version)
    assert (answer.error_code, answer.assignment) == (ErrorCode.UNKNOWN_MEMBER_ID, b"")


def test_the_protocol_is_checked_where_it_is_told(broker: BrokerDriver) -> None:
    answer = join(broker)
    for changes in ({"protocol_name": "sticky"}, {"protocol_type": "connect"}):
        request = sync_request(answer.member_id, **changes)
        assert broker.ask(request, 5).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert broker.ask(request, 4).error_code == ErrorCode.NONE  # which does not say it


@pytest.mark.parametrize("missing", ["protocol_type", "protocol_name"])
def test_the_protocol_must_be_told_since_it_can_be(broker: BrokerDriver, missing: str) -> None:
    answer = join(broker)
    request = sync_request(answer.member_id, **{missing: None})
    assert broker.ask(request, 5).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert broker.ask(request, 4).error_code == ErrorCode.NONE
