import json

import pytest

from spark_kafka_native._net.address import HostPort
from spark_kafka_native._zookeeper.broker_znode import RegisteredBroker, RegisteredEndpoint
from spark_kafka_native._zookeeper.errors import ZooKeeperError
from spark_kafka_native._zookeeper.registry import (
    BrokerAdded,
    BrokerLost,
    Registration,
    Registry,
    Scope,
    TopicAdded,
    TopicChanged,
    TopicDeleted,
    TopicZnode,
    addresses_of,
    changes_between,
)


def broker(number: int, port: int = 9092, *protocols: str) -> RegisteredBroker:
    return RegisteredBroker(
        broker_id=number,
        endpoints=tuple(
            RegisteredEndpoint(listener=name, protocol=name, address=HostPort(f"b{number}", port + index))
            for index, name in enumerate(protocols or ("PLAINTEXT",))
        ),
    )


def brokers(*registered: RegisteredBroker, epoch: int = 1) -> Registry:
    return Registry(brokers={each.broker_id: Registration(epoch=epoch, broker=each) for each in registered})


def znode(partitions: object, created: int = 1) -> TopicZnode:
    return TopicZnode(created=created, data=json.dumps({"version": 1, "partitions": partitions}).encode())


def topics(**watched: TopicZnode) -> Registry:
    return Registry(topics=frozenset(watched), watched=watched)


def test_equal_readings_have_no_changes() -> None:
    reading = Registry(brokers=brokers(broker(1)).brokers, topics=frozenset({"t"}), watched={"t": znode({"0": [1]})})
    assert changes_between(reading, reading) == []


def test_a_lost_broker_comes_before_a_new_one() -> None:
    assert changes_between(brokers(broker(2)), brokers(broker(1))) == [
        BrokerLost(broker=broker(2)),
        BrokerAdded(broker=broker(1)),
    ]


def test_a_broker_with_another_address_is_lost_and_added() -> None:
    assert changes_between(brokers(broker(1)), brokers(broker(1, 9999))) == [
        BrokerLost(broker=broker(1)),
        BrokerAdded(broker=broker(1, 9999)),
    ]


def test_a_broker_that_registered_again_at_its_address_is_lost_and_added() -> None:
    assert changes_between(brokers(broker(1)), brokers(broker(1), epoch=2)) == [
        BrokerLost(broker=broker(1)),
        BrokerAdded(broker=broker(1)),
    ]


def test_topics_are_added_and_deleted_by_name() -> None:
    before, after = Registry(topics=frozenset("ab")), Registry(topics=frozenset("bc"))
    assert changes_between(before, after) == [TopicDeleted(topic="a"), TopicAdded(topic="c")]


def test_the_first_reading_of_a_watched_topic_has_its_assignment() -> None:
    before, after = Registry(topics=frozenset("t")), topics(t=znode({"0": [1, 2]}))
    assert changes_between(before, after) == [TopicChanged(topic="t", assignment={0: (1, 2)})]


@pytest.mark.parametrize("partitions", [{"0": [1], "1": [1]}, {"0": [1, 2]}])
def test_new_partitions_and_replicas_are_changes(partitions: dict[str, list[int]]) -> None:
    expected = {int(index): tuple(replicas) for index, replicas in partitions.items()}
    changes = changes_between(topics(t=znode({"0": [1]})), topics(t=znode(partitions)))
    assert changes == [TopicChanged(topic="t", assignment=expected)]


def test_a_recreated_topic_is_deleted_and_added() -> None:
    changes = changes_between(topics(t=znode({"0": [1]})), topics(t=znode({"0": [1]}, created=2)))
    assert changes == [
        TopicDeleted(topic="t"),
        TopicAdded(topic="t"),
        TopicChanged(topic="t", assignment={0: (1,)}),
    ]


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{}", b"\xff", b'{"partitions":3}', b'{"partitions":{"a":[1]}}', b'{"partitions":{"0":3}}']
)
def test_an_invalid_znode_of_a_topic_has_no_assignment(data: bytes) -> None:
    assert TopicZnode(created=1, data=data).assignment == {}


def test_the_addresses_are_those_with_the_security_protocol() -> None:
    registered = [broker(2, 9092, "PLAINTEXT", "SSL"), broker(1, 9092, "SSL"), broker(3)]
    assert addresses_of(registered, "SSL", "zk:2181") == (HostPort("b1", 9092), HostPort("b2", 9093))
    assert addresses_of(registered, "PLAINTEXT", "zk:2181") == (HostPort("b2", 9092), HostPort("b3", 9092))


def test_a_missing_protocol_is_an_error_that_names_the_others() -> None:
    with pytest.raises(ZooKeeperError) as caught:
        addresses_of([broker(1, 9092, "SSL"), broker(2)], "SASL_SSL", "zk:2181/kafka")
    assert str(caught.value) == (
        "ZooKeeper zk:2181/kafka: no broker below /brokers/ids has an endpoint for security.protocol=SASL_SSL; "
        "the protocols of their endpoints are: PLAINTEXT, SSL"
    )


def test_no_broker_is_an_error_that_names_the_znode() -> None:
    with pytest.raises(ZooKeeperError, match="ZooKeeper zk:2181: no broker is registered below /brokers/ids; start"):
        addresses_of([], "PLAINTEXT", "zk:2181")


@pytest.mark.parametrize(
    ("path", "scope"),
    [
        ("", Scope(brokers=True, topics=True, every_topic=True)),
        ("/brokers/ids", Scope(brokers=True)),
        ("/brokers/ids/1", Scope(brokers=True)),
        ("/brokers/topics", Scope(topics=True)),
        ("/brokers/topics/t", Scope(names=frozenset({"t"}))),
    ],
)
def test_an_event_says_what_must_be_read(path: str, scope: Scope) -> None:
    assert Scope().with_path(path) == scope
    assert scope.with_path(path) == scope
