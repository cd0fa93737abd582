"""A consumer of kafka-python in a group, for the agents of its releases."""

from typing import Any

import kafka

from tests.interop.clients.python.line_agent import Json, described


class Subscriber:
    """A consumer in a group."""

    def __init__(self, config: dict[str, Any], topics: list[str]) -> None:
        self._consumer = kafka.KafkaConsumer(**config)
        self._consumer.subscribe(topics)

    def poll(self) -> list[Json]:
        polled = self._consumer.poll(timeout_ms=100)
        return [described(record) for records in polled.values() for record in records]

    def assignment(self) -> list[tuple[str, int]]:
        return [(item.topic, item.partition) for item in self._consumer.assignment()]

    def commit(self) -> None:
        self._consumer.commit()

    def close(self) -> None:
        self._consumer.close(autocommit=False)
