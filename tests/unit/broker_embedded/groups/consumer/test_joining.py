"""What both protocols have in common when somebody joins."""

import pytest

from broker_embedded.groups.consumer.config import ConsumerConfig
from broker_embedded.groups.consumer.draft import Draft
from broker_embedded.groups.consumer.migration import classic_metadata
from broker_embedded.groups.group import CancelTimer
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError
from spark_kafka_native.protocol.messages.join_group import JoinGroupRequestProtocol
from tests.support.consumer_driver import ConsumerDriver


@pytest.fixture
def group() -> ConsumerDriver:
    group = ConsumerDriver(ConsumerConfig(assignment_interval_ms=0, max_size=1), t=1)
    group.join("a", topics=["t"], instance_id="i")
    return group


def test_a_full_group_has_room_for_its_own_members_only(group: ConsumerDriver) -> None:
    draft = Draft(group.consumer_group, 0)
    draft.check_size("a-id")
    with pytest.raises(KafkaError) as caught:
        draft.check_size("b-id")
    assert caught.value.code is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_the_new_self_of_a_static_member_has_all_that_the_last_one_had(group: ConsumerDriver) -> None:
    draft = Draft(group.consumer_group, 0)
    last = group.member("a")
    new = draft.replace_static(last, "b-id")
    assert (new.member_epoch, new.previous_member_epoch, new.assigned) == (0, 0, last.assigned)
    assert draft.group.members == {"b-id": new}
    assert draft.group.targets == {"b-id": group.consumer_group.targets["a-id"]}
    cancelled = {change.key for change in draft.decided(None).timers if isinstance(change, CancelTimer)}
    assert ("session", "a-id") in cancelled


def test_a_member_that_comes_back_under_its_id_keeps_its_timers(group: ConsumerDriver) -> None:
    draft = Draft(group.consumer_group, 0)
    draft.replace_static(group.member("a"), "a-id")
    assert draft.decided(None).timers == ()


def test_what_is_kept_of_a_join_group() -> None:
    kept = classic_metadata(7, (JoinGroupRequestProtocol(name="range", metadata=b"m"),))
    assert kept.session_timeout_ms == 7
    assert [(entry.name, entry.metadata) for entry in kept.supported_protocols] == [("range", b"m")]
