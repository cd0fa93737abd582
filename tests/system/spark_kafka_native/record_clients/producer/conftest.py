from collections.abc import Callable, Iterator
from typing import Any

import pytest

from spark_kafka_native.clients import Producer
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.fixtures import scripted_brokers

brokers = scripted_brokers(brokers=2, topics={"t": 4, "u": 1})

OpenProducer = Callable[..., Producer]


@pytest.fixture
def open_producer(brokers: ScriptedCluster) -> Iterator[OpenProducer]:
    """Producers with short pauses, closed after the test; ``linger_ms=0`` and so on."""
    opened: list[Producer] = []

    def start(**options: Any) -> Producer:
        defaults = {
            "bootstrap.servers": brokers.bootstrap_servers,
            "retry.backoff.ms": 1,
            "retry.backoff.max.ms": 10,
            "reconnect.backoff.ms": 1,
            "reconnect.backoff.max.ms": 10,
        }
        opened.append(Producer({**defaults, **{name.replace("_", "."): value for name, value in options.items()}}))
        return opened[-1]

    yield start
    for producer in opened:
        producer.close(0)
