import pytest

from spark_kafka_native._client.cluster.discovered import EXPECTED_FOR_S, Effect, ExpectedTopics, effect_of
from spark_kafka_native._client.cluster.metadata import ClusterMetadata, Node, PartitionMetadata, TopicMetadata
from spark_kafka_native._zookeeper.broker_znode import RegisteredBroker
from spark_kafka_native._zookeeper.registry import (
    BrokerAdded,
    BrokerLost,
    Change,
    TopicAdded,
    TopicChanged,
    TopicDeleted,
)


def topic(name: str, *replicas: tuple[int, ...], leader: int | None = None) -> TopicMetadata:
    partitions = {
        number: PartitionMetadata(number, brokers[0] if leader is None else leader, replicas=brokers)
        for number, brokers in enumerate(replicas)
    }
    return TopicMetadata(name=name, partitions=partitions)


def broker(number: int) -> RegisteredBroker:
    return RegisteredBroker(broker_id=number, endpoints=())


BROKERS = {1: Node(1, "b1", 9092), 2: Node(2, "b2", 9092)}
TOPICS = {"one": topic("one", (1, 2)), "two": topic("two", (2, 1)), "late": topic("late", (3,), leader=-1)}
METADATA = ClusterMetadata(brokers=BROKERS, topics=TOPICS)


def test_a_lost_broker_is_forgotten_with_the_leaders_of_its_topics() -> None:
    metadata, stale, lost = effect_of(BrokerLost(broker=broker(1)), METADATA)
    assert metadata == ClusterMetadata(brokers={2: BROKERS[2]}, topics=TOPICS)
    assert stale == {"one"}
    assert lost == broker(1)


@pytest.mark.parametrize(("number", "stale"), [(1, {"one", "two", "late"}), (3, {"late"}), (4, {"late"})])
def test_a_new_broker_may_lead_its_replicas_and_partitions_without_a_leader(number: int, stale: set[str]) -> None:
    assert effect_of(BrokerAdded(broker=broker(number)), METADATA) == Effect(METADATA, frozenset(stale))


@pytest.mark.parametrize(
    ("change", "stale"),
    [
        (TopicAdded(topic="new"), {"new"}),
        (TopicChanged(topic="one", assignment={0: (2, 1)}), set()),
        (TopicChanged(topic="one", assignment={0: (1, 2), 1: (1, 2)}), {"one"}),
        (TopicChanged(topic="one", assignment={0: (1, 2, 3)}), {"one"}),
        (TopicChanged(topic="one", assignment={}), {"one"}),
        (TopicChanged(topic="unknown", assignment={0: (1,)}), {"unknown"}),
    ],
)
def test_a_topic_is_stale_if_zookeeper_has_other_replicas(change: Change, stale: set[str]) -> None:
    assert effect_of(change, METADATA) == Effect(METADATA, frozenset(stale))


def test_a_deleted_topic_is_forgotten() -> None:
    metadata, stale, lost = effect_of(TopicDeleted(topic="one"), METADATA)
    assert set(metadata.topics) == {"two", "late"}
    assert stale == {"one"}
    assert lost is None


def test_new_partitions_are_awaited_until_a_broker_has_them() -> None:
    expected = ExpectedTopics()
    expected.note(TopicChanged(topic="t", assignment={0: (1,), 1: (1,)}), 100.0)
    assert expected.is_awaited(topic("t", (1,)), 101.0)
    assert not expected.is_awaited(topic("t", (1,), (1,)), 102.0)
    assert not expected.is_awaited(topic("t", (1,)), 103.0), "the brokers had it once"


def test_new_partitions_that_no_broker_makes_are_awaited_for_a_limited_time() -> None:
    expected = ExpectedTopics()
    expected.note(TopicChanged(topic="t", assignment={0: (1,), 1: (1,)}), 100.0)
    assert expected.is_awaited(topic("t", (1,)), 100.0 + EXPECTED_FOR_S - 1)
    assert not expected.is_awaited(topic("t", (1,)), 100.0 + EXPECTED_FOR_S)


@pytest.mark.parametrize("change", [TopicDeleted(topic="t"), TopicAdded(topic="t")])
def test_other_topics_are_not_awaited(change: Change) -> None:
    expected = ExpectedTopics()
    expected.note(change, 100.0)
    assert not expected.is_awaited(topic("t", (1,)), 100.0)


def test_a_topic_whose_znode_is_invalid_is_not_awaited() -> None:
    expected = ExpectedTopics()
    expected.note(TopicChanged(topic="t", assignment={}), 100.0)
    assert not expected.is_awaited(topic("t", (1,)), 100.0)
