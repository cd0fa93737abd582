"""The threads of all consumers of a group in ZooKeeper, from their registrations."""

from collections import Counter

import pytest
from dirty_equals import IsStr

from spark_kafka_native._client.groups.zookeeper.group_view import threads_of
from spark_kafka_native._zookeeper.consumer_znodes import BLACK_LIST, STATIC, WHITE_LIST, Subscription, ThreadId

TOPICS = ["a", "b", "__consumer_offsets"]


def threads(*, exclude_internal: bool = True, **consumers: Subscription) -> dict[str, list[str]]:
    found, _ = threads_of(consumers, TOPICS, exclude_internal=exclude_internal)
    return {topic: sorted(map(str, each)) for topic, each in found.items()}


def test_each_stream_of_a_topic_is_a_thread() -> None:
    first = Subscription(pattern=STATIC, streams={"a": 2, "b": 1})
    second = Subscription(pattern=STATIC, streams={"a": 1})
    assert threads(c=first, d=second) == {"a": ["c-0", "c-1", "d-0"], "b": ["c-0"]}


def test_a_topic_that_does_not_exist_has_no_threads() -> None:
    assert threads(c=Subscription(pattern=STATIC, streams={"a": 1, "x": 1})) == {"a": ["c-0"]}


def test_a_name_is_read_although_the_topic_is_internal() -> None:
    named = Subscription(pattern=STATIC, streams={"__consumer_offsets": 1})
    assert threads(c=named) == {"__consumer_offsets": ["c-0"]}


@pytest.mark.parametrize(
    ("pattern", "expression", "topics"),
    [(WHITE_LIST, "a|x", {"a"}), (WHITE_LIST, ".*", {"a", "b"}), (BLACK_LIST, "a", {"b"}), (BLACK_LIST, ".*", set())],
)
def test_a_filter_has_its_streams_in_each_accepted_topic(pattern: str, expression: str, topics: set[str]) -> None:
    found = threads(c=Subscription(pattern=pattern, streams={expression: 2}))
    assert found == {topic: ["c-0", "c-1"] for topic in topics}


def test_a_filter_accepts_internal_topics_if_they_are_not_excluded() -> None:
    everything = Subscription(pattern=WHITE_LIST, streams={".*": 1})
    assert threads(c=everything, exclude_internal=False) == {topic: ["c-0"] for topic in TOPICS}


def test_a_consumer_whose_expression_cannot_be_used_is_ignored() -> None:
    broken = Subscription(pattern=WHITE_LIST, streams={"a(": 1})
    other = Subscription(pattern=STATIC, streams={"a": 1})
    found, ignored = threads_of({"c": broken, "d": other}, TOPICS, exclude_internal=True)
    assert found == {"a": [ThreadId("d", 0)]}
    assert ignored == {"c": IsStr(regex="its expression cannot be used: .+")}


ENDLESS = "([a-z_]+)+!"
"""Python's ``re`` takes years to find that a long name does not match."""


def test_the_expression_of_another_consumer_is_matched_in_linear_time() -> None:
    hostile = Subscription(pattern=WHITE_LIST, streams={ENDLESS: 1})
    other = Subscription(pattern=STATIC, streams={"a" * 249: 1})
    found, _ = threads_of({"c": hostile, "d": other}, ["a" * 249], exclude_internal=True)
    assert found == {"a" * 249: [ThreadId("d", 0)]}


def test_an_expression_that_re2_does_not_support_is_matched_only_for_consumers_that_have_the_same_one() -> None:
    looking = {"c": Subscription(pattern=WHITE_LIST, streams={"(?!b).": 1})}
    assert threads_of(looking, TOPICS, ["(?!b)."], exclude_internal=True) == ({"a": [ThreadId("c", 0)]}, {})
    reason: object = IsStr(regex=r"its expression cannot be used: RE2 does not support '\(\?!b\)\.'.*")
    found, ignored = threads_of(looking, TOPICS, exclude_internal=True)
    assert found == {}
    assert ignored["c"] == reason


def test_a_long_expression_is_used_only_for_consumers_that_have_the_same_one() -> None:
    expression = "|".join(["a"] * 30_000)
    consumer = {"c": Subscription(pattern=WHITE_LIST, streams={expression: 1})}
    assert threads_of(consumer, TOPICS, [expression], exclude_internal=True) == ({"a": [ThreadId("c", 0)]}, {})
    reason = "its expression cannot be used: it has more than 50000 characters"
    assert threads_of(consumer, TOPICS, exclude_internal=True) == ({}, {"c": reason})


def test_the_consumers_with_the_most_threads_are_ignored_if_there_are_too_many() -> None:
    topics = [f"t{number}" for number in range(200)]
    each = {"c": 10_000, "d": 1, "e": 4000, "f": 2000}
    consumers = {name: Subscription(pattern=WHITE_LIST, streams={".*": count}) for name, count in each.items()}
    found, ignored = threads_of(consumers, topics, exclude_internal=True)
    assert all(Counter(thread.consumer_id for thread in ids) == {"d": 1, "f": 2000} for ids in found.values())
    assert ignored == {
        name: f"with its {count} threads the group would have more than 1000000"
        for name, count in {"c": 2_000_000, "e": 800_000}.items()
    }
