"""Topics that are hard to read: nulls, all codecs, transactions, gaps, logs cut off, empty partitions.

Written once through librdkafka, so that what reads them is compared over records that neither side wrote.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from dirty_equals import IsInt

from tests.support.clients.confluent import ConfluentClient
from tests.support.clients.confluent_transactions import transactional_producer
from tests.support.clients.interface import CODECS, DEADLINE_S, Header, Record
from tests.support.servers.brokers import Server, TopicMaker
from tests.support.waiting import eventually

FIRST_MS: Final = 1_700_000_000_000
"""The time of the first record of ``plain``; record ``i`` of a partition is ``i`` seconds later."""

PLAIN_RECORDS: Final = {0: 40, 1: 7, 2: 1, 3: 0}
TRUNCATED_BEFORE: Final = {0: 8, 1: 12}
COMPACTED_KEYS: Final = 12

_FOREVER: Final = {"retention.ms": "-1"}
_HEADERS: Final[tuple[tuple[Header, ...], ...]] = (
    (),
    (("one", b"1"),),
    (("same", b"first"), ("same", b"second")),
    (("nothing", None), ("empty", b""), ("", b"no name")),
)


@dataclass
class HardTopics:
    """The topics, on one server; a transaction stays open until `close`."""

    server: Server
    plain: str = "plain"
    """Nulls, headers and times in four partitions of 40, 7, 1 and 0 records."""
    codecs: str = "codecs"
    """One partition, written with every codec in turn."""
    appended: str = "appended"
    """Times are the broker's (LogAppendTime)."""
    transactions: str = "transactions"
    """Partition 0 ends in an aborted transaction, partition 1 has an open one with records after it."""
    compacted: str = "compacted"
    """Compaction left gaps."""
    truncated: str = "truncated"
    """The first 8 of 12 records of partition 0 are deleted, and all of partition 1."""
    empty: str = "empty"
    """Two partitions without a record."""
    segment_setting: str = "internal.segment.bytes"
    """The setting that lets the segments of ``compacted`` be small."""
    _open: list[Any] = field(default_factory=list)

    @property
    def servers(self) -> str:
        """The server's address."""
        return self.server.bootstrap_servers

    def create_topic(self, partitions: int = 1, **configs: str) -> str:
        """A further topic, for one test; its name."""
        return TopicMaker(self.server)(partitions, **configs)

    def write(self) -> None:
        """Make and fill them all; compaction takes a second or two."""
        create_topic = self.server.create_topic
        create_topic(self.plain, 4, _FOREVER)
        create_topic(self.codecs, 1, _FOREVER)
        create_topic(self.appended, 2, {"message.timestamp.type": "LogAppendTime"})
        create_topic(self.transactions, 2)
        create_topic(self.truncated, 2)
        create_topic(self.empty, 2)
        compaction = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "0"}
        create_topic(self.compacted, 2, compaction | {self.segment_setting: "9000"})
        client = ConfluentClient()
        for start in range(0, 120, 30):  # a segment each
            client.produce(self.servers, self.compacted, list(_compacted(range(start, start + 30))))
        client.produce(self.servers, self.plain, list(_plain()))
        for number, codec in enumerate(CODECS * 2):
            batch = [record(100 * number + each) for each in range(15)]
            client.produce(self.servers, self.codecs, batch, compression=codec)
        client.produce(self.servers, self.appended, [record(number, number % 2) for number in range(12)])
        client.produce(self.servers, self.truncated, [record(number, number % 2) for number in range(24)])
        self._truncate()
        self._write_transactions()
        self._await_compaction(client)

    def close(self) -> None:
        """Abort what is open."""
        from confluent_kafka import KafkaException

        while self._open:  # also lets go of the producers, which complain once the server is gone
            with contextlib.suppress(KafkaException):  # the broker has aborted it, after its fifteen minutes
                self._open.pop().abort_transaction(DEADLINE_S)

    def _truncate(self) -> None:
        from confluent_kafka import TopicPartition
        from confluent_kafka.admin import AdminClient

        wanted = [TopicPartition(self.truncated, *each) for each in TRUNCATED_BEFORE.items()]
        admin = AdminClient({"bootstrap.servers": self.servers})
        for deleted in admin.delete_records(wanted).values():
            deleted.result(DEADLINE_S)

    def _write_transactions(self) -> None:
        client = ConfluentClient()
        self._transaction(0, range(5), commit=True)
        self._transaction(0, range(5, 9), commit=False)
        client.produce(self.servers, self.transactions, [record(number) for number in range(9, 12)])
        self._transaction(0, range(12, 16), commit=True)
        self._transaction(0, range(16, 20), commit=False)
        self._transaction(1, range(20, 23), commit=True)
        self._transaction(1, range(23, 27), commit=None)
        client.produce(self.servers, self.transactions, [record(number, 1) for number in range(27, 30)])

    def _transaction(self, partition: int, numbers: range, *, commit: bool | None) -> None:
        """One transaction, committed or aborted; None leaves it open."""
        name = f"{partition}-{numbers.start}"
        producer = transactional_producer(self.servers, name, transaction_timeout_ms=900_000)
        producer.begin_transaction()
        for number in numbers:
            made = record(number, partition)
            producer.produce(self.transactions, made.value, made.key, partition, headers=list(made.headers))
        assert producer.flush(DEADLINE_S) == 0
        if commit is None:
            self._open.append(producer)
        elif commit:
            producer.commit_transaction(DEADLINE_S)
        else:
            producer.abort_transaction(DEADLINE_S)

    def _await_compaction(self, client: ConfluentClient) -> None:
        def first_offsets() -> list[int]:
            return [stored.offset for stored in client.consume(self.servers, self.compacted, {0: 1, 1: 1})]

        eventually(first_offsets, [IsInt(gt=0)] * 2, within_s=60)


def record(number: int, partition: int = 0, timestamp_ms: int | None = None) -> Record:
    """The record of a number: some without key, some without value, with headers of several kinds."""
    key = None if number % 5 == 2 else f"key {number}".encode()
    value = None if number % 7 == 3 else f"value {number} ".encode() * (number % 20)
    return Record(key, value, _HEADERS[number % 4], timestamp_ms, partition)


def _plain() -> Iterator[Record]:
    for partition, count in PLAIN_RECORDS.items():
        for number in range(count):
            yield record(number, partition, FIRST_MS + number * 1000)


def _compacted(numbers: range) -> Iterator[Record]:
    """Few keys, many values."""
    for number in numbers:
        key = f"key {number * number % COMPACTED_KEYS}".encode()
        for partition in range(2):
            yield Record(key, f"{number} ".encode() * 60, partition=partition)
