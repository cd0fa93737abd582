"""Clients of today on a broker that passes for an older release of Kafka: they write, join a group and read."""

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker_embedded._config.releases import release
from broker_embedded.testing import EmbeddedBroker
from tests.support.clients.interface import CODECS
from tests.support.clients.kafka_python import poll_kafka_python

pytestmark = [
    pytest.mark.interop,
    # kafka-python now and then drops a connection that was being made without closing it.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

RELEASES = ("0.10.0", "0.10.2", "0.11", "1.0", "2.1", "2.8", "3.9", "4.0", "4.3")
DEADLINE_S = 30.0
COUNT = 20
VALUES = [b"value %d" % number for number in range(COUNT)]

WriteAndRead = Callable[[str, str, str], list[bytes]]
"""Writes VALUES to a topic in a codec, without idempotence, and reads them as the only member of a new group."""


def confluent(servers: str, topic: str, codec: str) -> list[bytes]:
    from confluent_kafka import Consumer, Producer

    producer = Producer({"bootstrap.servers": servers, "compression.type": codec, "linger.ms": 50})
    for value in VALUES:
        producer.produce(topic, value)
    assert producer.flush(DEADLINE_S) == 0
    consumer = Consumer({"bootstrap.servers": servers, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[bytes] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(found) < COUNT and time.monotonic() < deadline:
        messages = consumer.consume(COUNT, 0.5)
        assert all(message.error() is None for message in messages)
        found += [message.value() or b"" for message in messages]
    consumer.commit(asynchronous=False)
    consumer.close()
    return found


def kafka_python(servers: str, topic: str, codec: str) -> list[bytes]:
    import kafka

    producer = kafka.KafkaProducer(
        bootstrap_servers=servers,
        compression_type=None if codec == "none" else codec,
        enable_idempotence=False,
        linger_ms=50,
    )
    for value in VALUES:
        producer.send(topic, value)
    producer.close(DEADLINE_S)
    consumer = kafka.KafkaConsumer(topic, bootstrap_servers=servers, group_id=topic, auto_offset_reset="earliest")
    found: list[bytes] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(found) < COUNT and time.monotonic() < deadline:
        found += [record.value for record in poll_kafka_python(consumer, 500, COUNT)]
    consumer.commit()
    consumer.close()
    return found


def aio(servers: str, topic: str, codec: str) -> list[bytes]:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer  # type: ignore[import-untyped]  # it has no types

    async def write_and_read() -> list[bytes]:
        producer = AIOKafkaProducer(
            bootstrap_servers=servers, compression_type=None if codec == "none" else codec, linger_ms=50
        )
        await producer.start()
        for value in VALUES:
            await producer.send(topic, value)
        await producer.stop()
        consumer = AIOKafkaConsumer(topic, bootstrap_servers=servers, group_id=topic, auto_offset_reset="earliest")
        await consumer.start()
        found: list[bytes] = []
        deadline = time.monotonic() + DEADLINE_S
        while len(found) < COUNT and time.monotonic() < deadline:
            polled = await consumer.getmany(timeout_ms=500)
            found += [record.value for records in polled.values() for record in records]
        await consumer.commit()
        await consumer.stop()
        return found

    return asyncio.run(write_and_read())


@pytest.fixture(scope="module", params=RELEASES)
def name(request: pytest.FixtureRequest) -> str:
    """The release to pass for."""
    return str(request.param)


@pytest.fixture(scope="module")
def data_dir(name: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where its data is."""
    return tmp_path_factory.mktemp(name)


@pytest.fixture(scope="module")
def old_broker(name: str, data_dir: Path) -> Iterator[EmbeddedBroker]:
    """The bundled broker as that release."""
    settings = {"as.version": name, "group.initial.rebalance.delay.ms": "0"}
    with EmbeddedBroker(data_dir, settings=settings) as broker:
        yield broker


@pytest.mark.parametrize("client", [confluent, kafka_python, aio])
def test_clients_of_today_write_and_read(
    name: str, data_dir: Path, old_broker: EmbeddedBroker, client: WriteAndRead
) -> None:
    magic = 2 if release(name).since("0.11") else 1
    for codec in CODECS if release(name).since("2.1") else CODECS[:-1]:
        topic = f"{client.__name__}-{codec}"
        old_broker.create_topic(topic)
        assert client(old_broker.bootstrap_servers, topic, codec) == VALUES, codec
        (segment,) = (data_dir / f"{topic}-0").glob("*.log")
        assert segment.read_bytes()[16] == magic


def test_kafka_python_takes_it_for_that_release(name: str, old_broker: EmbeddedBroker) -> None:
    import kafka

    consumer = kafka.KafkaConsumer(bootstrap_servers=old_broker.bootstrap_servers)
    inferred = consumer.config["api_version"]
    consumer.close()
    assert ".".join(map(str, inferred)) == name
