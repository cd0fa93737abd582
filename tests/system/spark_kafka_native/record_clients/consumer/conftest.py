from collections.abc import Callable, Iterator
from typing import Any

import pytest

from spark_kafka_native.clients import SimpleConsumer
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.fixtures import scripted_brokers

brokers = scripted_brokers(brokers=2, topics={"t": 4, "u": 1})

OpenConsumer = Callable[..., SimpleConsumer]


@pytest.fixture
def open_consumer(brokers: ScriptedCluster) -> Iterator[OpenConsumer]:
    """Simple consumers with short pauses, closed after the test; ``fetch_min_bytes=1`` and so on."""
    opened: list[SimpleConsumer] = []

    def start(broker_id: int | None = None, **options: Any) -> SimpleConsumer:
        defaults = {
            "bootstrap.servers": brokers.bootstrap_servers,
            "retry.backoff.ms": 1,
            "retry.backoff.max.ms": 10,
            "reconnect.backoff.ms": 1,
            "reconnect.backoff.max.ms": 10,
            "fetch.max.wait.ms": 20,
        }
        named = {name.replace("_", "."): value for name, value in options.items()}
        opened.append(SimpleConsumer({**defaults, **named}, broker_id=broker_id))
        return opened[-1]

    yield start
    for consumer in opened:
        consumer.close()
