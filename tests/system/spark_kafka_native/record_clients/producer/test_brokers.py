"""The producer of single records finds brokers in ZooKeeper, or reaches all of them at one address."""

from pathlib import Path

import pytest

from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native._client.admin.topics import create_partitions
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native.clients import ClusterMetadata, KafkaError, Producer
from tests.support.clients.native import config_of
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.partitions import FakePartition
from tests.support.scripts import free_port
from tests.support.waiting import eventually
from tests.system.spark_kafka_native.record_clients.producer.conftest import OpenProducer


def broker_of(connect: str, directory: Path, **topics: int) -> EmbeddedBroker:
    settings = {"zookeeper.connect": connect, "zookeeper.session.timeout.ms": 1500}
    return EmbeddedBroker(directory, topics=topics, settings=settings)


def test_a_broker_in_zookeeper_that_moves_is_followed(zookeeper_connect: str, tmp_path: Path) -> None:
    options = {"zk.connect": zookeeper_connect, "retry.backoff.max.ms": 10, "retry.backoff.ms": 1, "linger.ms": 0}
    with Producer({**options, "metadata.max.age.ms": 2**60}) as producer:
        with broker_of(zookeeper_connect, tmp_path / "data", events=1) as broker:
            first = broker.bootstrap_servers
            assert producer.send("events", b"a").result(60).offset == 0
        future = producer.send("events", b"b")
        with broker_of(zookeeper_connect, tmp_path / "data") as moved:
            assert moved.bootstrap_servers != first
            assert future.result(60).offset == 1


def test_partitions_that_are_added_in_zookeeper_are_used(zookeeper_connect: str, tmp_path: Path) -> None:
    options = {"zookeeper.connect": zookeeper_connect, "metadata.max.age.ms": 2**60, "retry.backoff.max.ms": 10}
    with (
        broker_of(zookeeper_connect, tmp_path, events=1) as broker,
        Producer({**options, "partitioner.class": "round_robin", "linger.ms": 0}) as producer,
        Cluster(config_of(broker.bootstrap_servers)) as other,
    ):
        producer.send("events", b"a").result(60)
        assert producer.partitions_for("events") == [0]
        create_partitions(other, {"events": 3})
        eventually(lambda: producer.send("events", b"b").result(60).partition, 2)


def test_a_wrong_address_of_zookeeper_is_an_error_of_send() -> None:
    options = {"zookeeper.connect": f"127.0.0.1:{free_port()}", "zookeeper.connection.timeout.ms": 200}
    with (
        Producer({**options, "max.block.ms": 300}) as producer,
        pytest.raises(KafkaError, match=r"zookeeper\.connect.*no ZooKeeper server has opened a session within 200 ms"),
    ):
        producer.send("events", b"a")


def test_brokers_are_reached_at_one_address(brokers: ScriptedCluster, open_producer: OpenProducer) -> None:
    only = f"127.0.0.1:{brokers.brokers[1].port}"
    producer = open_producer(bootstrap_servers=only, broker_addresses="bootstrap")
    assert producer.send("u", b"a").result(60).offset == 0
    assert {broker for broker, _, _ in brokers.received} == {1}


def test_metadata_listeners_are_called_when_metadata_changes(
    brokers: ScriptedCluster, open_producer: OpenProducer, caplog: pytest.LogCaptureFixture
) -> None:
    found: list[ClusterMetadata] = []

    def fail(_: ClusterMetadata) -> None:
        raise RuntimeError("of the user")

    producer = open_producer(metadata_max_age_ms=0, linger_ms=0)
    producer.add_metadata_listener(fail)
    producer.add_metadata_listener(found.append)
    producer.send("u", b"a").result(60)
    assert set(found[-1].brokers) == {1, 2}
    assert list(found[-1].topics["u"].partitions) == [0]
    before = len(found)
    producer.send("u", b"b").result(60)
    assert len(found) == before, "nothing has changed"
    with brokers.state.lock:
        brokers.state.topics["u"].partitions[1] = FakePartition(leader=2)
    producer.send("u", b"c").result(60)
    assert list(found[-1].topics["u"].partitions) == [0, 1]
    assert "a metadata listener failed" in caplog.text
