import itertools
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafka_native._client.groups.assignors import ASSIGNORS, Assignments, Members, SubscribedMember
from spark_kafka_native._protocol.topic import TopicPartition

TOPICS = ("a", "b", "c")


def members_of(**topics: str) -> dict[str, SubscribedMember]:
    """``m1="ab"``: a member of this id that subscribes to the topics a and b."""
    return {member_id: SubscribedMember(topics=frozenset(names)) for member_id, names in topics.items()}


def names_of(found: Assignments) -> dict[str, str]:
    return {
        member_id: " ".join(f"{part.topic}{part.partition}" for part in parts) for member_id, parts in found.items()
    }


@pytest.mark.parametrize(
    ("members", "partitions", "expected"),
    [
        (members_of(m1="a", m2="a"), {"a": 3}, {"m1": "a0 a1", "m2": "a2"}),
        (members_of(m1="ab", m2="ab"), {"a": 3, "b": 3}, {"m1": "a0 a1 b0 b1", "m2": "a2 b2"}),
        (members_of(m1="ab", m2="a", m3="b"), {"a": 3, "b": 2}, {"m1": "a0 a1 b0", "m2": "a2", "m3": "b1"}),
        (members_of(m1="a", m2="a", m3="a"), {"a": 2}, {"m1": "a0", "m2": "a1", "m3": ""}),
        (members_of(m1="ax"), {"a": 1}, {"m1": "a0"}),
    ],
)
def test_range_assigns_as_kafka(members: Members, partitions: Mapping[str, int], expected: dict[str, str]) -> None:
    found = {member_id: sorted(parts) for member_id, parts in ASSIGNORS["range"](members, partitions).items()}
    assert names_of(found) == expected


@pytest.mark.parametrize(
    ("members", "partitions", "expected"),
    [
        (members_of(m1="ab", m2="ab"), {"a": 3, "b": 3}, {"m1": "a0 a2 b1", "m2": "a1 b0 b2"}),
        (
            members_of(m0="a", m1="ab", m2="abc"),
            {"a": 1, "b": 2, "c": 3},
            {"m0": "a0", "m1": "b0", "m2": "b1 c0 c1 c2"},
        ),
        (members_of(m1="a", m2="a", m3="a"), {"a": 2}, {"m1": "a0", "m2": "a1", "m3": ""}),
    ],
)
def test_round_robin_assigns_as_kafka(
    members: Members, partitions: Mapping[str, int], expected: dict[str, str]
) -> None:
    assert names_of(ASSIGNORS["roundrobin"](members, partitions)) == expected


def test_static_members_are_ordered_by_their_instance_ids_and_come_first() -> None:
    members = {
        "m1": SubscribedMember(topics=frozenset("a")),
        "m2": SubscribedMember(topics=frozenset("a"), instance_id="z"),
        "m3": SubscribedMember(topics=frozenset("a"), instance_id="y"),
    }
    for name in ("range", "roundrobin"):
        assert names_of(ASSIGNORS[name](members, {"a": 3})) == {"m1": "a2", "m2": "a1", "m3": "a0"}


def test_a_member_that_joins_takes_only_what_is_beyond_the_equal_shares() -> None:
    before = ASSIGNORS["sticky"](members_of(m1="a", m2="a"), {"a": 6})
    members = {
        **{key: SubscribedMember(topics=frozenset("a"), owned=tuple(parts)) for key, parts in before.items()},
        **members_of(m3="a"),
    }
    after = ASSIGNORS["sticky"](members, {"a": 6})
    assert {key: len(parts) for key, parts in after.items()} == {"m1": 2, "m2": 2, "m3": 2}
    assert all(set(after[key]) < set(before[key]) for key in before)
    cooperative = ASSIGNORS["cooperative-sticky"](members, {"a": 6})
    assert cooperative == {**after, "m3": []}, "the partitions that move are still owned"


def test_the_owner_of_the_latest_generation_keeps_a_partition() -> None:
    part = (TopicPartition("a", 0),)
    members = {
        "m1": SubscribedMember(topics=frozenset("a"), owned=part, generation=4),
        "m2": SubscribedMember(topics=frozenset("a"), owned=part, generation=5),
    }
    assert names_of(ASSIGNORS["cooperative-sticky"](members, {"a": 1})) == {"m1": "", "m2": "a0"}


