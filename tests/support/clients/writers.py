"""Producers that write without end from a thread of their own, and remember what was acknowledged.

Values are `<incarnation>:<number>`; numbers rise, and a producer that takes over after `give_up_producer` is the next
incarnation. It does not repeat what its predecessor left without a response, so no value is ever sent by two producers.
"""

import threading
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dirty_equals import IsInt

from spark_kafka_native._client.producer.producer import Producer
from spark_kafka_native.clients import Producer as RecordProducer
from spark_kafka_native.clients import ProducerRecord
from tests.support.clients.confluent import ConfluentClient
from tests.support.clients.interface import DEADLINE_S, Record
from tests.support.clients.native import config_of, rows_of
from tests.support.kills.background import Background
from tests.support.servers.brokers import Server
from tests.support.waiting import eventually

JOIN_TIMEOUT_S = 60.0
MAX_OUTSTANDING = 2000
PADDING = b"a key that makes records long enough to fill segments" * 2


class Writer(Background):
    """Writes until `stop`, which waits for acknowledgements.

    `acknowledged[partition]` maps values to their offsets, None where the client tells none.
    """

    def __init__(self, servers: str, topic: str, partitions: int, *, pause_s: float = 0.01) -> None:
        """`pause_s` is the time between bursts: some thousand records in a second leave the processor to the broker."""
        self.pause_s = pause_s
        self.servers = servers
        self.topic = topic
        self.partitions = partitions
        self.acknowledged: list[dict[str, int | None]] = [{} for _ in range(partitions)]
        self.incarnation = 0
        self._giving_up = threading.Event()
        super().__init__(f"writer of {topic}", JOIN_TIMEOUT_S)
        self._thread.start()

    @property
    def acknowledged_count(self) -> int:
        """How many records were acknowledged so far."""
        return sum(map(len, self.acknowledged))

    def give_up_producer(self) -> None:
        """Let the producer go without waiting for responses, as if its process had died, and start another."""
        self._giving_up.set()

    def _work(self) -> None:
        while not self._ending.is_set():
            self._giving_up.clear()
            self.incarnation += 1
            self._write_until_stopped()

    @abstractmethod
    def _write_until_stopped(self) -> None:
        """Write with one producer until `_giving_up` (then drop it) or `_ending` (then flush it) is set."""


class ConfluentWriter(Writer):
    """One record after the other through librdkafka."""

    def _write_until_stopped(self) -> None:
        from confluent_kafka import Producer

        config: dict[str, Any] = {
            "bootstrap.servers": self.servers,
            "enable.idempotence": True,
            "linger.ms": 2,
            "log_level": 0,
            "reconnect.backoff.max.ms": 200,
            "error_cb": lambda _: None,
        }
        producer = Producer(config)
        number = 0
        while not (self._ending.is_set() or self._giving_up.is_set()):
            if len(producer) < MAX_OUTSTANDING:
                for _ in range(60):
                    value = f"{self.incarnation}:{number}"
                    partition = number % self.partitions
                    producer.produce(self.topic, value, PADDING, partition=partition, on_delivery=self._delivered)
                    number += 1
            producer.poll(self.pause_s)
        if self._giving_up.is_set():
            producer.purge()
            return
        if producer.flush(JOIN_TIMEOUT_S):
            raise TimeoutError(f"{len(producer)} records were never acknowledged")

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged[message.partition()][message.value().decode()] = message.offset()
        elif not self._giving_up.is_set():
            self._failure = RuntimeError(f"{message.value()!r} was not delivered: {error}")


