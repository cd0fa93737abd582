"""Heartbeat, version by version, as bytes."""

import pytest

from spark_kafka_native.protocol.errors import ErrorCode
from spark_kafka_native.protocol.messages.heartbeat import HeartbeatRequest
from tests.support.broker_driver import BrokerDriver
from tests.support.members import stable


@pytest.mark.parametrize("version", range(5))
def test_members_and_others(broker: BrokerDriver, version: int) -> None:
    member_id = stable(broker)
    for sender, code in ((member_id, ErrorCode.NONE), ("nobody", ErrorCode.UNKNOWN_MEMBER_ID)):
        request = HeartbeatRequest(group_id="g", generation_id=1, member_id=sender)
        assert broker.ask(request, version).error_code == code


@pytest.mark.parametrize("version", [3, 4])
def test_static_members(broker: BrokerDriver, version: int) -> None:
    member_id = stable(broker, group_instance_id="i")
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id, group_instance_id="i")
    assert broker.ask(request, version).error_code == ErrorCode.NONE
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="other", group_instance_id="i")
    assert broker.ask(request, version).error_code == ErrorCode.FENCED_INSTANCE_ID
