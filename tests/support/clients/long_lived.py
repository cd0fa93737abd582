"""Clients that stay during failures: confluent-kafka, kafka-python and aiokafka with one interface."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from tests.support.clients.kafka_python import poll_kafka_python

DEADLINE_S = 40.0
FETCH_WAIT_MS = 100
POLL_S = 0.2
SESSION_MS = 10_000
_QUICK = {"retry_backoff_ms": 50, "reconnect_backoff_max_ms": 200}


@dataclass(frozen=True)
class Producer:
    """A producer with acks=all and idempotence that retries as its client does by default."""

    send_one: Callable[[str, bytes], int]

    def send(self, topic: str, *values: bytes) -> list[int]:
        """Send records to partition 0, one request each at least; their offsets."""
        return [self.send_one(topic, value) for value in values]


@dataclass(frozen=True)
class Consumer:
    """A consumer of one topic from its beginning."""

    get: Callable[[int], Iterable[bytes]]
    """As many values at most, that come within a moment."""
    commit: Callable[[], object]
    """Commit what was read."""

    def poll(self, most: int = 1) -> list[bytes]:
        """The values that come within a moment."""
        return list(self.get(most))

    def read(self, count: int) -> list[bytes]:
        """The next values. Raises TimeoutError."""
        values: list[bytes] = []
        deadline = time.monotonic() + DEADLINE_S
        while len(values) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(values)} of {count} records came in {DEADLINE_S:.0f} s")
            values += self.poll(count - len(values))
        return values


class LongLivedClient(Protocol):
    """One of the clients."""

    name: str

    def producer(self, servers: str) -> AbstractContextManager[Producer]:
        """A producer."""
        ...

    def consumer(self, servers: str, topic: str, group: str | None = None) -> AbstractContextManager[Consumer]:
        """A consumer: of partition 0, or as a member of a group."""
        ...


# --- confluent-kafka -------------------------------------------------------------------------------------------------


class ConfluentLongLived:
    """confluent-kafka."""

    name = "confluent"

    @contextmanager
    def producer(self, servers: str) -> Iterator[Producer]:
        from confluent_kafka import Producer as Made

        config = {"enable.idempotence": True, "retry.backoff.ms": 50, "reconnect.backoff.max.ms": 200}
        made = Made({"bootstrap.servers": servers, "log_level": 0, "error_cb": _ignore, "linger.ms": 0, **config})

        def send(topic: str, value: bytes) -> int:
            done: list[tuple[Any, Any]] = []
            made.produce(topic, value, partition=0, on_delivery=lambda *outcome: done.append(outcome))
            assert not made.flush(DEADLINE_S), "a record was not acknowledged"
            ((error, message),) = done
            assert error is None, error
            return int(message.offset())

        yield Producer(send)

    @contextmanager
    def consumer(self, servers: str, topic: str, group: str | None = None) -> Iterator[Consumer]:
        from confluent_kafka import OFFSET_BEGINNING, TopicPartition
        from confluent_kafka import Consumer as Made

        config = {
            "bootstrap.servers": servers,
            "log_level": 0,
            "error_cb": _ignore,
            "group.id": group or "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": FETCH_WAIT_MS,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 300,
            "retry.backoff.ms": 50,
            "reconnect.backoff.max.ms": 200,
            "topic.metadata.refresh.fast.interval.ms": 50,
        }
        made = Made(config)
        if group is None:
            made.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        else:
            made.subscribe([topic])
        try:
            yield Consumer(
                lambda most: [got.value() or b"" for got in made.consume(most, POLL_S) if got.error() is None],
                lambda: made.commit(asynchronous=False),
            )
        finally:
            made.close()


def _ignore(error: object) -> None:
    """What librdkafka tells between retries; without a listener it writes to stderr."""


# --- kafka-python ----------------------------------------------------------------------------------------------------


class KafkaPythonLongLived:
    """kafka-python."""

    name = "kafka-python"

    @contextmanager
    def producer(self, servers: str) -> Iterator[Producer]:
        import kafka

        made = kafka.KafkaProducer(
            bootstrap_servers=servers, acks="all", enable_idempotence=True, linger_ms=0, **_QUICK
        )
        try:
            yield Producer(lambda topic, value: made.send(topic, value, partition=0).get(DEADLINE_S).offset)
        finally:
            made.close()

    @contextmanager
    def consumer(self, servers: str, topic: str, group: str | None = None) -> Iterator[Consumer]:
        import kafka

        made = kafka.KafkaConsumer(
            bootstrap_servers=servers,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=FETCH_WAIT_MS,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=300,
            **_QUICK,
        )
        if group is None:
            made.assign([kafka.TopicPartition(topic, 0)])
        else:
            made.subscribe([topic])
        try:
            yield Consumer(
                lambda most: [record.value for record in poll_kafka_python(made, int(POLL_S * 1000), most)], made.commit
            )
        finally:
            made.close()


# --- aiokafka --------------------------------------------------------------------------------------------------------


class AiokafkaLongLived:
    """aiokafka, in an event loop of its own."""

    name = "aiokafka"

    @contextmanager
    def producer(self, servers: str) -> Iterator[Producer]:
        from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped]  # it has no types

        def make() -> Any:
            return AIOKafkaProducer(bootstrap_servers=servers, enable_idempotence=True, retry_backoff_ms=50)

        with _running(make) as (made, run):
            yield Producer(lambda topic, value: run(made.send_and_wait(topic, value, partition=0)).offset)

    @contextmanager
    def consumer(self, servers: str, topic: str, group: str | None = None) -> Iterator[Consumer]:
        from aiokafka import AIOKafkaConsumer, TopicPartition

        def make() -> Any:
            made = AIOKafkaConsumer(
                bootstrap_servers=servers,
                group_id=group,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                fetch_max_wait_ms=FETCH_WAIT_MS,
                session_timeout_ms=SESSION_MS,
                heartbeat_interval_ms=300,
                retry_backoff_ms=50,
                metadata_max_age_ms=1000,
            )
            if group is None:
                made.assign([TopicPartition(topic, 0)])
            else:
                made.subscribe([topic])
            return made

        with _running(make) as (made, run):

            def get(most: int) -> list[bytes]:
                found = run(made.getmany(timeout_ms=POLL_S * 1000, max_records=most))
                return [record.value for records in found.values() for record in records]

            yield Consumer(get, lambda: run(made.commit()))


@contextmanager
def _running(make: Callable[[], Any]) -> Iterator[tuple[Any, Callable[[Coroutine[Any, Any, Any]], Any]]]:
    """A client, started and later stopped, and how to await it: it needs an event loop that always runs."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def run(work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(asyncio.wait_for(work, DEADLINE_S), loop).result()

    async def start() -> Any:
        made = make()
        await made.start()
        return made

    try:
        made = run(start())
        try:
            yield made, run
        finally:
            run(made.stop())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(DEADLINE_S)
        loop.close()


LONG_LIVED: list[LongLivedClient] = [ConfluentLongLived(), KafkaPythonLongLived(), AiokafkaLongLived()]
