"""From records to groups."""

from broker_embedded.groups.classic.group import ClassicConfig, ClassicState
from broker_embedded.groups.classic.records import GroupMetadataValue, MemberMetadata, group_tombstone, new_group_record
from broker_embedded.groups.classic.replay import group_of, replay_group
from tests.support.group_driver import subscription

CONFIG = ClassicConfig(max_size=7)


def test_a_group_with_members_is_stable() -> None:
    members = tuple(
        MemberMetadata(member_id=member_id, session_timeout=10, subscription=subscription(topic), assignment=b"x")
        for member_id, topic in (("m", "t"), ("n", "u"))
    )
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=5,
        protocol="range",
        leader="n",
        members=members,
    )
    group = group_of("g", value, CONFIG)
    assert (group.state, group.generation, group.leader) == (ClassicState.STABLE, 5, "n")
    assert (group.state_since_ms, group.config) == (None, CONFIG)
    assert group.subscribed == frozenset({"t", "u"})
    member = group.members["m"]
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (10, 10)  # old brokers wrote down only one
    assert (member.metadata("range"), member.assignment) == (subscription("t"), b"x")
    assert member.must_heartbeat


def test_a_leader_that_is_no_member_is_replaced() -> None:
    value = GroupMetadataValue(protocol="range", leader="gone", members=(MemberMetadata(member_id="m"),))
    assert group_of("g", value, CONFIG).leader == "m"


def test_a_group_without_members_is_empty() -> None:
    group_id, group = replay_group(new_group_record("g", 9), CONFIG)
    assert group_id == "g"
    assert group is not None
    assert (group.state, group.state_since_ms, group.protocol_type, group.leader) == (ClassicState.EMPTY, 9, "", None)


def test_a_tombstone_ends_a_group() -> None:
    assert replay_group(group_tombstone("g"), CONFIG) == ("g", None)
