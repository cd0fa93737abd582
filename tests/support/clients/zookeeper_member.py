"""Members of a group `g` in ZooKeeper, which read topic `t` of one broker, and their znodes."""

from collections.abc import Iterator
from typing import Any, Final

import pytest
from kazoo.client import KazooClient

from broker_embedded.testing import EmbeddedBroker
from tests.support.clients import consuming
from tests.support.servers.kafka_on_zookeeper import zookeeper_client
from tests.support.waiting import eventually

PARTITIONS: Final = 4
ALL: Final = consuming.all_of("t", PARTITIONS)


def broker_in_zookeeper() -> Any:
    """A fixture: a broker of each test's own."""

    @pytest.fixture
    def made(zookeeper_connect: str) -> Iterator[EmbeddedBroker]:
        with EmbeddedBroker(settings={"zookeeper.connect": zookeeper_connect}) as running:
            running.create_topic("t", PARTITIONS)
            yield running

    return made


def client_of_zookeeper() -> Any:
    """A fixture: another program's client of the chroot of each test."""

    @pytest.fixture
    def made(zookeeper_connect: str) -> Iterator[KazooClient]:
        with zookeeper_client(zookeeper_connect) as client:
            yield client

    return made


def options_of_members() -> Any:
    """A fixture: properties with short pauses, once the topic of the fixture ``broker`` is in ``zookeeper``."""

    @pytest.fixture
    def made(broker: EmbeddedBroker, zookeeper: KazooClient, zookeeper_connect: str) -> dict[str, object]:
        eventually(lambda: zookeeper.exists("/brokers/topics/t") is not None, expected=True)
        return {
            "zookeeper.connect": zookeeper_connect,
            "zookeeper.session.timeout.ms": 2000,
            "group.id": "g",
            "auto.offset.reset": "smallest",
            "rebalance.backoff.ms": 100,
            "auto.commit.interval.ms": 100,
            "fetch.max.wait.ms": 50,
        }

    return made


def write(broker: EmbeddedBroker, numbers: range) -> None:
    """Write the numbers as values, one after the other into each partition."""
    consuming.write(broker, "t", numbers, PARTITIONS)


def children(zookeeper: KazooClient, path: str) -> list[str]:
    """The names of a znode's children; none if it does not exist."""
    return sorted(zookeeper.get_children(path)) if zookeeper.exists(path) else []


def values(zookeeper: KazooClient, path: str) -> dict[str, str]:
    """The data of a znode's children, by name."""
    return {name: zookeeper.get(f"{path}/{name}")[0].decode() for name in children(zookeeper, path)}


def offsets_at_coordinator(broker: EmbeddedBroker) -> dict[str, str]:
    """As ``values`` of the offsets in ZooKeeper."""
    return {str(number): str(offset) for number, offset in consuming.committed(broker, "g").items()}
