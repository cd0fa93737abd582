from typing import Any
from uuid import UUID

import pytest

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from tests.support.broker.configs import TOPIC, configs_of
from tests.support.broker.driver import BrokerDriver


def wanted(name: str = "t", partitions: int = -1, replicas: int = -1, **others: Any) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas, **others)


def configs(**pairs: str) -> tuple[CreatableTopicConfig, ...]:
    return tuple(CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in pairs.items())


def create(
    broker: BrokerDriver, *topics: CreatableTopic, version: int = 7, validate_only: bool = False
) -> list[CreatableTopicResult]:
    request = CreateTopicsRequest(topics=topics, validate_only=validate_only)
    return list(broker.ask(request, version).topics)


def partitions_of(broker: BrokerDriver, name: str) -> int | None:
    topic = broker.broker.image.topic(name)
    return None if topic is None else len(topic.partitions)


@pytest.mark.parametrize("version", range(8))
def test_a_topic_in_every_version(broker: BrokerDriver, version: int) -> None:
    broker.passing_for("3.9")
    (result,) = create(broker, wanted(partitions=3, replicas=1), version=version)
    assert (result.name, result.error_code) == ("t", 0)
    if version >= 1:
        assert result.error_message is None
    assert partitions_of(broker, "t") == 3
    if version >= 5:
        assert (result.num_partitions, result.replication_factor) == (3, 1)
    if version >= 7:
        assert result.topic_id == broker.topic_id("t") != UUID(int=0)


@pytest.mark.parametrize("how", ["restart", "crash"])
def test_a_created_topic_survives_a_restart(broker: BrokerDriver, how: str) -> None:
    (result,) = create(broker, wanted(partitions=3, configs=configs(retention_ms="77")))
    getattr(broker, how)()
    topic = broker.broker.image.topics["t"]
    assert (topic.topic_id, len(topic.partitions), topic.configs) == (result.topic_id, 3, {"retention.ms": "77"})
    assert broker.broker.partitions.get("t", 2).log.config.retention_ms == 77


def test_minus_one_is_the_brokers_default(broker: BrokerDriver) -> None:
    broker.restart({"num.partitions": 5})
    create(broker, wanted(), version=4)
    assert partitions_of(broker, "t") == 5


def test_releases_before_2_4_want_numbers(broker: BrokerDriver) -> None:
    broker.passing_for("2.3")
    codes = [result.error_code for result in create(broker, wanted(replicas=1), wanted("u", partitions=1), version=3)]
    assert codes == [ErrorCode.INVALID_PARTITIONS, ErrorCode.INVALID_REPLICATION_FACTOR]
    assignments = (CreatableReplicaAssignment(partition_index=0, broker_ids=(1,)),)
    assert [result.error_code for result in create(broker, wanted(assignments=assignments), version=3)] == [0]


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("message.downconversion.enable", "true", "no such setting"),
        ("remote.storage.enable", "true", "because this broker has no tiered storage"),
    ],
)
def test_settings_that_kafka_4_removed_or_that_need_more_than_there_is(
    broker: BrokerDriver, key: str, value: str, said: str
) -> None:
    (result,) = create(broker, wanted(configs=(CreatableTopicConfig(name=key, value=value),)))
    assert result.error_code == ErrorCode.INVALID_CONFIG
    assert key in (result.error_message or "")
    assert said in (result.error_message or "")


def test_all_settings_of_a_topic_of_kafka_can_be_those_of_a_new_one(broker: BrokerDriver) -> None:
    broker.create("t")
    copied = tuple(
        CreatableTopicConfig(name=key, value=config.value) for key, config in configs_of(broker, TOPIC, "t").items()
    )
    assert len(copied) > 30
    (result,) = create(broker, wanted("u", configs=copied))
    assert (result.error_code, result.error_message) == (0, None)


def test_replicas_by_hand(broker: BrokerDriver) -> None:
    assignments = tuple(CreatableReplicaAssignment(partition_index=index, broker_ids=(1,)) for index in (1, 0))
    (result,) = create(broker, wanted(assignments=assignments))
    assert (result.error_code, result.num_partitions) == (0, 2)


def test_the_settings_come_back_with_where_they_are_from(broker: BrokerDriver) -> None:
    broker.restart({"log.segment.bytes": "2000000"})
    (result,) = create(broker, wanted(configs=configs(retention_ms="5")), version=5)
    assert result.configs is not None
    found = {config.name: (config.value, config.config_source) for config in result.configs}
    assert found["retention.ms"] == ("5", 1)
    assert found["segment.bytes"] == ("2000000", 4)
    assert found["retention.bytes"] == ("-1", 5)
    assert list(found) == sorted(found)


def test_checking_alone_makes_nothing(broker: BrokerDriver) -> None:
    (good, bad) = create(broker, wanted("good"), wanted("bad", partitions=0), validate_only=True)
    assert (good.error_code, good.num_partitions) == (0, 1)
    assert bad.error_code == ErrorCode.INVALID_PARTITIONS
    assert broker.broker.image.topics == {}
    assert [path.name for path in broker.data_dir.iterdir() if path.is_dir()] == []


@pytest.mark.parametrize(
    ("topic", "code", "said"),
    [
        (wanted("a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION, "characters"),
        (wanted(replicas=3), ErrorCode.INVALID_REPLICATION_FACTOR, "only 1 broker"),
        (wanted(partitions=0), ErrorCode.INVALID_PARTITIONS, "non-positive"),
        (wanted(configs=configs(retention_msec="1")), ErrorCode.INVALID_CONFIG, "did you mean retention.ms"),
        (wanted(configs=configs(retention_ms="soon")), ErrorCode.INVALID_CONFIG, "not a whole number"),
        (wanted(configs=configs(cleanup_policy="burn")), ErrorCode.INVALID_CONFIG, "not one of compact, delete"),
        (wanted("__cluster_metadata"), ErrorCode.INVALID_REQUEST, "prohibited"),
        (wanted("the.re"), ErrorCode.INVALID_TOPIC_EXCEPTION, "collides with existing topic: the_re"),
        (wanted("there"), ErrorCode.TOPIC_ALREADY_EXISTS, "already exists"),
    ],
)
def test_invalid_topics_are_refused_and_the_others_created(
    broker: BrokerDriver, topic: CreatableTopic, code: ErrorCode, said: str
) -> None:
    broker.create("there")
    broker.create("the_re")
    refused, made = create(broker, topic, wanted("good"))
    assert refused.error_code == code
    assert said in (refused.error_message or "")
    assert made.error_code == 0
    assert set(broker.broker.image.topics) == {"there", "the_re", "good"}


def test_a_topic_named_twice_is_made_not_at_all(broker: BrokerDriver) -> None:
    results = create(broker, wanted("twice"), wanted("once"), wanted("twice"))
    assert [result.error_code for result in results] == [ErrorCode.INVALID_REQUEST, 0]
    assert set(broker.broker.image.topics) == {"once"}


def test_concurrent_requests_create_the_topic_once(broker: BrokerDriver) -> None:
    tasks = [broker.begin(CreateTopicsRequest(topics=(wanted(),)), 7) for _ in range(2)]
    codes = {response.topics[0].error_code for task in tasks if (response := broker.run(task))}
    assert codes == {0, ErrorCode.TOPIC_ALREADY_EXISTS}
