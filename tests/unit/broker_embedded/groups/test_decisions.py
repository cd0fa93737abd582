import dataclasses

import pytest

from broker_embedded._groups import decisions
from broker_embedded._groups.classic.group import JOIN_TIMER, ClassicConfig, ClassicGroup
from broker_embedded._groups.consumer.config import ConsumerContext
from broker_embedded._groups.consumer.group import ConsumerGroup
from broker_embedded._groups.consumer.member import ConsumerMember
from broker_embedded._groups.group import Group, Outcome
from broker_embedded._records.coordinator_record import CoordinatorRecord
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.heartbeat import HeartbeatRequest
from spark_kafka_native._protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from spark_kafka_native._protocol.messages.offset_commit import OffsetCommitRequest
from spark_kafka_native._protocol.messages.sync_group import SyncGroupRequest
from tests.support.refusals import refused

CLASSIC = ClassicGroup(group_id="g", config=ClassicConfig())
MEMBER = ConsumerMember(member_id="m", subscribed_topic_regex="a.*")
CONSUMER = ConsumerGroup(group_id="g", context=ConsumerContext(), members={"m": MEMBER})
EVERY_TYPE = pytest.mark.parametrize("group", [None, CLASSIC, CONSUMER])


@EVERY_TYPE
def test_unknown_members_are_refused_by_groups_of_every_type(group: Group | None) -> None:
    for decide in (
        lambda: decisions.heartbeat(group, HeartbeatRequest(group_id="g", member_id="x"), 0),
        lambda: decisions.sync(group, SyncGroupRequest(group_id="g", member_id="x"), 1, 0),
    ):
        assert refused(decide).code is ErrorCode.UNKNOWN_MEMBER_ID
    left = decisions.leave(group, LeaveGroupRequest(group_id="g", members=(MemberIdentity(member_id="x"),)), 0).response
    assert [member.error_code for member in left.members] == [ErrorCode.UNKNOWN_MEMBER_ID]  # type: ignore[union-attr]  # no wait


@pytest.mark.parametrize(("version", "code"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_a_commit_of_a_member_needs_a_group(version: int, code: ErrorCode) -> None:
    assert decisions.check_commit(None, OffsetCommitRequest(group_id="g"), version) == ()
    assert (
        refused(
            lambda: decisions.check_commit(
                None, OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=0), version
            )
        ).code
        is code
    )


def test_a_timer_of_a_group_that_was_deleted_changes_nothing() -> None:
    assert decisions.timer_fired(None, JOIN_TIMER, 0) == Outcome(response=None)


def test_only_consumer_groups_subscribe_to_regular_expressions() -> None:
    assert set(decisions.subscribed_regexes(CONSUMER)) == {"a.*"}
    for group in (None, CLASSIC):
        assert not decisions.subscribed_regexes(group)
        assert decisions.regexes_resolved(group, {"a.*": frozenset({"a"})}, 1, 0) == Outcome(response=None)


def test_a_simple_group_is_a_classic_one_without_a_protocol() -> None:
    group: Group = ClassicGroup(group_id="g", config=ClassicConfig())
    assert (group.group_type, group.state_name, group.protocol_type, group.is_empty) == ("classic", "Empty", "", True)


def test_an_outcome_with_a_response_only_changes_nothing() -> None:
    outcome = Outcome(response=5)
    assert (outcome.records, outcome.timers, outcome.replies) == ((), (), ())
    assert (outcome.group, outcome.removed, outcome.otherwise) == (None, False, None)


def test_an_outcome_cannot_be_changed_after_it_was_decided() -> None:
    outcome = Outcome(response=5, records=(CoordinatorRecord(key=b"k", value=None),))
    with pytest.raises(dataclasses.FrozenInstanceError):
        outcome.response = 6  # type: ignore[misc]  # what must fail
