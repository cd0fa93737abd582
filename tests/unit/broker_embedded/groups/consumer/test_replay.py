from uuid import UUID

import pytest

from broker_embedded._groups.classic.group import ClassicConfig
from broker_embedded._groups.classic.records import group_tombstone
from broker_embedded._groups.consumer.entries import (
    ResolvedRegex,
    current_entry,
    epoch_entry,
    group_tombstones,
    member_entry,
    member_tombstones,
    partition_metadata_tombstone,
    regex_entry,
    regex_tombstone,
    target_entry,
    target_epoch_entry,
)
from broker_embedded._groups.consumer.group import ConsumerGroup
from broker_embedded._groups.consumer.member import ConsumerMember, TopicIdPartition
from broker_embedded._groups.consumer.records import (
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    Entry,
    to_record,
)
from broker_embedded._groups.group import Group
from broker_embedded._groups.records import OffsetCommitKey, OffsetCommitValue, offset_record
from broker_embedded._groups.replay import ReplayContext, replay
from broker_embedded._records.coordinator_record import CoordinatorRecord

PART = TopicIdPartition(UUID(int=1), 0)
MEMBER = ConsumerMember(
    member_id="m", member_epoch=3, instance_id="i", subscribed_topic_names=frozenset({"t"}), assigned={PART: 3}
)
WHOLE = (
    member_entry("g", MEMBER),
    epoch_entry("g", 3, 77),
    regex_entry("g", "x.*", ResolvedRegex(topics=frozenset({"x"}), version=1, timestamp=2)),
    target_entry("g", "m", [PART]),
    target_epoch_entry("g", 3, 9),
    current_entry("g", MEMBER),
)
COMMIT = offset_record(OffsetCommitKey(group="g", topic="t", partition=0), OffsetCommitValue(offset=1, metadata=""))


def replayed(*entries: Entry | CoordinatorRecord) -> Group | None:
    groups: dict[str, Group] = {}
    for entry in entries:
        record = to_record(entry) if isinstance(entry, Entry) else entry
        replay(groups, record, ReplayContext(classic=ClassicConfig()))
    return groups.get("g")


def whole(*more: Entry | CoordinatorRecord) -> ConsumerGroup:
    group = replayed(*WHOLE, *more)
    assert isinstance(group, ConsumerGroup)
    return group


def test_a_group_is_made_of_its_records() -> None:
    group = whole()
    assert (group.epoch, group.metadata_hash, group.assignment_epoch, group.assignment_timestamp) == (3, 77, 3, 9)
    assert group.members == {"m": MEMBER}
    assert group.static_members == {"i": "m"}
    assert group.targets == {"m": frozenset({PART})}
    assert group.subscribed_topics == {"t", "x"}


def test_the_order_of_the_records_of_a_member_does_not_matter() -> None:
    assert replayed(*reversed(WHOLE)) == whole()


def test_a_member_that_is_gone_leaves_nothing() -> None:
    group = whole(*member_tombstones("g", "m"))
    assert (dict(group.members), dict(group.static_members), dict(group.targets)) == ({}, {}, {})
    assert group.subscribed_topics == {"x"}


def test_a_member_without_an_assignment_has_left() -> None:
    gone, _, _ = member_tombstones("g", "m")
    member = whole(gone).members["m"]
    assert (member.member_epoch, dict(member.assigned)) == (-1, {})


def test_an_instance_that_another_member_took_over_stays_its_own() -> None:
    other = ConsumerMember(member_id="n", instance_id="i")
    group = whole(member_entry("g", other), *member_tombstones("g", "m"))
    assert group.static_members == {"i": "n"}


def test_an_expression_that_is_gone_matches_nothing() -> None:
    assert whole(regex_tombstone("g", "x.*")).subscribed_topics == {"t"}


def test_a_target_that_is_gone_has_no_epoch() -> None:
    group = whole(Entry(target_epoch_entry("g", 0, 0).key))
    assert (group.assignment_epoch, group.assignment_timestamp) == (-1, 0)


def test_the_record_of_an_older_broker_is_noted_until_it_is_removed() -> None:
    old = Entry(ConsumerGroupPartitionMetadataKey(group_id="g"), ConsumerGroupPartitionMetadataValue())
    assert whole(old).has_partition_metadata
    assert not whole(old, partition_metadata_tombstone("g")).has_partition_metadata


def test_a_group_that_is_gone() -> None:
    assert replayed(*WHOLE, *group_tombstones("g", ["m"], ["x.*"])) is None
    assert replayed(*WHOLE, group_tombstones("g", [], [])[-1]) is None


@pytest.mark.parametrize("entry", group_tombstones("g", ["m"], ["x.*"]))
def test_tombstones_of_what_never_was_make_nothing(entry: Entry) -> None:
    assert replayed(entry) is None


def test_tombstones_of_members_that_never_were_change_nothing() -> None:
    assert whole(*member_tombstones("g", "n"), regex_tombstone("g", "y")) == whole()


def test_a_consumer_group_replaces_a_simple_one() -> None:
    assert replayed(COMMIT, *WHOLE) == whole()
    assert whole(COMMIT) == whole(), "and a commit does not make it simple"
    simple = replayed(COMMIT, *group_tombstones("g", ["m"], []))
    assert simple is not None
    assert simple.group_type == "classic"


def test_a_group_that_was_classic_before() -> None:
    assert replayed(group_tombstone("g"), *WHOLE) == whole()
