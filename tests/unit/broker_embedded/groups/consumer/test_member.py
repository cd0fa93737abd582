"""Members as values."""

from uuid import UUID

from broker_embedded.groups.consumer.member import ConsumerMember, MemberState, TopicIdPartition, by_topic
from broker_embedded.groups.consumer.records import ClassicMemberMetadata, ClassicProtocolEntry

A, B = UUID(int=1), UUID(int=2)
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


def test_what_a_member_has_includes_what_it_gives_back() -> None:
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
