import pytest

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from tests.support.broker.driver import BrokerDriver, batch


def widen(
    broker: BrokerDriver, *topics: CreatePartitionsTopic, version: int = 3, validate_only: bool = False
) -> list[CreatePartitionsTopicResult]:
    return list(broker.ask(CreatePartitionsRequest(topics=topics, validate_only=validate_only), version).results)


def to(count: int, name: str = "t", *brokers: int) -> CreatePartitionsTopic:
    assignments = tuple(CreatePartitionsAssignment(broker_ids=(broker,)) for broker in brokers) or None
    return CreatePartitionsTopic(name=name, count=count, assignments=assignments)


def width(broker: BrokerDriver, name: str = "t") -> int:
    return len(broker.broker.image.topics[name].partitions)


@pytest.mark.parametrize("version", range(4))
def test_more_partitions_in_every_version(broker: BrokerDriver, version: int) -> None:
    broker.create("t")
    broker.produce("t", batch(b"old"))
    assert [result.error_code for result in widen(broker, to(3), version=version)] == [0]
    broker.produce("t", batch(b"new"), 2)
    assert [broker.values("t", partition=index) for index in range(3)] == [[b"old"], [], [b"new"]]


@pytest.mark.parametrize("how", ["restart", "crash"])
def test_new_partitions_survive_a_restart_with_the_topics_settings(broker: BrokerDriver, how: str) -> None:
    broker.create("t", retention_ms="77")
    widen(broker, to(3))
    getattr(broker, how)()
    assert width(broker) == 3
    assert broker.broker.partitions.get("t", 2).log.config.retention_ms == 77


def test_replicas_by_hand(broker: BrokerDriver) -> None:
    broker.create("t")
    assert [result.error_code for result in widen(broker, to(2, "t", 1))] == [0]
    (refused,) = widen(broker, to(3, "t", 9))
    assert refused.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert width(broker) == 2


def test_checking_alone_makes_nothing(broker: BrokerDriver) -> None:
    broker.create("t")
    assert [result.error_code for result in widen(broker, to(3), validate_only=True)] == [0]
    assert width(broker) == 1


@pytest.mark.parametrize(
    ("wanted", "code", "said"),
    [
        (to(2), ErrorCode.INVALID_PARTITIONS, "already has 2"),
        (to(1), ErrorCode.INVALID_PARTITIONS, "not be an increase"),
        (to(3, "u"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "does not"),
    ],
)
def test_invalid_topics_are_refused_and_the_others_extended(
    broker: BrokerDriver, wanted: CreatePartitionsTopic, code: ErrorCode, said: str
) -> None:
    broker.create("t", partitions=2)
    broker.create("other")
    refused, done = widen(broker, wanted, to(2, "other"))
    assert (refused.error_code, done.error_code) == (code, 0)
    assert said in (refused.error_message or "")
    assert (width(broker), width(broker, "other")) == (2, 2)


def test_a_topic_named_twice_is_left_alone(broker: BrokerDriver) -> None:
    broker.create("t")
    assert [result.error_code for result in widen(broker, to(2), to(3))] == [ErrorCode.INVALID_REQUEST]
    assert width(broker) == 1
