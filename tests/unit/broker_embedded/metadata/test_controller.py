from typing import Any
from uuid import UUID

import pytest

from broker_embedded._metadata.controller import (
    TopicDefaults,
    check_replicas,
    find_deletions,
    plan_partitions,
    plan_topic,
)
from broker_embedded._metadata.image import ClusterImage, TopicImage
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.create_partitions import CreatePartitionsAssignment, CreatePartitionsTopic
from spark_kafka_native._protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
)
from spark_kafka_native._protocol.messages.delete_topics import DeleteTopicState
from tests.support.refusals import refused

DEFAULTS = TopicDefaults(num_partitions=4, replication_factor=1)
NEW_ID = UUID(int=99)


def image(*names: str, brokers: tuple[int, ...] = (1,)) -> ClusterImage:
    made = ClusterImage(cluster_id="c", controller_id=1, broker_ids=brokers)
    for number, name in enumerate(names, 1):
        wanted = CreatableTopic(name=name, num_partitions=2, replication_factor=1)
        made = made.with_topic(plan_topic(made, wanted, UUID(int=number), DEFAULTS))
    return made


def creatable(name: str = "new", partitions: int = -1, replicas: int = -1, **others: Any) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas, **others)


def assignments(*replicas: tuple[int, ...], first: int = 0) -> tuple[CreatableReplicaAssignment, ...]:
    return tuple(
        CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
        for index, brokers in enumerate(replicas, first)
    )


def replicas_of(topic: TopicImage) -> list[tuple[int, ...]]:
    return [partition.replicas for partition in topic.partitions]


def test_minus_one_takes_the_brokers_defaults() -> None:
    topic = plan_topic(image(), creatable(), NEW_ID, DEFAULTS)
    assert (topic.name, topic.topic_id, replicas_of(topic)) == ("new", NEW_ID, [(1,)] * 4)
    assert {(part.leader, part.leader_epoch, part.isr) for part in topic.partitions} == {(1, 0, (1,))}


def test_leaders_are_assigned_round_robin() -> None:
    topic = plan_topic(image(brokers=(1, 2, 3)), creatable(partitions=4, replicas=2), NEW_ID, DEFAULTS)
    assert replicas_of(topic) == [(1, 2), (2, 3), (3, 1), (1, 2)]


def test_replicas_may_be_assigned_by_hand() -> None:
    wanted = creatable(assignments=assignments((2, 1), (1, 2)))
    assert replicas_of(plan_topic(image(brokers=(1, 2)), wanted, NEW_ID, DEFAULTS)) == [(2, 1), (1, 2)]


def test_configs_are_kept() -> None:
    wanted = creatable(configs=(CreatableTopicConfig(name="retention.ms", value="1"),))
    assert plan_topic(image(), wanted, NEW_ID, DEFAULTS).configs == {"retention.ms": "1"}