class OurWriter(Writer):
    """Batches of rows through our own producer, which says of all rows before a flush that they are written."""

    def _write_until_stopped(self) -> None:
        config = config_of(
            self.servers, linger_ms=0, batch_size=2000, retry_backoff_max_ms=100, reconnect_backoff_max_ms=200
        )
        producer = Producer(config)
        number = 0
        waiting: list[int] = []
        while not (self._ending.is_set() or self._giving_up.is_set()):
            numbers = range(number, number + 150)
            number += 150
            producer.send(self.topic, rows_of([self._record(n) for n in numbers]))
            waiting += numbers
            if len(waiting) >= 600 and not self._giving_up.is_set():
                producer.flush()
                self._flushed(waiting)
                waiting = []
            self._ending.wait(self.pause_s)
        if self._giving_up.is_set():
            producer.abort()
            return
        producer.close()
        self._flushed(waiting)

    def _record(self, number: int) -> Record:
        return Record(PADDING, f"{self.incarnation}:{number}".encode(), partition=number % self.partitions)

    def _flushed(self, numbers: list[int]) -> None:
        for number in numbers:
            self.acknowledged[number % self.partitions][f"{self.incarnation}:{number}"] = None


class NumberWriter(Writer):
    """Writes ascending numbers, to all partitions in order."""

    def _write_until_stopped(self) -> None:
        options = {"bootstrap.servers": self.servers, "linger.ms": 0, "reconnect.backoff.max.ms": 200}
        number = 0
        with RecordProducer(options) as producer:
            while not self._ending.is_set():
                numbers = range(number, number + 10 * self.partitions)
                records = [ProducerRecord(self.topic, b"%d" % n, partition=n % self.partitions) for n in numbers]
                for n, future in zip(numbers, producer.send_all(records), strict=True):
                    self.acknowledged[n % self.partitions][str(n)] = future.result(JOIN_TIMEOUT_S).offset
                number = numbers.stop
                self._ending.wait(self.pause_s)


@contextmanager
def both_writers(
    broker: Server, partitions: int, servers: str | None = None, *, pause_s: float = 0.01
) -> Iterator[list[Writer]]:
    """A writer of each kind with a topic of its own, through ``servers``; at the end what they wrote is checked."""
    servers = servers or broker.bootstrap_servers
    writers: list[Writer] = []
    try:
        for kind in (ConfluentWriter, OurWriter):
            topic = f"written-by-{kind.__name__.lower()}"
            broker.create_topic(topic, partitions)
            writers.append(kind(servers, topic, partitions, pause_s=pause_s))
        yield writers
    finally:
        for writer in writers:
            writer.stop()
    for writer in writers:
        check_written(servers, writer)


def wait_for_progress(writers: Sequence[Writer]) -> None:
    """Return when every writer has got something more acknowledged; a broker without writers proves nothing."""

    def acknowledged() -> list[int]:
        for writer in writers:
            writer.raise_if_failed()
        return [writer.acknowledged_count for writer in writers]

    eventually(acknowledged, [IsInt(gt=count) for count in acknowledged()], within_s=DEADLINE_S)


def check_written(servers: str, writer: Writer) -> None:
    """Assert that what was acknowledged is there: once, at its offset, in order, without gaps."""
    client = ConfluentClient()
    for partition, acknowledged in enumerate(writer.acknowledged):
        where = f"{writer.topic}-{partition}"
        first, end = client.watermarks(servers, writer.topic, partition)
        assert first == 0, where
        stored = client.consume(servers, writer.topic, {partition: end})
        assert [record.offset for record in stored] == list(range(end)), where
        values = [(record.value or b"").decode() for record in stored]
        assert len(values) == len(set(values)), f"a record is there twice: {where}"
        present = dict(zip(values, range(end), strict=True))
        assert [value for value in acknowledged if value not in present] == [], f"acknowledged and lost: {where}"
        moved = {v: (o, present[v]) for v, o in acknowledged.items() if o is not None and present[v] != o}
        assert moved == {}, f"not at the acknowledged offset: {where}"
        numbers: dict[str, list[int]] = {}
        for value in values:
            incarnation, number = value.split(":")
            numbers.setdefault(incarnation, []).append(int(number))
        assert all(rising == sorted(rising) for rising in numbers.values()), f"out of order: {where}"
