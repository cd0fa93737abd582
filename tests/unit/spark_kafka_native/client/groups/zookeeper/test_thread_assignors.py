"""Assignments of groups in ZooKeeper are those of Kafka's ZooKeeper consumers."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafka_native._client.groups.zookeeper.thread_assignors import Owners, assign_range, assign_round_robin
from spark_kafka_native._zookeeper.consumer_znodes import ThreadId


def threads(**counts: int) -> list[ThreadId]:
    return [ThreadId(consumer, number) for consumer, count in counts.items() for number in range(count)]


def shown(owners: Owners) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for part, thread in owners.items():
        found.setdefault(str(thread), []).append(str(part))
    return found


def test_a_range_of_each_topic_per_thread() -> None:
    # The example of Kafka's RangeAssignor: the first thread has one partition more.
    owners = assign_range({"t": threads(C2=2, C1=2)}, {"t": range(5)})
    assert shown(owners) == {"C1-0": ["t-0", "t-1"], "C1-1": ["t-2"], "C2-0": ["t-3"], "C2-1": ["t-4"]}


def test_threads_of_a_range_have_the_order_of_their_names_and_partitions_that_of_their_numbers() -> None:
    owners = assign_range({"t": threads(c=11)}, {"t": [10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]})
    assert shown(owners) == {
        f"c-{name}": [f"t-{number}"]
        for number, name in enumerate(["0", "1", "10", "2", "3", "4", "5", "6", "7", "8", "9"])
    }


def test_more_threads_than_partitions_leave_some_without_any() -> None:
    assert shown(assign_range({"t": threads(a=2, b=2)}, {"t": range(2)})) == {"a-0": ["t-0"], "a-1": ["t-1"]}


def test_round_robin_has_the_order_of_the_hashes_of_the_names() -> None:
    # String.hashCode of "[t,0]" to "[t,3]" ascends, and so do those of "[u,N]", after them.
    both = threads(a=1, b=2)
    owners = assign_round_robin({"t": both, "u": both}, {"u": range(2), "t": range(4)})
    assert shown(owners) == {"a-0": ["t-0", "t-3"], "b-0": ["t-1", "u-0"], "b-1": ["t-2", "u-1"]}


def test_round_robin_compares_hashes_as_signed_integers() -> None:
    # String.hashCode of "[events,0]" is -670581339, that of "[logs,0]" 24528527.
    owners = assign_round_robin({"logs": threads(a=2), "events": threads(a=2)}, {"logs": [0], "events": [0]})
    assert shown(owners) == {"a-0": ["events-0"], "a-1": ["logs-0"]}


def test_round_robin_passes_threads_that_do_not_read_a_topic() -> None:
    owners = assign_round_robin({"t": threads(a=1), "u": threads(a=1, b=1)}, {"t": range(2), "u": range(2)})
    assert shown(owners) == {"a-0": ["t-0", "t-1", "u-1"], "b-0": ["u-0"]}


@given(
    counts=st.dictionaries(st.sampled_from("abc"), st.integers(0, 4)),
    readers=st.dictionaries(st.sampled_from(["t", "u", "v"]), st.sets(st.sampled_from("abc")), min_size=1),
    sizes=st.lists(st.integers(0, 12), min_size=3, max_size=3),
)
def test_round_robin_passes_from_thread_to_thread_in_a_circle(
    counts: dict[str, int], readers: dict[str, set[str]], sizes: list[int]
) -> None:
    able = {topic: threads(**{each: counts.get(each, 0) for each in names}) for topic, names in readers.items()}
    partitions = {topic: range(size) for topic, size in zip("tuv", sizes, strict=True)}
    owners = assign_round_robin(able, partitions)
    circle = itertools.cycle(sorted({thread for each in able.values() for thread in each}, key=str))
    for part, owner in owners.items():
        assert owner == next(thread for thread in circle if thread in able[part.topic])
    assert len(owners) == sum(len(partitions[topic]) for topic, each in able.items() if each)


@pytest.mark.parametrize("assign", [assign_range, assign_round_robin])
def test_topics_without_threads_and_threads_without_topics_have_no_owners(assign: object) -> None:
    assert callable(assign)
    assert assign({"t": threads(a=1)}, {"u": range(3)}) == {}
    assert assign({}, {}) == {}
