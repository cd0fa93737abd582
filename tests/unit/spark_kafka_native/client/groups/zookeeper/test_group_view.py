"""The threads of all consumers of a group in ZooKeeper, from their registrations."""

import pytest

from spark_kafka_native._client.groups.zookeeper.group_view import threads_of
from spark_kafka_native._zookeeper.consumer_znodes import BLACK_LIST, STATIC, WHITE_LIST, Subscription

TOPICS = ["a", "b", "__consumer_offsets"]


def threads(*, exclude_internal: bool = True, **consumers: Subscription) -> dict[str, list[str]]:
    found = threads_of(consumers, TOPICS, exclude_internal=exclude_internal)
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


def test_a_consumer_whose_expression_cannot_be_used_has_no_threads(caplog: pytest.LogCaptureFixture) -> None:
    broken = Subscription(pattern=WHITE_LIST, streams={"a(": 1})
    other = Subscription(pattern=STATIC, streams={"a": 1})
    assert threads(c=broken, d=other) == {"a": ["d-0"]}
    assert "consumer c reads no topics: its expression cannot be used" in caplog.text
