"""Members and assignments in records and back."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from broker_embedded.groups.consumer.entries import (
    ResolvedRegex,
    current_entry,
    group_tombstones,
    member_entry,
    member_tombstones,
    regex_entry,
    resolved_of,
    target_entry,
    target_of,
    with_assignment,
    with_metadata,
)
from broker_embedded.groups.consumer.member import ConsumerMember, MemberState, TopicIdPartition
from broker_embedded.groups.consumer.records import (
    ClassicMemberMetadata,
    ClassicProtocolEntry,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberValue,
    CurrentTopicPartitions,
)

PARTS = st.builds(TopicIdPartition, st.uuids(), st.integers(0, 5))
EPOCHS = st.dictionaries(PARTS, st.integers(0, 9), max_size=5)
NAMES = st.text("abc", min_size=1, max_size=3)
MEMBERS = st.builds(
    ConsumerMember,
    member_id=st.just("m"),
    member_epoch=st.integers(-2, 100),
    previous_member_epoch=st.integers(-2, 100),
    state=st.sampled_from(list(MemberState)),
    instance_id=st.none() | NAMES,
    rack_id=st.none() | NAMES,
    rebalance_timeout_ms=st.integers(-1, 10_000),
    client_id=NAMES,
    client_host=NAMES,
    subscribed_topic_names=st.frozensets(NAMES),
    subscribed_topic_regex=st.none() | NAMES,
    server_assignor=st.none() | NAMES,
    classic=st.none()
    | st.builds(
        ClassicMemberMetadata,
        session_timeout_ms=st.integers(1, 9),
        supported_protocols=st.lists(
            st.builds(ClassicProtocolEntry, name=NAMES, metadata=st.binary(max_size=5)), max_size=2
        ).map(tuple),
    ),
    assigned=EPOCHS,
    pending_revocation=EPOCHS,
)
A, B = UUID(int=1), UUID(int=2)


@given(MEMBERS)
def test_two_records_tell_all_of_a_member(member: ConsumerMember) -> None:
    said, stands = member_entry("g", member).value, current_entry("g", member).value
    assert isinstance(said, ConsumerGroupMemberMetadataValue)
    assert isinstance(stands, ConsumerGroupCurrentMemberAssignmentValue)
    new = ConsumerMember(member_id="m")
    assert with_assignment(with_metadata(new, said), stands) == member
    assert with_metadata(with_assignment(new, stands), said) == member


@given(st.frozensets(PARTS, max_size=8))
def test_targets_are_read_as_they_are_written(target: frozenset[TopicIdPartition]) -> None:
    value = target_entry("g", "m", target).value
    assert isinstance(value, ConsumerGroupTargetAssignmentMemberValue)
    assert target_of(value) == target
    assert len({topic.topic_id for topic in value.topic_partitions}) == len(value.topic_partitions)


def test_regular_expressions_are_read_as_they_are_written() -> None:
    resolved = ResolvedRegex(topics=frozenset({"b", "a"}), version=3, timestamp=4)
    value = regex_entry("g", "x", resolved).value
    assert isinstance(value, ConsumerGroupRegularExpressionValue)
    assert value.topics == ("a", "b")
    assert resolved_of(value) == resolved


def test_partitions_of_older_brokers_count_from_the_members_epoch() -> None:
    def read(epoch: int, epochs: tuple[int, ...] | None) -> dict[TopicIdPartition, int]:
        topic = CurrentTopicPartitions(topic_id=A, partitions=(0, 1), assignment_epochs=epochs)
        value = ConsumerGroupCurrentMemberAssignmentValue(member_epoch=epoch, assigned_partitions=(topic,))
        return dict(with_assignment(ConsumerMember(member_id="m"), value).assigned)

    first, second = TopicIdPartition(A, 0), TopicIdPartition(A, 1)
    assert read(7, None) == {first: 7, second: 7}
    assert read(-2, None) == {first: 0, second: 0}
    assert read(7, (3, 4)) == {first: 3, second: 4}
    assert read(7, (3,)) == {first: 7, second: 7}, "as many epochs as partitions, or none"


def test_tombstones_end_what_depends_on_the_key_before_the_key_itself() -> None:
    assert [type(entry.key).__name__ for entry in member_tombstones("g", "m")] == [
        "ConsumerGroupCurrentMemberAssignmentKey",
        "ConsumerGroupTargetAssignmentMemberKey",
        "ConsumerGroupMemberMetadataKey",
    ]
    tombstones = group_tombstones("g", ["m", "n"], ["x"])
    assert all(entry.value is None for entry in tombstones)
    assert [type(entry.key).__name__.removeprefix("ConsumerGroup").removesuffix("Key") for entry in tombstones] == [
        *["CurrentMemberAssignment"] * 2,
        *["TargetAssignmentMember"] * 2,
        "TargetAssignmentMetadata",
        *["MemberMetadata"] * 2,
        "RegularExpression",
        "PartitionMetadata",
        "Metadata",
    ]
