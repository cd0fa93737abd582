import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native.clients import SimpleConsumer
from tests.support.clients.consuming import PARTITIONS, SHORT_PAUSES
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.fixtures import scripted_brokers

brokers = scripted_brokers(brokers=2, topics={"t": 4, "u": 1})

NUMBERS = itertools.count(1)

OpenConsumer = Callable[..., SimpleConsumer]


@pytest.fixture
def open_consumer(brokers: ScriptedCluster) -> Iterator[OpenConsumer]:
    """Simple consumers with short pauses, closed after the test; ``fetch_min_bytes=1`` and so on."""
    opened: list[SimpleConsumer] = []

    def start(broker_id: int | None = None, **options: Any) -> SimpleConsumer:
        defaults = {"bootstrap.servers": brokers.bootstrap_servers, **SHORT_PAUSES}
        named = {name.replace("_", "."): value for name, value in options.items()}
        opened.append(SimpleConsumer({**defaults, **named}, broker_id=broker_id))
        return opened[-1]

    yield start
    for consumer in opened:
        consumer.close()


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    """A broker for the groups of one file, with short pauses."""
    settings = {
        "group.initial.rebalance.delay.ms": "0",
        "group.consumer.heartbeat.interval.ms": "100",
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.assignment.interval.ms": "0",
        "group.min.session.timeout.ms": "100",
    }
    with EmbeddedBroker(settings=settings) as running:
        yield running


@pytest.fixture
def topic(broker: EmbeddedBroker) -> str:
    """An empty topic of each test's own."""
    name = f"topic-{next(NUMBERS)}"
    broker.create_topic(name, PARTITIONS)
    return name


@pytest.fixture
def options(broker: EmbeddedBroker, topic: str) -> dict[str, object]:
    """Of consumers of a group for each test's topic, with short pauses."""
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": f"group-of-{topic}",
        "auto.offset.reset": "earliest",
        "heartbeat.interval.ms": 100,
        "auto.commit.interval.ms": 100,
        "fetch.max.wait.ms": 50,
        "retry.backoff.ms": 10,
    }