@pytest.mark.parametrize(
    ("wanted", "code", "detail"),
    [
        (creatable(name=""), ErrorCode.INVALID_TOPIC_EXCEPTION, "empty"),
        (creatable(name="a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION, "characters"),
        (creatable(name="a.b"), ErrorCode.TOPIC_ALREADY_EXISTS, "already exists"),
        (creatable(name="a_b"), ErrorCode.INVALID_TOPIC_EXCEPTION, "collides with existing topic: a.b"),
        (creatable(name="__cluster_metadata"), ErrorCode.INVALID_REQUEST, "is prohibited"),
        (creatable(partitions=0), ErrorCode.INVALID_PARTITIONS, "non-positive"),
        (creatable(partitions=-2), ErrorCode.INVALID_PARTITIONS, "non-positive"),
        (creatable(partitions=10_001), ErrorCode.POLICY_VIOLATION, "the limit is 10000"),
        (creatable(replicas=0), ErrorCode.INVALID_REPLICATION_FACTOR, "larger than 0"),
        (creatable(replicas=2), ErrorCode.INVALID_REPLICATION_FACTOR, "only 1 broker"),
        (creatable(assignments=assignments((1,)), replicas=1), ErrorCode.INVALID_REQUEST, "replication factor"),
        (creatable(assignments=assignments((1,)), partitions=1), ErrorCode.INVALID_REQUEST, "numPartitions"),
        (creatable(assignments=assignments((7,))), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "broker 7"),
        (creatable(assignments=assignments((1, 1))), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "more than once"),
        (creatable(assignments=assignments(())), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "an empty replica list"),
        (creatable(assignments=assignments((1,), first=1)), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "consecutive"),
        (creatable(assignments=assignments((1,)) * 2), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "multiple"),
        (creatable(configs=(CreatableTopicConfig(name="k", value=None),)), ErrorCode.INVALID_CONFIG, "Null .* k"),
    ],
)
def test_topics_that_cannot_be(wanted: CreatableTopic, code: ErrorCode, detail: str) -> None:
    with pytest.raises(KafkaError, match=detail) as caught:
        plan_topic(image("a.b"), wanted, NEW_ID, DEFAULTS)
    assert caught.value.code is code


def test_assigned_replicas_have_one_number() -> None:
    wanted = creatable(assignments=assignments((1, 2), (1,)))
    with pytest.raises(KafkaError, match=r"not consistent with previous.*\(INVALID_REPLICA_ASSIGNMENT, "):
        plan_topic(image(brokers=(1, 2)), wanted, NEW_ID, DEFAULTS)


def test_new_partitions_have_the_next_indexes() -> None:
    before = image("a", brokers=(1, 2))
    after = plan_partitions(before, CreatePartitionsTopic(name="a", count=5, assignments=None))
    assert replicas_of(after) == [(1,), (2,), (1,), (2,), (1,)]
    assert after.topic_id == UUID(int=1)
    by_hand = (CreatePartitionsAssignment(broker_ids=(2,)),)
    after = plan_partitions(before, CreatePartitionsTopic(name="a", count=3, assignments=by_hand))
    assert replicas_of(after) == [(1,), (2,), (2,)]


@pytest.mark.parametrize(
    ("wanted", "code", "detail"),
    [
        (CreatePartitionsTopic(name="b", count=3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "does not"),
        (CreatePartitionsTopic(name="a", count=2), ErrorCode.INVALID_PARTITIONS, "already has 2"),
        (CreatePartitionsTopic(name="a", count=1), ErrorCode.INVALID_PARTITIONS, "would not be an increase"),
        (CreatePartitionsTopic(name="a", count=3), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "only 0 assignment"),
        (
            CreatePartitionsTopic(name="a", count=3, assignments=(CreatePartitionsAssignment(broker_ids=(9,)),)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "broker 9",
        ),
        (CreatePartitionsTopic(name="a", count=99_999, assignments=None), ErrorCode.POLICY_VIOLATION, "too many"),
    ],
)
def test_partitions_that_cannot_be_added(wanted: CreatePartitionsTopic, code: ErrorCode, detail: str) -> None:
    with pytest.raises(KafkaError, match=detail) as caught:
        plan_partitions(image("a"), wanted)
    assert caught.value.code is code


@pytest.mark.parametrize("brokers", [(1,), (2, 1), (1, 2, 3)])
def test_brokers_that_can_hold_a_partition(brokers: tuple[int, ...]) -> None:
    check_replicas(image(brokers=(1, 2, 3)), brokers)


@pytest.mark.parametrize("brokers", [(), (9,), (1, 9), (1, 1)])
def test_brokers_that_cannot(brokers: tuple[int, ...]) -> None:
    assert (
        refused(lambda: check_replicas(image(brokers=(1, 2, 3)), brokers)).code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    )


def test_deletions_by_name_and_by_id() -> None:
    two = image("a", "b")
    wanted = [DeleteTopicState(name="a"), DeleteTopicState(topic_id=UUID(int=2))]
    assert find_deletions(two, wanted) == [(wanted[0], two.topic("a")), (wanted[1], two.topic("b"))]


@pytest.mark.parametrize(
    ("wanted", "codes"),
    [
        ([DeleteTopicState()], [ErrorCode.INVALID_REQUEST]),
        ([DeleteTopicState(name="a", topic_id=UUID(int=1))], [ErrorCode.INVALID_REQUEST]),
        ([DeleteTopicState(name="x")], [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
        ([DeleteTopicState(topic_id=UUID(int=5))], [ErrorCode.UNKNOWN_TOPIC_ID]),
        ([DeleteTopicState(name="a"), DeleteTopicState(name="a")], [ErrorCode.INVALID_REQUEST]),
        ([DeleteTopicState(name="a"), DeleteTopicState(topic_id=UUID(int=1))], [ErrorCode.INVALID_REQUEST] * 2),
    ],
)
def test_deletions_that_cannot_be(wanted: list[DeleteTopicState], codes: list[ErrorCode]) -> None:
    found = [meant for _, meant in find_deletions(image("a"), wanted)]
    assert [meant.code for meant in found if isinstance(meant, KafkaError)] == codes
