"""The broker that a benchmark reads from and writes to, and its topics."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from benchmarks.support import filling
from benchmarks.support.shapes import Shape
from broker_embedded.testing import BrokerProcess
from spark_kafka_native._client.admin.topics import NewTopic, create_topics, delete_topics
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.config import ClientConfig
from spark_kafka_native._client.consumer.offsets import LATEST, list_offsets
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.servers.apache_kafka import ApacheKafka, apache_kafka_unavailable

BATCH_BYTES: Final = 16_384
"""Of the batches in topics that are read: what Java's producer makes by default."""
_DELETE_SOON: Final = {"log.segment.delete.delay.ms": "1000"}
"""So that topics that are done with make room before the run is over."""
_OWN_DEFAULTS: Final = {"num.io.threads": "8", "num.network.threads": "3", "background.threads": "10"}
"""Apache Kafka's; tests give it fewer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A broker that runs, in a process of its own."""

    name: str
    bootstrap_servers: str
    pid: int
    log_directory: Path
    start_seconds: float
    """From the start of its process until it answers."""

    @contextmanager
    def cluster(self, **properties: object) -> Iterator[Cluster]:
        """A client of it; properties of Kafka's with ``_`` for ``.``."""
        given = {name.replace("_", "."): value for name, value in properties.items()}
        with Cluster(ClientConfig.parse({"bootstrap.servers": self.bootstrap_servers, **given})) as cluster:
            yield cluster


@contextmanager
def bundled(directory: Path) -> Iterator[Running]:
    """The bundled broker."""
    started = time.perf_counter()
    with BrokerProcess(directory, settings=_DELETE_SOON) as broker:
        took = time.perf_counter() - started
        yield Running(
            name="bundled broker",
            bootstrap_servers=broker.bootstrap_servers,
            pid=broker.pid,
            log_directory=directory,
            start_seconds=took,
        )


@contextmanager
def apache_kafka() -> Iterator[Running]:
    """One node of Apache Kafka with the heap, the JVM options and the threads that it has by itself."""
    with ApacheKafka(heap="1g", jvm_options=("-XX:+UseG1GC",), settings=_DELETE_SOON | _OWN_DEFAULTS) as kafka:
        yield Running(
            name=f"Apache Kafka {kafka.release}",
            bootstrap_servers=kafka.bootstrap_servers,
            pid=kafka.pid(),
            log_directory=kafka.log_directory,
            start_seconds=kafka.start_seconds,
        )


@contextmanager
def apache_kafka_or_bundled(directory: Path, *, bundled_wanted: bool) -> Iterator[Running]:
    """Apache Kafka; the bundled broker if that is wanted, or if Apache Kafka cannot be had. Its name says so."""
    reason = None if bundled_wanted else apache_kafka_unavailable()
    if not bundled_wanted and reason is None:
        with apache_kafka() as running:
            yield running
    else:
        with bundled(directory) as running:
            yield running if reason is None else replace(running, name=f"{running.name}, because {reason}")


@contextmanager
def topic(cluster: Cluster, name: str, partitions: int) -> Iterator[str]:
    """A topic that is there for a while, and whose leaders answer.

    Until they do, the JVM's producer can lose a race: the first of its five batches in flight is refused, the second is
    taken, as any sequence number of an unknown producer is (KIP-360), and the first is out of order until it expires.
    """
    create_topics(cluster, [NewTopic(name=name, partitions=partitions, replication_factor=1)])
    try:
        list_offsets(cluster, {TopicPartition(name, index): LATEST for index in range(partitions)})
        yield name
    finally:
        delete_topics(cluster, [name])


def fill(running: Running, name: str, shape: Shape) -> None:
    """Write the rows of a shape to a topic, as many to one partition as to another, in batches of `BATCH_BYTES`."""

    def spread(first: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        numbers = np.arange(first, first + batch.num_rows) % shape.partitions
        return batch.append_column("partition", pa.array(numbers, pa.int32()))

    pool = filling.events(filling.POOL_BYTES, *shape.sizes, 0).select(
        ["key", "value"] if shape.key_bytes else ["value"]
    )
    options: dict[str, object] = {"compression.type": shape.codec, "batch.size": BATCH_BYTES}
    filling.fill(running.bootstrap_servers, name, shape.count, pool, options=options, more=spread)
