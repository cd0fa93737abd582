import pytest

from broker_embedded._groups.classic.group import session_timer
from broker_embedded._groups.consumer.config import ConsumerConfig
from broker_embedded._groups.consumer.draft import ConsumerDraft, member_timers
from broker_embedded._groups.consumer.migration import classic_metadata
from broker_embedded._groups.consumer.records import (
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    Entry,
    read_entry,
)
from broker_embedded._groups.group import CancelTimer, SetTimer
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.join_group import JoinGroupRequestProtocol
from tests.support.groups.consumer_driver import ConsumerDriver
from tests.support.refusals import refused


@pytest.fixture
def group() -> ConsumerDriver:
    group = ConsumerDriver(t=2)
    group.join("a", topics=["t"])
    return group


def test_a_decision_that_changes_nothing_leaves_the_group_as_it_is(group: ConsumerDriver) -> None:
    outcome = ConsumerDraft(group.consumer_group, 0).outcome("answer")
    assert (outcome.response, outcome.records, outcome.group, outcome.timers) == ("answer", (), None, ())


def test_the_last_change_of_a_timer_counts(group: ConsumerDriver) -> None:
    draft = ConsumerDraft(group.consumer_group, 0)
    draft.schedule_timer(session_timer("a"), 5)
    draft.cancel_timers("a")
    draft.schedule_timer(("sync", "a"), 7)
    assert set(draft.outcome(None).timers) == {
        CancelTimer(key=("session", "a")),
        CancelTimer(key=("rebalance", "a")),
        CancelTimer(key=("join", "a")),
        SetTimer(key=("sync", "a"), after_ms=7),
    }
    assert len(member_timers("a")) == 3


def test_the_epoch_grows_at_once_or_when_topics_have_changed(group: ConsumerDriver) -> None:
    draft = ConsumerDraft(group.consumer_group, 0)
    draft.bump_group_epoch(if_topics_changed=True)
    assert draft.group.epoch == 2
    draft.bump_group_epoch(if_topics_changed=False)
    assert draft.group.epoch == 3
    group.topic("t", 3)
    draft.bump_group_epoch(if_topics_changed=True)
    assert (draft.group.epoch, draft.group.metadata_hash) == (4, group.view.metadata_hash(["t"]))
    draft.bump_group_epoch(if_topics_changed=True)
    assert draft.group.epoch == 4


def test_a_record_of_an_older_broker_is_removed_with_the_next_decision(group: ConsumerDriver) -> None:
    draft = ConsumerDraft(group.consumer_group, 0)
    draft.append(Entry(ConsumerGroupPartitionMetadataKey(group_id="g"), ConsumerGroupPartitionMetadataValue()))
    draft.bump_group_epoch(if_topics_changed=True)
    assert read_entry(draft.records[-1]) == Entry(ConsumerGroupPartitionMetadataKey(group_id="g"))
    assert not draft.group.has_partition_metadata


def test_only_targets_that_change_are_written(group: ConsumerDriver) -> None:
    group.join("b", topics=["t"])
    draft = ConsumerDraft(group.consumer_group, 0)
    draft.bump_group_epoch(if_topics_changed=False)
    draft.update_target_assignment()
    assert [type(read_entry(record).key).__name__ for record in draft.records] == [
        "ConsumerGroupMetadataKey",
        "ConsumerGroupTargetAssignmentMetadataKey",
    ]


def test_an_assignor_that_is_not_offered_any_more_gives_way_to_the_first(group: ConsumerDriver) -> None:
    group.join("b", topics=["t"], assignor="range")
    group.config = type(group.config)(assignors=("uniform",), assignment_interval_ms=0)
    group.join("c", topics=["t"])
    group.settle()
    assert sum(len(group.owned(name)) for name in "abc") == 2


def test_members_that_were_sent_back_are_remembered(group: ConsumerDriver) -> None:
    draft = ConsumerDraft(group.consumer_group, 0)
    draft.set_must_rejoin("a-id", must_rejoin=False)
    assert draft.outcome(None).group is None
    draft.set_must_rejoin("a-id", must_rejoin=True)
    outcome = draft.outcome(None)
    assert outcome.group is not None
    assert draft.group.must_rejoin == {"a-id"}
    assert outcome.records == ()


@pytest.fixture
def static() -> ConsumerDriver:
    static = ConsumerDriver(ConsumerConfig(assignment_interval_ms=0, max_size=1), t=1)
    static.join("a", topics=["t"], instance_id="i")
    return static


def test_a_full_group_has_room_for_its_own_members_only(static: ConsumerDriver) -> None:
    draft = ConsumerDraft(static.consumer_group, 0)
    draft.check_max_size("a-id")
    assert refused(draft.check_max_size, "b-id").code is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_static_member_that_rejoins_keeps_its_assignment(static: ConsumerDriver) -> None:
    draft = ConsumerDraft(static.consumer_group, 0)
    last = static.member("a")
    new = draft.replace_static_member(last, "b-id")
    assert (new.member_epoch, new.previous_member_epoch, new.assigned) == (0, 0, last.assigned)
    assert draft.group.members == {"b-id": new}
    assert draft.group.targets == {"b-id": static.consumer_group.targets["a-id"]}
    cancelled = {change.key for change in draft.outcome(None).timers if isinstance(change, CancelTimer)}
    assert ("session", "a-id") in cancelled
    same_id = ConsumerDraft(static.consumer_group, 0)
    same_id.replace_static_member(last, "a-id")
    assert same_id.outcome(None).timers == ()


def test_the_fields_of_join_group_that_are_kept() -> None:
    kept = classic_metadata(7, (JoinGroupRequestProtocol(name="range", metadata=b"m"),))
    assert kept.session_timeout_ms == 7
    assert [(entry.name, entry.metadata) for entry in kept.supported_protocols] == [("range", b"m")]
