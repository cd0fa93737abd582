from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from broker_embedded._groups.consumer.entries import (
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
from broker_embedded._groups.consumer.member import ConsumerMember, MemberState, TopicIdPartition, by_topic
from broker_embedded._groups.consumer.records import (
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
def test_two_records_hold_a_member(member: ConsumerMember) -> None:
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


A0, A1, B0 = TopicIdPartition(A, 0), TopicIdPartition(A, 1), TopicIdPartition(B, 0)


def test_states_have_kafkas_codes() -> None:
    assert [MemberState.of(code) for code in (0, 1, 2, 127, 3, -1)] == [
        MemberState.STABLE,
        MemberState.UNREVOKED_PARTITIONS,
        MemberState.UNRELEASED_PARTITIONS,
        MemberState.UNKNOWN,
        MemberState.UNKNOWN,
        MemberState.UNKNOWN,
    ]


def test_the_partitions_of_a_member_include_those_pending_revocation() -> None:
    member = ConsumerMember(member_id="m", assigned={A0: 3}, pending_revocation={B0: 2})
    assert set(member.held) == {A0, B0}
    assert [member.assignment_epoch(part) for part in (A0, B0, A1)] == [3, 2, None]


def test_a_member_is_reconciled_when_it_is_stable_at_the_epoch() -> None:
    member = ConsumerMember(member_id="m", member_epoch=3)
    assert member.is_reconciled_to(3)
    assert not member.is_reconciled_to(4)
    waiting = ConsumerMember(member_id="m", member_epoch=3, state=MemberState.UNRELEASED_PARTITIONS)
    assert not waiting.is_reconciled_to(3)


def test_the_last_epoch_is_remembered() -> None:
    moved = ConsumerMember(member_id="m", member_epoch=3, previous_member_epoch=1).moved_to(5)
    assert (moved.member_epoch, moved.previous_member_epoch) == (5, 3)


def test_no_expression_and_an_empty_one_are_the_same() -> None:
    members = [ConsumerMember(member_id="m", subscribed_topic_regex=regex) for regex in (None, "", "x")]
    assert [member.regex for member in members] == [None, None, "x"]


def test_protocols_of_members_that_speak_the_classic_protocol() -> None:
    classic = ClassicMemberMetadata(supported_protocols=(ClassicProtocolEntry(name="range"),))
    assert ConsumerMember(member_id="m", classic=classic).protocol_names == {"range"}
    assert ConsumerMember(member_id="m").protocol_names == frozenset()


def test_partitions_by_topic_are_in_order() -> None:
    assert by_topic([B0, A1, A0]) == {A: [0, 1], B: [0]}
    assert list(by_topic([B0, A1])) == [A, B]
