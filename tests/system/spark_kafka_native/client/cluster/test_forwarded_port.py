"""The bundled broker at a forwarded port, with an advertised.listeners that clients cannot reach."""

from collections.abc import Iterator

import pytest

from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native._client.admin.committed_offsets import commit_offsets, fetch_offsets
from spark_kafka_native._client.admin.topics import NewTopic, create_topics
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.consumer.offsets import LATEST, offsets_at
from spark_kafka_native._client.producer.producer import Producer
from spark_kafka_native._net.errors import BrokerUnreachable
from spark_kafka_native._protocol.messages.list_groups import ListGroupsRequest
from tests.support.clients.interface import Record
from tests.support.clients.native import config_of, read_range, rows_of
from tests.support.scripted.proxy import BreakingProxy
from tests.support.scripted.several_partitions import tp


@pytest.fixture
def forwarded() -> Iterator[str]:
    """The forwarded port of a broker that advertises port 1, which refuses connections."""
    settings = {"advertised.listeners": "PLAINTEXT://127.0.0.1:1"}
    with EmbeddedBroker(settings=settings) as broker, BreakingProxy() as proxy:
        proxy.target = broker.bootstrap_servers
        yield proxy.address


def test_a_broker_is_used_at_the_forwarded_port_only(forwarded: str) -> None:
    with Cluster(config_of(forwarded, broker_addresses="bootstrap")) as cluster:
        create_topics(cluster, [NewTopic(name="t", partitions=1)])
        with Producer(cluster) as producer:
            producer.send("t", rows_of([Record(None, b"a"), Record(None, b"b")]))
        assert offsets_at(cluster, {tp(0): LATEST}) == {tp(0): 2}
        assert [row.value for row in read_range(cluster, tp(0), 0, 2)] == [b"a", b"b"]
        commit_offsets(cluster, "g", {tp(0): 1})
        assert fetch_offsets(cluster, "g")[tp(0)].offset == 1


def test_without_the_option_the_error_names_the_advertised_address(forwarded: str) -> None:
    advertised = r"127\.0\.0\.1:1: .*; broker 1 has it in advertised\.listeners"
    with Cluster(config_of(forwarded)) as cluster, pytest.raises(BrokerUnreachable, match=advertised):
        cluster.send(1, ListGroupsRequest(), deadline=cluster.deadline(300))
