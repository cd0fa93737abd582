"""A group consumer of ours whose streams are read by threads, as an application reads them."""

import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Self

import pytest

from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native.clients import (
    ConsumerConnector,
    ConsumerRecord,
    MessageStream,
    Producer,
    ProducerRecord,
    RebalanceListener,
    SimpleConsumer,
    TopicFilter,
)
from tests.support.waiting import eventually

PARTITIONS: Final = 6
"""Of the topics in tests of groups."""
both_protocols: Final = pytest.mark.parametrize("protocol", ["classic", "consumer"])
"""Of groups at a coordinator."""
SHORT_PAUSES: Final[Mapping[str, object]] = MappingProxyType(
    {
        "retry.backoff.ms": 1,
        "retry.backoff.max.ms": 10,
        "reconnect.backoff.ms": 1,
        "reconnect.backoff.max.ms": 10,
        "fetch.max.wait.ms": 20,
    }
)
"""Properties of consumers of scripted brokers."""


class Consuming:
    """A consumer that joins a group and keeps what its streams return. Use it as a context manager.

    ``process`` is called with each record before the next one is requested.
    """

    def __init__(
        self,
        options: Mapping[str, object],
        topics: Mapping[str, int] | TopicFilter,
        *,
        streams: int = 1,
        process: Callable[[ConsumerRecord], object] = lambda _: None,
        rebalance_listener: RebalanceListener | None = None,
    ) -> None:
        self.consumer = ConsumerConnector(options, rebalance_listener=rebalance_listener)
        self.records: list[ConsumerRecord] = []
        self.errors: list[BaseException] = []
        self._process = process
        made: list[MessageStream]
        if isinstance(topics, TopicFilter):
            made = self.consumer.create_message_streams_by_filter(topics, streams)
        else:
            made = [each for some in self.consumer.create_message_streams(topics).values() for each in some]
        self.streams = made
        self._threads = [threading.Thread(target=self._read, args=(stream,), daemon=True) for stream in made]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self, stream: MessageStream) -> None:
        try:
            for record in stream:
                self._process(record)
                self.records.append(record)
        except BaseException as error:  # kept for the test
            self.errors.append(error)

    @property
    def partitions(self) -> list[tuple[str, int]]:
        """The partitions that its streams read."""
        return sorted((part.topic, part.partition) for stream in self.streams for part in stream.partitions)

    @property
    def values(self) -> list[Any]:
        """The values of its records, in the order in which they were processed."""
        return [record.value for record in list(self.records)]

    def close(self) -> None:
        """Commit, leave and end the threads."""
        self.consumer.shutdown()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()


def with_protocol(options: Mapping[str, object], protocol: str) -> dict[str, object]:
    """The properties with ``group.protocol``; ``consumer`` is without those that are for classic groups."""
    classic = {"heartbeat.interval.ms", "partition.assignment.strategy", "session.timeout.ms"}
    kept = {name: value for name, value in options.items() if protocol == "classic" or name not in classic}
    return {**kept, "group.protocol": protocol}


def wait_until_shared(members: list[Consuming], partitions: list[tuple[str, int]]) -> None:
    """Wait until members of one group have all partitions, each of them once, and each member has some."""
    wanted = sorted(partitions)

    def found() -> tuple[list[tuple[str, int]], bool]:
        each = [member.partitions for member in members]
        return sorted(part for parts in each for part in parts), all(each) or len(wanted) < len(members)

    eventually(found, (wanted, True), within_s=60)


def write(broker: EmbeddedBroker, topic: str, numbers: range, partitions: int = PARTITIONS) -> None:
    """Write the numbers as values, one after the other into each partition."""
    with Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0}) as producer:
        for future in producer.send_all(
            [ProducerRecord(topic, b"%d" % number, partition=number % partitions) for number in numbers]
        ):
            future.result(60)


def all_of(topic: str, partitions: int = PARTITIONS) -> list[tuple[str, int]]:
    """All partitions of a topic."""
    return [(topic, number) for number in range(partitions)]


def numbers(*members: Consuming) -> list[int]:
    """The numbers that members have processed, in ascending order."""
    return sorted(int(value) for member in members for value in member.values)


def committed(broker: EmbeddedBroker, group: object) -> dict[int, int]:
    """A group's committed offset of each partition."""
    with SimpleConsumer({"bootstrap.servers": broker.bootstrap_servers}) as consumer:
        found = consumer.committed_offsets(str(group))
    return {part.partition: each.offset for part, each in found.items()}
