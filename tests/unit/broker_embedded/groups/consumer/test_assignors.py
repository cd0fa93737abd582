from uuid import UUID

from hypothesis import example, given
from hypothesis import strategies as st

from broker_embedded._groups.consumer.assignors import (
    ASSIGNORS,
    Assignment,
    Subscriber,
    assign_ranges,
    assign_uniformly,
)
from broker_embedded._groups.consumer.member import TopicIdPartition

A, B, C = (UUID(int=number) for number in (1, 2, 3))


def numbers(part: frozenset[TopicIdPartition], topic: UUID) -> list[int]:
    return sorted(partition.partition for partition in part if partition.topic_id == topic)


def test_the_assignors_by_name() -> None:
    assert dict(ASSIGNORS) == {"uniform": assign_uniformly, "range": assign_ranges}


def test_topics_of_equal_size_get_the_same_ranges() -> None:
    members = {name: Subscriber(topic_ids=frozenset({A, B})) for name in ("m0", "m1")}
    parts = assign_ranges(members, {A: 3, B: 3})
    assert [numbers(parts["m0"], topic) for topic in (A, B)] == [[0, 1], [0, 1]]
    assert [numbers(parts["m1"], topic) for topic in (A, B)] == [[2], [2]]


def test_only_subscribers_get_partitions() -> None:
    members = {
        "m0": Subscriber(topic_ids=frozenset({A})),
        "m1": Subscriber(topic_ids=frozenset({A, B})),
        "m2": Subscriber(topic_ids=frozenset({B})),
    }
    parts = assign_ranges(members, {A: 4, B: 3})
    assert [numbers(parts[name], A) for name in members] == [[0, 1], [2, 3], []]
    assert [numbers(parts[name], B) for name in members] == [[], [0, 1], [2]]


def test_static_members_come_first_and_keep_their_ranges_under_new_ids() -> None:
    topics = frozenset({A})
    first = {
        "z": Subscriber(topic_ids=topics, instance_id="i1"),
        "a": Subscriber(topic_ids=topics, instance_id="i2"),
        "b": Subscriber(topic_ids=topics),
    }
    second = {
        "c": Subscriber(topic_ids=topics, instance_id="i1"),
        "y": Subscriber(topic_ids=topics, instance_id="i2"),
        "x": Subscriber(topic_ids=topics),
    }
    before, after = assign_ranges(first, {A: 5}), assign_ranges(second, {A: 5})
    assert [numbers(before[name], A) for name in ("z", "a", "b")] == [[0, 1], [2, 3], [4]]
    assert [numbers(after[name], A) for name in ("c", "y", "x")] == [[0, 1], [2, 3], [4]]


@given(
    st.dictionaries(st.text("abc", min_size=1, max_size=3), st.frozensets(st.sampled_from([A, B, C]))),
    st.fixed_dictionaries({topic: st.integers(1, 10) for topic in (A, B, C)}),
)
def test_every_topic_is_cut_into_ranges_for_its_subscribers(
    wants: dict[str, frozenset[UUID]], partitions: dict[UUID, int]
) -> None:
    wanted = {topic: partitions[topic] for topic in frozenset().union(*wants.values())}
    parts = assign_ranges({name: Subscriber(topic_ids=topics) for name, topics in wants.items()}, wanted)
    assert parts.keys() == wants.keys()
    for topic, count in wanted.items():
        able = [name for name in sorted(wants) if topic in wants[name]]
        ranges = [numbers(parts[name], topic) for name in able]
        assert [number for part in ranges for number in part] == list(range(count)), "in order, complete, once"
        sizes = [len(part) for part in ranges]
        assert sizes == sorted(sizes, reverse=True)
        assert max(sizes) - min(sizes) <= 1
        assert all(not numbers(parts[name], topic) for name in wants if name not in able)


TOPIC_IDS = [UUID(int=number) for number in range(1, 6)]
MEMBERS = [f"m{number}" for number in range(8)]
PARTITIONS = st.fixed_dictionaries({topic: st.integers(1, 12) for topic in TOPIC_IDS})
SAME_TOPICS = st.frozensets(st.sampled_from(TOPIC_IDS), min_size=1)


def subscribers(wants: dict[str, frozenset[UUID]], has: dict[str, Assignment]) -> dict[str, Subscriber]:
    return {name: Subscriber(topic_ids=topics, assignment=has.get(name, frozenset())) for name, topics in wants.items()}


