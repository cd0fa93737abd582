"""Clients that stay during failures: confluent-kafka, kafka-python and aiokafka with one interface."""

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol, TypeVar

from tests.support.kafka_python_client import poll_kafka_python

DEADLINE_S = 40.0
FETCH_WAIT_MS = 100
POLL_S = 0.2
SESSION_MS = 10_000
_QUICK = {"retry_backoff_ms": 50, "reconnect_backoff_max_ms": 200}
ResultT = TypeVar("ResultT")


class Producer(Protocol):
    """A producer with acks=all and idempotence that retries as its client does by default."""

    def send(self, topic: str, *values: bytes) -> list[int]:
        """Send records to partition 0, one request each at least; their offsets."""
        ...


class Consumer(ABC):
    """A consumer of one topic from its beginning."""

    def read(self, count: int) -> list[bytes]:
        """The next values. Raises TimeoutError."""
        values: list[bytes] = []
        deadline = time.monotonic() + DEADLINE_S
        while len(values) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(values)} of {count} records came in {DEADLINE_S:.0f} s")
            values += self.poll(count - len(values))
        return values

    @abstractmethod
    def poll(self, most: int = 1) -> list[bytes]:
        """The values that come within a moment."""

    @abstractmethod
    def commit(self) -> None:
        """Commit what was read."""


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
        yield _ConfluentProducer(made)

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
            yield _ConfluentConsumer(made)
        finally:
            made.close()


def _ignore(error: object) -> None:
    """What librdkafka tells between retries; without a listener it writes to stderr."""


class _ConfluentProducer:
    def __init__(self, made: Any) -> None:
        self._made = made

    def send(self, topic: str, *values: bytes) -> list[int]:
        offsets: list[int] = []
        for value in values:
            done: list[tuple[Any, Any]] = []
            self._made.produce(topic, value, partition=0, on_delivery=lambda *outcome: done.append(outcome))  # noqa: B023  # this one
            assert not self._made.flush(DEADLINE_S), "a record was not acknowledged"
            ((error, message),) = done
            assert error is None, error
            offsets.append(message.offset())
        return offsets


class _ConfluentConsumer(Consumer):
    def __init__(self, made: Any) -> None:
        self._made = made

    def poll(self, most: int = 1) -> list[bytes]:
        return [message.value() for message in self._made.consume(most, POLL_S) if message.error() is None]

    def commit(self) -> None:
        self._made.commit(asynchronous=False)


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
            yield _KafkaPythonProducer(made)
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
            yield _KafkaPythonConsumer(made)
        finally:
            made.close()


class _KafkaPythonProducer:
    def __init__(self, made: Any) -> None:
        self._made = made

    def send(self, topic: str, *values: bytes) -> list[int]:
        return [self._made.send(topic, value, partition=0).get(DEADLINE_S).offset for value in values]


class _KafkaPythonConsumer(Consumer):
    def __init__(self, made: Any) -> None:
        self._made = made

    def poll(self, most: int = 1) -> list[bytes]:
        return [record.value for record in poll_kafka_python(self._made, int(POLL_S * 1000), most)]

    def commit(self) -> None:
        self._made.commit()


# --- aiokafka --------------------------------------------------------------------------------------------------------


class AiokafkaLongLived:
    """aiokafka, in an event loop of its own."""

    name = "aiokafka"

    @contextmanager
    def producer(self, servers: str) -> Iterator[Producer]:
        with _Loop() as loop:
            made = loop.run(self._make_producer(servers))
            try:
                yield _AiokafkaProducer(made, loop)
            finally:
                loop.run(made.stop())

    async def _make_producer(self, servers: str) -> Any:
        from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped]  # it has no types

        made = AIOKafkaProducer(bootstrap_servers=servers, enable_idempotence=True, retry_backoff_ms=50)
        await made.start()
        return made

    @contextmanager
    def consumer(self, servers: str, topic: str, group: str | None = None) -> Iterator[Consumer]:
        with _Loop() as loop:
            made = loop.run(self._make_consumer(servers, topic, group))
            try:
                yield _AiokafkaConsumer(made, loop)
            finally:
                loop.run(made.stop())

    async def _make_consumer(self, servers: str, topic: str, group: str | None) -> Any:
        from aiokafka import AIOKafkaConsumer, TopicPartition

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
        await made.start()
        return made


class _Loop:
    """An event loop in a thread, for a client that needs one that always runs."""

    def __enter__(self) -> "_Loop":
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(DEADLINE_S)
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Do something in the loop, within the time for it."""
        return asyncio.run_coroutine_threadsafe(asyncio.wait_for(work, DEADLINE_S), self._loop).result()


class _AiokafkaProducer:
    def __init__(self, made: Any, loop: _Loop) -> None:
        self._made, self._loop = made, loop

    def send(self, topic: str, *values: bytes) -> list[int]:
        return [self._loop.run(self._made.send_and_wait(topic, value, partition=0)).offset for value in values]


class _AiokafkaConsumer(Consumer):
    def __init__(self, made: Any, loop: _Loop) -> None:
        self._made, self._loop = made, loop

    def poll(self, most: int = 1) -> list[bytes]:
        found = self._loop.run(self._made.getmany(timeout_ms=POLL_S * 1000, max_records=most))
        return [record.value for records in found.values() for record in records]

    def commit(self) -> None:
        self._loop.run(self._made.commit())


LONG_LIVED: list[LongLivedClient] = [ConfluentLongLived(), KafkaPythonLongLived(), AiokafkaLongLived()]
