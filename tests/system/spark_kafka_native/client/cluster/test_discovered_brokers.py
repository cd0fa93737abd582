"""A client finds brokers in ZooKeeper, and uses new brokers, topics and partitions at once."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from broker_embedded.testing import EmbeddedBroker, EmbeddedZooKeeper
from spark_kafka_native._client.admin.topics import create_partitions
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.discovery_config import DiscoveryConfig
from spark_kafka_native._client.errors import NoBrokersFound
from spark_kafka_native._net.errors import BrokerUnreachable
from spark_kafka_native._protocol.errors import KafkaError
from tests.support.scripts import free_port
from tests.support.servers.kafka_on_zookeeper import zookeeper_client
from tests.support.waiting import eventually


@contextmanager
def client_of(connect: str, **options: object) -> Iterator[Cluster]:
    """A client that finds its brokers in ZooKeeper, with metadata that never ages."""
    defaults: dict[str, object] = {"metadata.max.age.ms": 2**60, "retry.backoff.max.ms": 10, "retry.backoff.ms": 1}
    named = {name.replace("_", "."): value for name, value in options.items()}
    config, client = DiscoveryConfig.parse({"zookeeper.connect": connect, **defaults, **named})
    discovery = config.discovery()
    assert discovery is not None
    try:
        with Cluster(client, discovery=discovery) as cluster:
            yield cluster
    finally:
        discovery.close()


@contextmanager
def broker_of(connect: str, directory: Path, **topics: int) -> Iterator[EmbeddedBroker]:
    """A broker in ZooKeeper, with a short session."""
    settings = {"zookeeper.connect": connect, "zookeeper.session.timeout.ms": 1500}
    with EmbeddedBroker(directory, topics=topics, settings=settings) as broker:
        yield broker


def discovery_of(cluster: Cluster) -> Any:
    """The discovery of a client, which is open."""
    assert cluster._discovered is not None
    return cluster._discovered.discovery


def partitions_of(cluster: Cluster, topic: str) -> int:
    """How many partitions a client uses, from its memory while that is fresh."""
    return len(cluster.topic(topic).partitions)


def test_brokers_are_found_and_used(zookeeper_connect: str, tmp_path: Path) -> None:
    with broker_of(zookeeper_connect, tmp_path, events=2) as broker, client_of(zookeeper_connect) as cluster:
        assert partitions_of(cluster, "events") == 2
        assert [str(node.address) for node in cluster.metadata([]).brokers.values()] == [broker.bootstrap_servers]


def test_a_broker_that_was_started_at_another_port_is_found(zookeeper_connect: str, tmp_path: Path) -> None:
    with client_of(zookeeper_connect) as cluster:
        with broker_of(zookeeper_connect, tmp_path / "data", events=1) as broker:
            assert partitions_of(cluster, "events") == 1
            first = broker.bootstrap_servers
        eventually(lambda: cluster._metadata.brokers, {})
        assert cluster._pool._idle == {}
        with broker_of(zookeeper_connect, tmp_path / "data") as broker:
            assert broker.bootstrap_servers != first
            assert partitions_of(cluster, "events") == 1
            assert [str(node.address) for node in cluster.metadata([]).brokers.values()] == [broker.bootstrap_servers]


def test_new_partitions_are_used_at_once(zookeeper_connect: str, tmp_path: Path) -> None:
    with broker_of(zookeeper_connect, tmp_path, events=1) as broker, client_of(zookeeper_connect) as cluster:
        assert partitions_of(cluster, "events") == 1
        with Cluster(cluster.config, discovery=discovery_of(cluster)) as other:
            create_partitions(other, {"events": 3})
        assert broker.topics() == {"events": 3}
        eventually(lambda: partitions_of(cluster, "events"), 3)


def test_partitions_that_a_tool_adds_in_zookeeper_are_used_at_once(zookeeper_connect: str, tmp_path: Path) -> None:
    with (
        broker_of(zookeeper_connect, tmp_path, events=1),
        client_of(zookeeper_connect) as cluster,
        zookeeper_client(zookeeper_connect) as zookeeper,
    ):
        assert partitions_of(cluster, "events") == 1
        eventually(lambda: zookeeper.exists("/brokers/topics/events") is not None, expected=True)
        zookeeper.set("/brokers/topics/events", b'{"version":1,"partitions":{"0":[1],"1":[1]}}')
        eventually(lambda: partitions_of(cluster, "events"), 2)


def test_a_new_topic_is_used_at_once(zookeeper_connect: str, tmp_path: Path) -> None:
    with broker_of(zookeeper_connect, tmp_path) as broker, client_of(zookeeper_connect) as cluster:
        with pytest.raises(KafkaError, match="topic events"):
            cluster.topic("events")
        broker.create_topic("events", 2)
        eventually(lambda: partitions_of(cluster, "events"), 2)


def test_a_recreated_topic_is_read_again(zookeeper_connect: str, tmp_path: Path) -> None:
    with broker_of(zookeeper_connect, tmp_path, events=2) as broker, client_of(zookeeper_connect) as cluster:
        assert partitions_of(cluster, "events") == 2
        eventually(lambda: list(discovery_of(cluster)._registry.watched), ["events"])  # the broker has registered it
        broker.delete_topic("events")
        eventually(lambda: "events" in cluster._metadata.topics, expected=False)
        broker.create_topic("events", 1)
        eventually(lambda: partitions_of(cluster, "events"), 1)


def test_an_expired_session_loses_no_change(zookeeper_connect: str, tmp_path: Path) -> None:
    with broker_of(zookeeper_connect, tmp_path, events=1) as broker, client_of(zookeeper_connect) as cluster:
        assert partitions_of(cluster, "events") == 1
        session = discovery_of(cluster)._reader._client.client_id
        thief = KazooClient(zookeeper_connect, client_id=session)
        thief.start()
        thief.stop()  # the end of the session
        thief.close()
        with Cluster(cluster.config, discovery=discovery_of(cluster)) as other:
            create_partitions(other, {"events": 2})
        assert broker.topics() == {"events": 2}
        eventually(lambda: partitions_of(cluster, "events"), 2)


def test_clients_work_while_zookeeper_is_away(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "spark_kafka_native")
    with (
        EmbeddedZooKeeper() as server,
        broker_of(server.connect_string, tmp_path, events=1) as broker,
        client_of(server.connect_string) as cluster,
    ):
        assert partitions_of(cluster, "events") == 1
        server.kill()
        eventually(lambda: caplog.text.count("the last known brokers stay in use"), 1)
        cluster.close()  # so that the brokers are looked up again
        assert partitions_of(cluster, "events") == 1
        server.start()
        broker.create_topic("later")
        eventually(lambda: len(cluster.metadata(["later"], missing_ok=True).topics["later"].partitions), 1)


def test_without_registered_brokers_the_error_names_the_znode(zookeeper_connect: str) -> None:
    with zookeeper_client(zookeeper_connect), client_of(zookeeper_connect) as cluster:
        with pytest.raises(NoBrokersFound) as caught:
            cluster.metadata(["t"])
        assert str(caught.value) == (
            f"zookeeper.connect: ZooKeeper {zookeeper_connect}: no broker is registered below /brokers/ids; "
            "start a broker there, or correct the chroot of zookeeper.connect"
        )


def test_a_configuration_without_servers_needs_a_discovery() -> None:
    _, client = DiscoveryConfig.parse({"zookeeper.connect": "zookeeper:2181"})
    with pytest.raises(ValueError, match=r"zookeeper\.connect: a cluster without bootstrap\.servers needs a discovery"):
        Cluster(client)


def test_without_zookeeper_the_error_names_the_option() -> None:
    address = f"127.0.0.1:{free_port()}"
    with client_of(address, zookeeper_connection_timeout_ms=200) as cluster:
        with pytest.raises(NoBrokersFound) as caught:
            cluster.metadata(["t"])
        assert str(caught.value) == (
            f"zookeeper.connect: no ZooKeeper server has opened a session within 200 ms ({address}: Connection refused)"
        )


def test_unreachable_brokers_are_those_in_zookeeper(zookeeper_connect: str) -> None:
    refusing = f"127.0.0.1:{free_port()}"
    with zookeeper_client(zookeeper_connect) as zookeeper:
        data = f'{{"version":2,"endpoints":["PLAINTEXT://{refusing}"]}}'
        zookeeper.create("/brokers/ids/1", data.encode(), makepath=True)
        with client_of(zookeeper_connect, default_api_timeout_ms=200) as cluster:
            with pytest.raises(BrokerUnreachable) as caught:
                cluster.metadata(["t"])
            assert str(caught.value) == (
                f"no broker could be reached for Metadata ({refusing}: connection refused); "
                f"check zookeeper.connect ({zookeeper_connect})"
            )
