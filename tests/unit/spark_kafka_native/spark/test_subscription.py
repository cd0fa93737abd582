import pytest

from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.subscription import (
    Assign,
    SelectedPartitions,
    Subscribe,
    SubscribePattern,
    Subscription,
    describe,
    internal_topics,
    select,
    topics_to_look_up,
)
from tests.support.features.feature import showing

CLUSTER = {"a": (0, 1), "b": (0,), "metrics-a": (0,), "__consumer_offsets": (0, 1)}


def tps(*names: str) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(name.rpartition("-")[0], int(name.rpartition("-")[2])) for name in names)


def selected(*names: str, topics: tuple[str, ...] = (), partitions: tuple[str, ...] = ()) -> SelectedPartitions:
    return SelectedPartitions(partitions=tps(*names), missing_topics=topics, missing_partitions=tps(*partitions))


@pytest.mark.parametrize(
    ("subscription", "expected"),
    [
        showing(Subscribe(topics=("b", "a")), selected("a-0", "a-1", "b-0"), shows="source.subscribe"),
        showing(Subscribe(topics=("a", "z", "c")), selected("a-0", "a-1", topics=("c", "z")), shows="source.subscribe"),
        showing(Assign(partitions=tps("a-1", "b-0")), selected("a-1", "b-0"), shows="source.assign"),
        # Partitions that an existing topic does not have are left out, as the JVM connector does.
        showing(Assign(partitions=tps("b-1")), selected(partitions=("b-1",)), shows="source.assign"),
        showing(Assign(partitions=tps("z-0", "a-0")), selected("a-0", topics=("z",)), shows="source.assign"),
        showing(SubscribePattern(pattern="^(a|b)$"), selected("a-0", "a-1", "b-0"), shows="source.subscribePattern"),
        # Found anywhere in the name, as the JVM connector does.
        showing(SubscribePattern(pattern="a"), selected("a-0", "a-1", "metrics-a-0"), shows="source.subscribePattern"),
        showing(SubscribePattern(pattern="nothing"), selected(), shows="source.subscribePattern"),
        # One of Java's expressions.
        showing(
            SubscribePattern(pattern=r"^\p{Alpha}++$"), selected("a-0", "a-1", "b-0"), shows="source.subscribePattern"
        ),
        # Internal topics are not read.
        showing(SubscribePattern(pattern="__"), selected(), shows="source.subscribePattern"),
        showing(
            Subscribe(topics=("b", "__consumer_offsets", "__transaction_state")),
            selected("b-0"),
            shows="source.subscribe",
        ),
        showing(
            Assign(partitions=tps("__consumer_offsets-0", "b-0", "__transaction_state-0")),
            selected("b-0"),
            shows="source.assign",
        ),
    ],
)
def test_subscriptions_select_partitions(subscription: Subscription, expected: SelectedPartitions) -> None:
    assert select(subscription, CLUSTER) == expected


def test_only_a_pattern_looks_up_all_topics() -> None:
    assert topics_to_look_up(SubscribePattern(pattern="a")) is None
    assert topics_to_look_up(Subscribe(topics=("a", "b"))) == ("a", "b")
    assert topics_to_look_up(Assign(partitions=tps("b-0", "a-1", "a-0"))) == ("a", "b")


def test_descriptions_name_the_option() -> None:
    assert describe(Subscribe(topics=("a", "b"))) == "subscribe=a,b"
    assert describe(SubscribePattern(pattern="a.*")) == "subscribePattern=a.*"
    assert describe(Assign(partitions=tps("a-1", "b-0", "a-0"))) == 'assign={"a":[1,0],"b":[0]}'


def test_internal_topics_named_by_an_option() -> None:
    assert internal_topics(Subscribe(topics=("a", "__consumer_offsets"))) == ("__consumer_offsets",)
    assert internal_topics(Assign(partitions=tps("a-0", "__transaction_state-1"))) == ("__transaction_state",)
    assert internal_topics(SubscribePattern(pattern="__consumer_offsets")) == ()
