"""The assignor ``range``, and the names of all."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from broker_embedded.groups.consumer.assignors import ASSIGNORS, Subscriber, assign_ranges, assign_uniformly
from broker_embedded.groups.consumer.member import TopicIdPartition

A, B, C = (UUID(int=number) for number in (1, 2, 3))


def numbers(part: frozenset[TopicIdPartition], topic: UUID) -> list[int]:
    return sorted(partition.partition for partition in part if partition.topic_id == topic)


def test_the_assignors_by_name() -> None:
    assert dict(ASSIGNORS) == {"uniform": assign_uniformly, "range": assign_ranges}


def test_topics_of_one_size_are_cut_at_the_same_places() -> None:
    members = {name: Subscriber(topic_ids=frozenset({A, B})) for name in ("m0", "m1")}
    parts = assign_ranges(members, {A: 3, B: 3})
    assert [numbers(parts["m0"], topic) for topic in (A, B)] == [[0, 1], [0, 1]]
    assert [numbers(parts["m1"], topic) for topic in (A, B)] == [[2], [2]]


def test_only_subscribers_count() -> None:
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