def check(wants: dict[str, frozenset[UUID]], partitions: dict[UUID, int], parts: dict[str, Assignment]) -> None:
    """Every member has subscribed topics only, and every subscribed partition has one member."""
    assert parts.keys() == wants.keys()
    given_out = [part for held in parts.values() for part in held]
    wanted = {
        TopicIdPartition(topic, number)
        for topic in frozenset().union(*wants.values())
        for number in range(partitions[topic])
    }
    assert len(given_out) == len(set(given_out))
    assert set(given_out) == wanted
    assert all(part.topic_id in wants[name] for name, held in parts.items() for part in held)


@given(st.lists(st.sampled_from(MEMBERS), min_size=1, unique=True), SAME_TOPICS, PARTITIONS)
def test_members_that_want_the_same_have_as_many(
    names: list[str], topics: frozenset[UUID], partitions: dict[UUID, int]
) -> None:
    wants = dict.fromkeys(names, topics)
    parts = assign_uniformly(subscribers(wants, {}), partitions)
    check(wants, partitions, parts)
    sizes = [len(held) for held in parts.values()]
    assert max(sizes) - min(sizes) <= 1


@given(
    st.lists(st.sampled_from(MEMBERS), min_size=1, unique=True),
    st.lists(st.sampled_from(MEMBERS), min_size=1, unique=True),
    SAME_TOPICS,
    SAME_TOPICS,
    PARTITIONS,
)
@example(["m0"], ["m0", "m1"], frozenset(TOPIC_IDS[:1]), frozenset(TOPIC_IDS[:1]), dict.fromkeys(TOPIC_IDS, 5))
def test_partitions_move_only_if_necessary(
    before: list[str],
    after: list[str],
    topics_before: frozenset[UUID],
    topics_after: frozenset[UUID],
    partitions: dict[UUID, int],
) -> None:
    had = assign_uniformly(subscribers(dict.fromkeys(before, topics_before), {}), partitions)
    wants = dict.fromkeys(after, topics_after)
    has = assign_uniformly(subscribers(wants, had), partitions)
    check(wants, partitions, has)
    sizes = {name: len(held) for name, held in has.items()}
    assert max(sizes.values()) - min(sizes.values()) <= 1
    for name in after:
        still_wanted = {part for part in had.get(name, frozenset()) if part.topic_id in topics_after}
        if len(still_wanted) >= sizes[name]:
            assert has[name] <= still_wanted, "a member with enough gets nothing else"
        else:
            assert has[name] >= still_wanted, "a member with too little keeps what it has"
    # The extra partitions are with members that had as many, as far as there are such.
    least = min(sizes.values())
    could_keep = [
        name
        for name in after
        if len({part for part in had.get(name, frozenset()) if part.topic_id in topics_after}) > least
    ]
    extra = [name for name in after if sizes[name] > least]
    assert len([name for name in could_keep if name in extra]) == min(len(could_keep), len(extra))


@given(
    st.dictionaries(st.sampled_from(MEMBERS), st.frozensets(st.sampled_from(TOPIC_IDS)), min_size=1),
    st.dictionaries(st.sampled_from(MEMBERS), st.frozensets(st.sampled_from(TOPIC_IDS)), min_size=1),
    PARTITIONS,
)
def test_members_that_want_different_things_are_even_topic_by_topic(
    wants_before: dict[str, frozenset[UUID]], wants: dict[str, frozenset[UUID]], partitions: dict[UUID, int]
) -> None:
    had = assign_uniformly(subscribers(wants_before, {}), partitions)
    has = assign_uniformly(subscribers(wants, had), partitions)
    check(wants, partitions, has)
    for topic in frozenset().union(*wants.values()):
        able = [name for name in wants if topic in wants[name]]
        least = min(len(has[name]) for name in able)
        for name in able:
            if any(part.topic_id == topic for part in has[name]):
                assert len(has[name]) - least <= 1, "one of its partitions could go to the one that has least"
    assert assign_uniformly(subscribers(wants, has), partitions) == has, "an even assignment is left as it is"


def test_a_group_without_members_gets_an_empty_assignment() -> None:
    assert assign_uniformly({}, {}) == {}
    assert assign_uniformly(subscribers({"a": frozenset()}, {}), {}) == {"a": frozenset()}
