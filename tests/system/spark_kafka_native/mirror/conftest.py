import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native._client.config import ClientConfig
from spark_kafka_native._client.groups.topic_filters import TopicFilter, Whitelist
from spark_kafka_native._mirror.config import MirrorConfig, SourceConfig
from spark_kafka_native._mirror.mirror import Mirror
from spark_kafka_native.clients import ConsumerRecord, FetchRequest, Producer, ProducerRecord, SimpleConsumer
from tests.support.waiting import eventually

T = TypeVar("T")
NUMBERS = itertools.count(1)
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "100"}
PAUSES = {"retry.backoff.ms": "10", "retry.backoff.max.ms": "50"}


@dataclass
class Clusters:
    """A source and a target, with a topic and a prefix of each test's own."""

    source: EmbeddedBroker
    target: EmbeddedBroker
    topic: str
    group_id: str = field(default_factory=lambda: f"mirror-{next(NUMBERS)}")

    def config(
        self,
        topics: TopicFilter | None = None,
        *,
        source: dict[str, str] | None = None,
        target: dict[str, str] | None = None,
        prefix: str = "",
        **options: Any,
    ) -> MirrorConfig:
        """Of a mirror of the topic. ``source`` and ``target``: properties."""
        consumer = {
            "bootstrap.servers": self.source.bootstrap_servers,
            "group.id": self.group_id,
            "heartbeat.interval.ms": "50",
            "auto.commit.interval.ms": "50",
            "fetch.max.wait.ms": "50",
        }
        producer = {"bootstrap.servers": self.target.bootstrap_servers}
        exactly_once = options.get("exactly_once", False)
        parsed = SourceConfig.parse({**consumer, **PAUSES, **(source or {})}, prefix=prefix, exactly_once=exactly_once)
        return MirrorConfig(
            sources=(parsed,),
            target=ClientConfig.parse({**producer, **PAUSES, **(target or {})}),
            topics=topics or Whitelist(self.topic),
            **options,
        )

    def write(self, values: range | list[bytes], **properties: str) -> None:
        """Write records to partition 0 of the source's topic."""
        send(self.source, [ProducerRecord(self.topic, _bytes(value), partition=0) for value in values], **properties)

    def copied(self, topic: str | None = None, partition: int = 0) -> list[bytes]:
        """The values of a partition of the target; empty if it does not exist."""
        return [record.value for record in read(self.target, topic or self.topic, partition)]

    def copy(self, config: MirrorConfig, count: int) -> None:
        """Run a mirror until partition 0 has so many records at the target."""
        with Mirror(config) as mirror:
            await_copies(mirror, lambda: len(self.copied(f"{config.sources[0].prefix}{self.topic}")), count)


def await_copies(mirror: Mirror, read_copies: Callable[[], T], expected: object) -> T:
    """What `read_copies` returns once it equals `expected`, while the mirror has no error."""

    def read_now() -> T:
        mirror.wait(0)
        return read_copies()

    return eventually(read_now, expected)


def _bytes(value: int | bytes) -> bytes:
    return value if isinstance(value, bytes) else b"%d" % value


def send(broker: EmbeddedBroker, records: list[ProducerRecord], **properties: str) -> None:
    options = {name.replace("_", "."): value for name, value in properties.items()}
    with Producer({"bootstrap.servers": broker.bootstrap_servers, **options}) as producer:
        for future in producer.send_all(records):
            future.result()


def read(broker: EmbeddedBroker, topic: str, partition: int = 0) -> list[ConsumerRecord]:
    """All committed records of a partition; none if it does not exist."""
    if broker.topics().get(topic, 0) <= partition:
        return []
    found: list[ConsumerRecord] = []
    options = {
        "bootstrap.servers": broker.bootstrap_servers,
        "isolation.level": "read_committed",
        "fetch.max.wait.ms": 1,
    }
    with SimpleConsumer(options | {"fetch.max.wait.ms": "1"}) as consumer:
        (offset,) = consumer.offsets_before(topic, partition, consumer.EARLIEST_TIME)
        while True:
            result = consumer.fetch(FetchRequest(topic, partition=partition, offset=offset))
            found += result.records
            if result.next_offset == offset:
                return found
            offset = result.next_offset


@pytest.fixture(scope="module")
def brokers() -> Iterator[tuple[EmbeddedBroker, EmbeddedBroker]]:
    with EmbeddedBroker(settings=SETTINGS) as source, EmbeddedBroker(settings=SETTINGS) as target:
        yield source, target


@pytest.fixture
def clusters(brokers: tuple[EmbeddedBroker, EmbeddedBroker]) -> Iterator[Clusters]:
    source, target = brokers
    topic = f"topic-{next(NUMBERS)}"
    source.create_topic(topic, 2)
    yield Clusters(source, target, topic)
    for broker in brokers:
        broker.faults.clear()