@pytest.mark.parametrize("number", [-1, 2])
def test_an_owned_partition_that_does_not_exist_counts_for_nothing(number: int) -> None:
    damaged = SubscribedMember(topics=frozenset("ab"), owned=(TopicPartition("a", number),), generation=5)
    members = {"m1": damaged, **members_of(m2="a")}
    assert names_of(ASSIGNORS["sticky"](members, {"a": 2, "b": 1})) == {"m1": "a1 b0", "m2": "a0"}


def test_no_members_have_no_assignments() -> None:
    assert [assign({}, {"a": 1}) for assign in ASSIGNORS.values()] == [{}] * len(ASSIGNORS)


@st.composite
def groups(draw: st.DrawFn) -> tuple[dict[str, SubscribedMember], dict[str, int]]:
    partitions = draw(st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 7)))
    every = [TopicPartition(topic, number) for topic in TOPICS for number in range(-2, 8)]
    members = draw(
        st.dictionaries(
            st.text("mn01", min_size=1, max_size=3),
            st.builds(
                SubscribedMember,
                topics=st.frozensets(st.sampled_from(TOPICS)),
                owned=st.lists(st.sampled_from(every), max_size=6).map(tuple),
                generation=st.integers(-1, 2),
                instance_id=st.none() | st.text("xy", min_size=1, max_size=2),
            ),
            max_size=6,
        )
    )
    return members, partitions


@pytest.mark.parametrize("name", ASSIGNORS)
@given(group=groups())
def test_each_partition_has_one_member_that_subscribes_to_its_topic(
    name: str, group: tuple[dict[str, SubscribedMember], dict[str, int]]
) -> None:
    members, partitions = group
    found = ASSIGNORS[name](members, partitions)
    assert list(found) == list(members)
    counts = Counter(itertools.chain.from_iterable(found.values()))
    assert all(part.topic in members[member_id].topics for member_id, parts in found.items() for part in parts)
    expected = {
        TopicPartition(topic, number)
        for topic, count in partitions.items()
        if any(topic in member.topics for member in members.values())
        for number in range(count)
    }
    assert set(counts.values()) <= {1}
    if name == "cooperative-sticky":
        owned = {part for member in members.values() for part in member.owned}
        assert expected - owned <= counts.keys() <= expected
    else:
        assert counts.keys() == expected


@given(group=groups())
def test_sticky_assignments_are_balanced(group: tuple[dict[str, SubscribedMember], dict[str, int]]) -> None:
    members, partitions = group
    found = ASSIGNORS["sticky"](members, partitions)
    for owner, parts in found.items():
        for part, other in itertools.product(parts, members):
            assert part.topic not in members[other].topics or len(found[other]) > len(parts) - 2, (owner, part, other)


@given(group=groups())
def test_a_balanced_assignment_does_not_change(group: tuple[dict[str, SubscribedMember], dict[str, int]]) -> None:
    members, partitions = group
    found = ASSIGNORS["sticky"](members, partitions)
    again = {
        member_id: SubscribedMember(topics=member.topics, owned=tuple(found[member_id]), generation=3)
        for member_id, member in members.items()
    }
    assert ASSIGNORS["sticky"](again, partitions) == found
    assert ASSIGNORS["cooperative-sticky"](again, partitions) == found


def steps_of(function: Callable[[], object]) -> int:
    """How many lines of Python run in a call."""
    steps = 0

    def count(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal steps
        steps += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        function()
    finally:
        sys.settrace(before)
    return steps


def steps_of_sticky(count: int) -> int:
    """A member has all partitions of a topic; nine join, and subscribe to one topic more."""
    owned = tuple(TopicPartition("a", number) for number in range(count))
    owner = SubscribedMember(topics=frozenset("a"), owned=owned, generation=1)
    members = {"m": owner, **members_of(**{f"n{number}": "ab" for number in range(9)})}
    return steps_of(lambda: ASSIGNORS["sticky"](members, {"a": count, "b": 1}))


def test_members_of_different_topics_are_balanced_in_linear_time() -> None:
    few, many = steps_of_sticky(200), steps_of_sticky(800)
    assert many < 5 * few, (few, many)
