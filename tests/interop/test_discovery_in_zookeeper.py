"""A client finds the brokers of Apache Kafka in ZooKeeper: of each release, and as brokers come and go."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from spark_kafka_native._client.admin.topics import NewTopic, create_partitions, create_topics
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.consumer.offsets import LATEST, offsets_at
from spark_kafka_native._client.discovery_config import DiscoveryConfig
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._zookeeper.connect_string import ConnectString
from spark_kafka_native._zookeeper.discovery import BrokerDiscovery
from tests.support.report import skip_if
from tests.support.servers.apache_kafka import LAST_KAFKA_WITH_ZOOKEEPER, apache_kafka_unavailable
from tests.support.servers.kafka_on_zookeeper import RELEASES, KafkaOnZooKeeper
from tests.support.waiting import eventually

pytestmark = pytest.mark.interop

SHORT_SESSION = {"zookeeper.session.timeout.ms": "6000"}
BOTH = {"offsets.topic.replication.factor": "2", "default.replication.factor": "2", **SHORT_SESSION}


@contextmanager
def client_of(connect: str) -> Iterator[Cluster]:
    """A client whose metadata never ages."""
    config, client = DiscoveryConfig.parse({"zookeeper.connect": connect, "metadata.max.age.ms": 2**60})
    discovery = config.discovery()
    assert discovery is not None
    try:
        with Cluster(client, discovery=discovery) as cluster:
            yield cluster
    finally:
        discovery.close()


@pytest.mark.parametrize("release", RELEASES)
def test_brokers_of_each_release_are_found(release: str, zookeeper_connect: str) -> None:
    skip_if(apache_kafka_unavailable(release))
    with (
        KafkaOnZooKeeper(connect=zookeeper_connect, release=release) as kafka,
        BrokerDiscovery(ConnectString.parse(zookeeper_connect), session_timeout_ms=30_000) as discovery,
    ):
        assert [str(address) for address in discovery.addresses("PLAINTEXT")] == [kafka.bootstrap_servers]


def test_brokers_come_and_go(zookeeper_connect: str) -> None:
    skip_if(apache_kafka_unavailable(LAST_KAFKA_WITH_ZOOKEEPER))
    with (
        KafkaOnZooKeeper(connect=zookeeper_connect, node_id=1, settings=BOTH) as first,
        client_of(zookeeper_connect) as cluster,
    ):
        create_topics(cluster, [NewTopic(name="t", partitions=1, replication_factor=1)])
        assert offsets_at(cluster, {TopicPartition("t", 0): LATEST}) == {TopicPartition("t", 0): 0}
        assert _brokers(cluster) == [first.bootstrap_servers]
        with KafkaOnZooKeeper(connect=zookeeper_connect, node_id=2, settings=BOTH) as second:
            eventually(lambda: _found(cluster), sorted([first.bootstrap_servers, second.bootstrap_servers]))
            create_topics(cluster, [NewTopic(name="both", partitions=1, assignments={0: (1, 2)})])
            assert cluster.leader(TopicPartition("both", 0)).node.node_id == 1
            create_partitions(cluster, {"t": 3})
            eventually(lambda: len(cluster.topic("t").partitions), 3)
            first.kill()
            eventually(lambda: _found(cluster), [second.bootstrap_servers])
            assert offsets_at(cluster, {TopicPartition("both", 0): LATEST}) == {TopicPartition("both", 0): 0}
            assert cluster.leader(TopicPartition("both", 0)).node.node_id == 2
            first.start()
            eventually(lambda: _found(cluster), sorted([first.bootstrap_servers, second.bootstrap_servers]))


def _found(cluster: Cluster) -> list[str]:
    """The addresses in ZooKeeper, as the client has read them."""
    assert cluster._discovered is not None
    return sorted(str(address) for address in cluster._discovered.discovery.addresses("PLAINTEXT"))


def _brokers(cluster: Cluster) -> list[str]:
    """The addresses in the cluster's metadata."""
    return sorted(str(node.address) for node in cluster.metadata([]).brokers.values())
