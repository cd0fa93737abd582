"""Paths, kinds, formats and values of the bundled broker's nodes in ZooKeeper are those of Apache Kafka's releases."""

import json
from collections.abc import Mapping
from typing import Any, Final

import pytest
from kazoo.client import KazooClient

from broker_embedded.testing import EmbeddedBroker
from tests.support.report import skip_if
from tests.support.servers.apache_kafka import apache_kafka_unavailable
from tests.support.servers.kafka_on_zookeeper import RELEASES, KafkaOnZooKeeper, zookeeper_client
from tests.support.waiting import eventually

pytestmark = pytest.mark.interop

TOPIC, PARTITIONS, CONFIGS = "events", 3, {"retention.ms": "7200000"}
STATES: Final = [f"/brokers/topics/{TOPIC}/partitions/{index}/state" for index in range(PARTITIONS)]
VARIABLE: Final = {
    "/brokers/ids/1": ("endpoints", "port", "timestamp"),
    f"/brokers/topics/{TOPIC}": ("topic_id",),
    "/cluster/id": ("id",),
    "/controller": ("timestamp",),
    **dict.fromkeys(STATES, ("controller_epoch",)),
}
"""JSON values that differ between two brokers of the same release; only their types are compared."""

_CLUSTER_ID = "0.8 has no cluster id; the bundled broker recognizes by it that a data directory is of another cluster"

DIFFERENCES: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "/cluster": (("0.8.2.2",), _CLUSTER_ID),
    "/cluster/id": (("0.8.2.2",), _CLUSTER_ID),
    "/feature": (("3.9.1",), "the bundled broker keeps the levels of features in its own files"),
    "/latest_producer_id_block": (("1.1.1",), "the bundled broker keeps the next producer id in its own files"),
}
"""The nodes that differ: the releases in which they do, and the reason."""

Nodes = dict[str, tuple[str, object]]


def nodes(client: KazooClient, parent: str = "") -> Nodes:
    """Kind and content of all nodes below another, by path."""
    found: Nodes = {}
    for name in client.get_children(parent or "/"):
        path = f"{parent}/{name}"
        data, stat = client.get(path)
        found[path] = ("ephemeral" if stat.ephemeralOwner else "persistent", content(path, data))
        found |= nodes(client, path)
    return found


def content(path: str, data: bytes | None) -> object:
    """The text of a node, or its JSON object with the types of values that vary. None: it has no data."""
    if data is None:
        return None
    text = data.decode()
    if not text.startswith("{"):
        return text
    entries: dict[str, Any] = json.loads(text)
    varying = VARIABLE.get(path, ())
    return {key: type(value).__name__ if key in varying else value for key, value in entries.items()}


def settled(connect: str) -> Nodes:
    """The nodes once the topic has leaders."""
    with zookeeper_client(connect) as client:
        eventually(lambda: [bool(client.exists(path)) for path in STATES], [True] * PARTITIONS)
        return nodes(client)


@pytest.mark.parametrize("release", RELEASES)
def test_nodes_are_those_of_the_release(release: str, zookeeper_connect: str) -> None:
    skip_if(apache_kafka_unavailable(release))
    with KafkaOnZooKeeper(connect=f"{zookeeper_connect}-theirs", release=release) as kafka:
        kafka.create_topic(TOPIC, PARTITIONS, CONFIGS)
        theirs = settled(kafka.connect)
    settings = {"as.version": release, "zookeeper.connect": f"{zookeeper_connect}-ours"}
    with EmbeddedBroker(settings=settings) as broker:
        broker.create_topic(TOPIC, PARTITIONS, CONFIGS)
        ours = settled(settings["zookeeper.connect"])
    different = {path: (ours.get(path), theirs.get(path)) for path in ours.keys() | theirs.keys()}
    different = {path: both for path, both in different.items() if both[0] != both[1]}
    expected = {path for path, (releases, _) in DIFFERENCES.items() if release in releases}
    assert {path: both for path, both in different.items() if path not in expected} == {}
    assert expected - different.keys() == set(), "these are the same by now"
