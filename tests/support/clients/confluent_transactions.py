"""Transactions written by confluent-kafka."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from dirty_equals import IsInt

from tests.support.clients.interface import DEADLINE_S
from tests.support.clients.topics import Topics
from tests.support.waiting import eventually


def transactional_producer(servers: str, name: str, **more: object) -> Any:
    """That of confluent-kafka, which has its id; ``linger_ms=5`` is a further property. Skips where it is missing."""
    confluent_kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
    config = {"bootstrap.servers": servers, "transactional.id": name, "log_level": 0}
    producer = confluent_kafka.Producer(config | {key.replace("_", "."): value for key, value in more.items()})
    producer.init_transactions(DEADLINE_S)
    return producer


class TransactionalWriter:
    """A transactional producer: every ``with writer.transaction():`` is committed, aborted if asked to."""

    def __init__(self, servers: str, transactional_id: str) -> None:
        """Skips the test where confluent-kafka is missing."""
        self._producer = transactional_producer(servers, transactional_id)
        self._servers = servers
        self._written: set[tuple[str, int]] = set()

    def begin(self) -> None:
        """Open a transaction."""
        self._producer.begin_transaction()

    def send(self, topic: str, values: Sequence[object], *, key: str | None = None, partition: int = 0) -> None:
        """Write values, and wait until they are in the log. None is a null."""
        for value in values:
            self._producer.produce(topic, None if value is None else str(value), key, partition=partition)
        self._written.add((topic, partition))
        assert self._producer.flush(DEADLINE_S) == 0

    def commit(self) -> None:
        """Commit the open transaction; returns when the log says so."""
        self._end(self._producer.commit_transaction)

    def abort(self) -> None:
        """Abort the open transaction; returns when the log says so."""
        self._end(self._producer.abort_transaction)

    @contextmanager
    def transaction(self, *, abort: bool = False) -> Iterator[None]:
        """Open a transaction, and end it after the block."""
        self.begin()
        yield
        if abort:
            self.abort()
        else:
            self.commit()

    def _end(self, end: Callable[[float], None]) -> None:
        """A coordinator answers when it has decided; the markers follow, one after the records of each partition."""
        with Topics(self._servers) as topics:

            def ends() -> dict[tuple[str, int], int]:
                return {(topic, number): topics.ends(topic)[number] for topic, number in self._written}

            before = ends()
            end(DEADLINE_S)
            eventually(ends, {part: IsInt(gt=offset) for part, offset in before.items()})
        self._written.clear()
