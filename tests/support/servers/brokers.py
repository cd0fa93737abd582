"""The brokers that a test can run against unchanged, with one small interface."""

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Protocol

from broker_embedded._records.coordinator_record import CoordinatorRecord
from spark_kafka_native._records.batch import BatchHeader, iter_batches
from tests.support.broker.driver import decode_batch

RECORDS_STAY: Final = {"log.retention.ms": "-1"}
"""For brokers that serve many tests: by default they look every five minutes for records with times a week ago, and
many tests write such."""


class Server(Protocol):
    """Something that serves Kafka's protocol and can make topics."""

    @property
    def bootstrap_servers(self) -> str:
        """`host:port[,host:port...]`."""
        ...

    def create_topic(self, name: str, partitions: int = ..., configs: Mapping[str, str] | None = ...) -> None:
        """Make a topic and wait until it can be used."""
        ...


class AnyBroker(Server, Protocol):
    """A running single broker with Kafka's log layout on disk."""

    @property
    def log_directory(self) -> Path:
        """Where the directories `<topic>-<partition>` are."""
        ...


class RestartableBroker(AnyBroker, Protocol):
    """One that can be stopped and started again on the data and the port that it had."""

    def restart(self) -> None:
        """Return when it serves again."""
        ...


class TopicMaker:
    """Makes topics with names of their own, so that tests can share a server."""

    def __init__(self, server: Server) -> None:
        self._server = server

    _numbers = itertools.count(1)

    def __call__(self, partitions: int = 1, **configs: str) -> str:
        """The name of a new topic; `max_message_bytes="5"` is the topic config `max.message.bytes=5`."""
        name = f"topic-{next(self._numbers)}"
        self._server.create_topic(name, partitions, {key.replace("_", "."): value for key, value in configs.items()})
        return name


def stored_records(broker: AnyBroker, topic: str, partitions: int) -> Iterator[CoordinatorRecord]:
    """The records in the log files of a coordinator's topic, partition by partition in order."""
    for index in range(partitions):
        for file in sorted((broker.log_directory / f"{topic}-{index}").glob("*.log")):
            raw = file.read_bytes()
            for position, header in iter_batches(raw):
                yield from decode_batch(raw, position, header)


def stored_batches(broker: AnyBroker, topic: str, partition: int = 0) -> Iterator[BatchHeader]:
    """The headers of the batches in a partition's log files, in order."""
    for file in sorted((broker.log_directory / f"{topic}-{partition}").glob("*.log")):
        for _, header in iter_batches(file.read_bytes()):
            yield header
