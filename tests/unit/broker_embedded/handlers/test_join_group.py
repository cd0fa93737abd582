"""JoinGroup, version by version, as bytes."""

import pytest

from broker_embedded.groups.classic.group import ClassicGroup
from spark_kafka_native.protocol.errors import ErrorCode
from spark_kafka_native.protocol.messages.join_group import JoinGroupResponseMember
from tests.support.broker_driver import BrokerDriver
from tests.support.group_driver import subscription
from tests.support.members import begin_join, join, join_request, stable


def group_of(broker: BrokerDriver) -> ClassicGroup:
    group = broker.broker.groups.get("g")
    assert isinstance(group, ClassicGroup)
    return group


@pytest.mark.parametrize("version", range(10))
def test_a_member_alone(broker: BrokerDriver, version: int) -> None:
    answer = join(broker, version)
    assert (answer.error_code, answer.generation_id, answer.leader) == (0, 1, answer.member_id)
    assert (answer.protocol_type, answer.protocol_name) == ("consumer" if version >= 7 else None, "range")
    assert answer.members == (JoinGroupResponseMember(member_id=answer.member_id, metadata=subscription("t")),)
    assert not answer.skip_assignment


@pytest.mark.parametrize("version", range(10))
def test_timeouts_are_those_of_the_version(broker: BrokerDriver, version: int) -> None:
    join(broker, version, session_timeout_ms=7_000, rebalance_timeout_ms=50_000)
    (member,) = group_of(broker).members.values()
    assert member.session_timeout_ms == 7_000
    assert member.rebalance_timeout_ms == (50_000 if version >= 1 else 7_000)


def test_what_the_client_calls_itself_begins_its_id(broker: BrokerDriver) -> None:
    begin_join(broker, join_request(), 0, client_id="me").cancel()
    (member,) = group_of(broker).members.values()
    assert member.member_id.startswith("me-")
    assert len(member.member_id) == len("me-") + 36
    assert member.client_id == "me"


@pytest.mark.parametrize("version", range(10))
def test_an_error_in_every_version(broker: BrokerDriver, version: int) -> None:
    answer = broker.ask(join_request("g", "nobody"), version)
    assert (answer.error_code, answer.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "nobody")
    assert (answer.generation_id, answer.leader, answer.members) == (-1, "", ())


@pytest.mark.parametrize("version", range(5, 10))
def test_an_answer_without_a_protocol_can_be_said_in_every_version(broker: BrokerDriver, version: int) -> None:
    member_id = stable(broker, group_instance_id="i")
    stable_again = broker.ask(join_request(group_instance_id="i"), version)
    assert stable_again.error_code == ErrorCode.NONE
    answer = broker.ask(join_request("g", member_id, group_instance_id="i"), version)
    assert (answer.error_code, answer.protocol_name) == (
        ErrorCode.FENCED_INSTANCE_ID,
        None if version >= 7 else "",
    )


def test_a_group_that_cannot_be_kept_now(broker: BrokerDriver) -> None:
    broker.settings["message.max.bytes"] = 100
    broker.restart()
    answer = broker.ask(join_request("g" * 100), 9)
    assert (answer.error_code, answer.member_id) == (ErrorCode.UNKNOWN_SERVER_ERROR, "")
    assert not broker.broker.groups.all


def test_settings_of_the_broker_count(broker: BrokerDriver) -> None:
    broker.settings |= {"group.min.session.timeout.ms": 100, "group.initial.rebalance.delay.ms": 0}
    broker.restart()
    task = begin_join(broker, join_request(session_timeout_ms=100), 0)
    broker.settle()
    answer = task.result()
    assert answer is not None
    assert answer.generation_id == 1
    assert broker.ask(join_request(session_timeout_ms=99), 0).error_code == ErrorCode.INVALID_SESSION_TIMEOUT
