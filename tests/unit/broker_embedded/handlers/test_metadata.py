from uuid import UUID

import pytest

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from tests.support.broker.driver import NODE, BrokerDriver

VERSIONS = range(14)


def topics(*names: str) -> tuple[MetadataRequestTopic, ...]:
    return tuple(MetadataRequestTopic(name=name) for name in names)


def about(broker: BrokerDriver, name: str, version: int = 12, *, create: bool = False) -> MetadataResponseTopic:
    request = MetadataRequest(topics=topics(name), allow_auto_topic_creation=create)
    (topic,) = broker.ask(request, version).topics
    return topic


def names(response: MetadataResponse) -> list[str | None]:
    return [topic.name for topic in response.topics]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_in_every_version(broker: BrokerDriver, version: int) -> None:
    broker.create("t", partitions=3)
    response = broker.ask(MetadataRequest(topics=topics("t")), version)
    (node,) = response.brokers
    assert (node.node_id, node.host, node.port) == (NODE.node_id, NODE.host, NODE.port)
    (topic,) = response.topics
    assert (topic.error_code, topic.name) == (0, "t")
    assert [part.partition_index for part in topic.partitions] == [0, 1, 2]
    assert {(part.error_code, part.leader_id, part.replica_nodes, part.isr_nodes) for part in topic.partitions} == {
        (0, 1, (1,), (1,))
    }
    if version >= 1:
        assert response.controller_id == 1
    if version >= 2:
        assert response.cluster_id == broker.broker.image.cluster_id
    if version >= 7:
        assert {part.leader_epoch for part in topic.partitions} == {0}
    if version >= 10:
        assert topic.topic_id == broker.topic_id("t")


def test_all_topics_and_no_topics(broker: BrokerDriver) -> None:
    broker.create("a")
    broker.create("b")
    assert names(broker.ask(MetadataRequest(topics=()), 0)) == ["a", "b"]
    assert names(broker.ask(MetadataRequest(topics=()), 1)) == []
    for version in VERSIONS[1:]:
        assert names(broker.ask(MetadataRequest(topics=None), version)) == ["a", "b"]


def test_a_topic_that_is_requested_twice_is_answered_once(broker: BrokerDriver) -> None:
    broker.create("a")
    assert names(broker.ask(MetadataRequest(topics=topics("a", "a")), 12)) == ["a"]


@pytest.mark.parametrize("version", VERSIONS[4:])
def test_a_missing_topic_is_made_if_the_client_lets_it(broker: BrokerDriver, version: int) -> None:
    missing = about(broker, "new", version)
    assert (missing.error_code, missing.partitions) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ())
    made = about(broker, "new", version, create=True)
    assert (made.error_code, len(made.partitions)) == (0, 1)
    assert about(broker, "new", version).error_code == 0


def test_old_versions_always_let_it(broker: BrokerDriver) -> None:
    assert broker.ask(MetadataRequest(topics=topics("new")), 3).topics[0].error_code == 0


def test_concurrent_requests_get_the_same_auto_created_topic(broker: BrokerDriver) -> None:
    request = MetadataRequest(topics=topics("new"))
    tasks = [broker.begin(request, 12) for _ in range(5)]
    ids = {response.topics[0].topic_id for task in tasks if (response := broker.run(task))}
    assert len(ids) == 1
    assert UUID(int=0) not in ids


def test_the_broker_may_forbid_it(broker: BrokerDriver) -> None:
    broker.restart({"auto.create.topics.enable": False})
    assert about(broker, "new", create=True).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_new_topics_take_the_brokers_defaults(broker: BrokerDriver) -> None:
    broker.restart({"num.partitions": 4})
    assert len(about(broker, "new", create=True).partitions) == 4


@pytest.mark.parametrize("name", ["", "a/b", ".", "x" * 250, "a b"])
@pytest.mark.parametrize("create", [False, True])
def test_metadata_refuses_invalid_topic_names(broker: BrokerDriver, name: str, create: bool) -> None:
    assert about(broker, name, create=create).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert broker.broker.image.topics == {}


def test_a_name_that_collides_is_not_made(broker: BrokerDriver) -> None:
    broker.create("a.b")
    assert about(broker, "a_b", create=True).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_the_brokers_own_topics(broker: BrokerDriver) -> None:
    made = about(broker, "__consumer_offsets", create=True)
    assert (made.error_code, made.is_internal, len(made.partitions)) == (0, True, 3)
    made = about(broker, "__transaction_state", create=True)
    assert (made.error_code, made.is_internal, len(made.partitions)) == (0, True, 3)
    other = about(broker, "__share_group_state", create=True)
    assert (other.error_code, other.is_internal) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True)


@pytest.mark.parametrize("version", [12, 13])
def test_topics_by_id(broker: BrokerDriver, version: int) -> None:
    broker.create("a")
    topic_id = broker.topic_id("a")
    wanted = tuple(MetadataRequestTopic(topic_id=wanted, name=None) for wanted in (topic_id, UUID(int=5)))
    found, unknown = broker.ask(MetadataRequest(topics=wanted), version).topics
    assert (found.name, found.topic_id, found.error_code) == ("a", topic_id, 0)
    assert (unknown.name, unknown.topic_id, unknown.error_code) == (None, UUID(int=5), ErrorCode.UNKNOWN_TOPIC_ID)


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize(
    "wanted", [MetadataRequestTopic(name=None), MetadataRequestTopic(name="a", topic_id=UUID(int=1))]
)
def test_topic_ids_are_refused_in_v10_and_v11(broker: BrokerDriver, version: int, wanted: MetadataRequestTopic) -> None:
    broker.create("a")
    response = broker.ask(MetadataRequest(topics=(wanted, *topics("a"))), version)
    assert [topic.error_code for topic in response.topics] == [ErrorCode.INVALID_REQUEST] * 2
    assert response.brokers == ()


@pytest.mark.parametrize("version", VERSIONS[8:])
def test_operations_without_an_authorizer_are_all(broker: BrokerDriver, version: int) -> None:
    broker.create("a")
    request = MetadataRequest(topics=topics("a"), include_topic_authorized_operations=True)
    response = broker.ask(request, version)
    assert response.topics[0].topic_authorized_operations == 0b1101_1111_1000
    assert response.cluster_authorized_operations == -(2**31)
    if version <= 10:
        request = MetadataRequest(topics=None, include_cluster_authorized_operations=True)
        response = broker.ask(request, version)
        assert response.cluster_authorized_operations == 0b1_1111_1010_0000
        assert response.topics[0].topic_authorized_operations == -(2**31)
