import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from tests.support.clients.interface import Record
from tests.support.clients.kafka_python import KafkaPythonClient, poll_kafka_python
from tests.support.clients.native import OurClient
from tests.support.servers.brokers import Server, TopicMaker


def fill(server: Server, topic: str, partitions: int, count: int) -> None:
    """Records with their numbers as values."""
    records = [Record(None, b"%d" % number, partition=number % partitions) for number in range(count)]
    OurClient().produce(server.bootstrap_servers, topic, records)


class ConfluentConsumer:
    def __init__(self, servers: str, group_id: str, topic: str) -> None:
        confluent_kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": group_id,
                "session.timeout.ms": 10_000,
                "heartbeat.interval.ms": 100,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        self._consumer.subscribe([topic])

    def poll(self) -> bytes | None:
        message = self._consumer.poll(0.05)
        value: bytes | None = message.value() if message is not None and message.error() is None else None
        return value

    def assigned(self) -> int:
        return len(self._consumer.assignment())

    def commit(self) -> None:
        self._consumer.commit(asynchronous=False)

    def close(self) -> None:
        self._consumer.close()


class KafkaPythonConsumer:
    def __init__(self, servers: str, group_id: str, topic: str) -> None:
        KafkaPythonClient()  # which imports it without a warning
        from kafka import KafkaConsumer

        self._consumer: Any = KafkaConsumer(
            topic,
            bootstrap_servers=servers.split(","),
            group_id=group_id,
            session_timeout_ms=10_000,
            heartbeat_interval_ms=100,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )

    def poll(self) -> bytes | None:
        for record in poll_kafka_python(self._consumer, 200, 1):
            value: bytes = record.value
            return value
        return None

    def assigned(self) -> int:
        return len(self._consumer.assignment())

    def commit(self) -> None:
        self._consumer.commit()

    def close(self) -> None:
        self._consumer.close(autocommit=False)


Consumer = ConfluentConsumer | KafkaPythonConsumer


def poll_until(consumers: list[Consumer], values: set[bytes], done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline
        for consumer in consumers:
            value = consumer.poll()
            if value is not None:
                values.add(value)


def test_consumers_share_a_topic_and_take_over(server: Server, group_id: str) -> None:
    topic = TopicMaker(server)(partitions=4)
    fill(server, topic, 4, 40)
    with ExitStack() as open_consumers:
        consumers: list[Consumer] = []
        for _ in range(2):
            consumers.append(ConfluentConsumer(server.bootstrap_servers, group_id, topic))
            open_consumers.callback(consumers[-1].close)
        values: set[bytes] = set()
        poll_until(consumers, values, lambda: all(consumer.assigned() == 2 for consumer in consumers))
        poll_until(consumers, values, lambda: len(values) == 40)
        consumers[0].commit()
        consumers[0].close()
        poll_until(consumers[1:], values, lambda: consumers[1].assigned() == 4)


@pytest.mark.parametrize("kind", [ConfluentConsumer, KafkaPythonConsumer])
def test_positions_of_consumers_outlive_them(server: Server, group_id: str, kind: type[Consumer]) -> None:
    topic = TopicMaker(server)()
    fill(server, topic, 1, 3)
    for number in range(3):
        consumer = kind(server.bootstrap_servers, group_id, topic)
        values: set[bytes] = set()
        poll_until([consumer], values, lambda values=values: bool(values))  # type: ignore[misc]  # of this round
        consumer.commit()
        consumer.close()
        assert values == {b"%d" % number}
