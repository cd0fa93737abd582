"""Clients that read a topic: our fetcher and other projects' clients, each with settings that suit it.

`clients` has all that are installed. Each is opened for a topic: it is connected then and has the topic's metadata. See
`benchmarks.fetch` for what they do.
"""

import asyncio
import select
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.cluster.metadata import NO_EPOCH, PartitionLeader
from spark_kafka_native._client.config import READ_UNCOMMITTED, ClientConfig
from spark_kafka_native._client.consumer.broker_source import BrokerSource
from spark_kafka_native._client.consumer.cursor import Cursor, PartitionRange
from spark_kafka_native._client.consumer.offsets import LATEST, list_offsets
from spark_kafka_native._client.consumer.row_fetcher import row_fetcher
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._records.arrow.batches import Batches

MAX_PER_PARTITION: Final = 8 * 2**20
MAX_AT_ONCE: Final = 50 * 2**20
AT_A_TIME: Final = 10_000
SILENCE_S: Final = 60.0
COLUMNS: Final = ("key", "value", "offset", "timestamp")
_ARROW_TYPES: Final[dict[str, pa.DataType]] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("ms", tz="UTC"),
}
ARROW: Final = pa.schema(_ARROW_TYPES)
OURS: Final = "pykafka"
RECEIVED: Final = "received alone"
BASE: Final = "confluent-kafka"
"""What all are compared with."""
OBJECTS, TO_ARROW, NOTHING = "objects", "Arrow", "-"
"""What a client makes of the records."""
CONFLUENT: Final = {
    "group.id": "benchmark",
    "enable.auto.commit": False,
    "queued.min.messages": 1_000_000,  # by default 100,000, which small messages reach before they fill a fetch
    "queued.max.messages.kbytes": 262_144,  # by default 64 MiB, little more than one fetch of all partitions
    "fetch.queue.backoff.ms": 5,  # by default a full queue stops the fetching for a whole second
    "fetch.max.bytes": MAX_AT_ONCE,  # the default, and ours
    "max.partition.fetch.bytes": MAX_PER_PARTITION,  # ours; by default 1 MiB
}


@dataclass(frozen=True, slots=True)
class Place:
    """A topic with its rows."""

    servers: str
    topic: str
    partitions: int
    rows: int


Read = Callable[[int], None]
"""Reads so many rows, or a few more."""
Opened = Callable[[Place], AbstractContextManager[Read]]


class TooFewError(Exception):
    """A client stopped before all rows had come."""


@contextmanager
def _reading(
    place: Place, name: str, one: Callable[[Cluster, PartitionLeader, TopicPartition, int], int]
) -> Iterator[Read]:
    """A cluster's client; ``one`` reads a partition up to an offset, and says how many rows that were."""
    options = {"bootstrap.servers": place.servers, "max.partition.fetch.bytes": MAX_PER_PARTITION}
    with Cluster(ClientConfig.parse(options)) as cluster:
        partitions = [TopicPartition(place.topic, number) for number in range(place.partitions)]
        ends = list_offsets(cluster, dict.fromkeys(partitions, LATEST))
        leaders = cluster.leaders(partitions)

        def read(rows: int) -> None:
            _check(name, sum(one(cluster, leaders[each], each, end.offset) for each, end in ends.items()), rows)

        yield read


def ours(into_arrow: bool) -> Opened:
    """The fetcher, as tasks of Spark use it; for objects, a tuple of each row."""

    def one(cluster: Cluster, leader: PartitionLeader, partition: TopicPartition, end: int) -> int:
        with row_fetcher(cluster, [_range(partition, end, leader)], columns=COLUMNS, target_rows=40_000) as fetcher:
            if into_arrow:
                return sum(batch.num_rows for _, batch in fetcher)
            return sum(len(_objects(batch)) for _, batch in fetcher)

    return lambda place: _reading(place, OURS, one)


def _range(partition: TopicPartition, end: int, leader: PartitionLeader) -> PartitionRange:
    return PartitionRange(partition=partition, from_offset=0, until_offset=end, leader=leader)


def _objects(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    """Key, value, offset and milliseconds of each record."""
    key, value, offset, timestamp = (batch.column(name) for name in COLUMNS)
    times = timestamp.cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    return list(zip(*(column.to_pylist() for column in (key, value, offset, times)), strict=True))


def receiving(place: Place) -> AbstractContextManager[Read]:
    """The same requests, and nothing of the responses but where their batches end: no CRC, no record, no copy."""

    def one(cluster: Cluster, leader: PartitionLeader, partition: TopicPartition, end: int) -> int:
        cursor = Cursor(_range(partition, end, leader), cluster.config, timeout_ms=SILENCE_S * 1000, jitter=1.0, now=0)
        source = BrokerSource(cluster, leader.node, rack="", isolation=READ_UNCOMMITTED)
        source.cursors[cursor] = None
        deadline = Deadline.after_ms(SILENCE_S * 1000)
        while cursor.next_offset < end and not deadline.expired:
            if not source.in_flight:
                source.connect(deadline)
                source.send(deadline)
            select.select([source.connection], [], [], SILENCE_S)
            response = source.receive()
            for _, part in [] if response is None else source.parts_of(response):
                records = part.records if part is not None and part.records is not None else b""
                assert isinstance(records, bytes | memoryview)
                cursor.next_offset = Batches.of(records).next_offset(cursor.next_offset, NO_EPOCH).offset
            del response  # so that the next one can have its memory
        source.close()
        return cursor.next_offset

    return _reading(place, RECEIVED, one)


def confluent(into_arrow: bool) -> Opened:
    """``consume`` of confluent-kafka."""
    import confluent_kafka  # noqa: PLC0415  # a peer that may be absent

    def arrow(messages: Sequence[Any]) -> pa.RecordBatch:
        times = [message.timestamp()[1] for message in messages]
        return _batch(
            [message.key() for message in messages],
            [message.value() for message in messages],
            [message.offset() for message in messages],
            times,
        )

    @contextmanager
    def opened(place: Place) -> Iterator[Read]:
        consumer = confluent_kafka.Consumer({**CONFLUENT, "bootstrap.servers": place.servers})
        consumer.list_topics(place.topic, timeout=30)

        def read(rows: int) -> None:
            consumer.assign([confluent_kafka.TopicPartition(place.topic, n, 0) for n in range(place.partitions)])
            seen, patience = 0, _Patience()
            while seen < rows and patience.left(seen):
                # At most the rest: consume() waits until it has the requested number.
                messages = consumer.consume(min(AT_A_TIME, rows - seen), 1.0)
                seen += (arrow(messages).num_rows if messages else 0) if into_arrow else len(messages)
            _check(BASE, seen, rows)

        try:
            yield read
        finally:
            consumer.close()

    return opened


def of_aiokafka(into_arrow: bool) -> Opened:
    """``getmany`` of aiokafka."""
    import aiokafka  # type: ignore[import-untyped]  # noqa: PLC0415  # it has no types, and may be absent

    @contextmanager
    def opened(place: Place) -> Iterator[Read]:
        partitions = [aiokafka.TopicPartition(place.topic, number) for number in range(place.partitions)]

        async def connected() -> Any:
            consumer = aiokafka.AIOKafkaConsumer(
                bootstrap_servers=place.servers,
                enable_auto_commit=False,
                fetch_max_bytes=MAX_AT_ONCE,
                max_partition_fetch_bytes=MAX_PER_PARTITION,
            )
            await consumer.start()
            return consumer

        async def reading(rows: int) -> None:
            consumer.assign(partitions)
            for partition in partitions:
                consumer.seek(partition, 0)
            seen, patience = 0, _Patience()
            while seen < rows and patience.left(seen):
                found = await consumer.getmany(timeout_ms=1000)
                seen += _taken(found, into_arrow)
            _check("aiokafka", seen, rows)

        loop = asyncio.new_event_loop()
        consumer = loop.run_until_complete(connected())
        try:
            yield lambda rows: loop.run_until_complete(reading(rows))
        finally:
            loop.run_until_complete(consumer.stop())
            loop.close()

    return opened


def of_kafka_python(into_arrow: bool) -> Opened:
    """``poll`` of kafka-python."""
    import kafka  # noqa: PLC0415  # a peer that may be absent

    @contextmanager
    def opened(place: Place) -> Iterator[Read]:
        partitions = [kafka.TopicPartition(place.topic, number) for number in range(place.partitions)]
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=place.servers,
            enable_auto_commit=False,
            fetch_max_bytes=MAX_AT_ONCE,
            max_partition_fetch_bytes=MAX_PER_PARTITION,
            max_poll_records=AT_A_TIME,
        )
        consumer.partitions_for_topic(place.topic)

        def read(rows: int) -> None:
            consumer.assign(partitions)
            for partition in partitions:
                consumer.seek(partition, 0)
            seen, patience = 0, _Patience()
            while seen < rows and patience.left(seen):
                seen += _taken(consumer.poll(timeout_ms=1000), into_arrow)
            _check("kafka-python", seen, rows)

        try:
            yield read
        finally:
            consumer.close()

    return opened


def _taken(found: Mapping[Any, Sequence[Any]], into_arrow: bool) -> int:
    """How many records a client of the two that give lists by partition has brought, made into Arrow or not."""
    if into_arrow:
        return sum(_arrow_of_records(records).num_rows for records in found.values())
    return sum(map(len, found.values()))


def _arrow_of_records(records: Sequence[Any]) -> pa.RecordBatch:
    return _batch(
        [record.key for record in records],
        [record.value for record in records],
        [record.offset for record in records],
        [record.timestamp for record in records],
    )


def _batch(keys: list[Any], values: list[Any], offsets: list[int], times: list[int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {"key": keys, "value": values, "offset": offsets, "timestamp": times}, schema=ARROW
    )


class _Patience:
    """Until nothing has come for a while."""

    def __init__(self) -> None:
        self._seen, self._until = -1, 0.0

    def left(self, seen: int) -> bool:
        """Whether to wait for more."""
        if seen > self._seen:
            self._seen, self._until = seen, time.monotonic() + SILENCE_S
        return time.monotonic() < self._until


def _check(client: str, seen: int, rows: int) -> None:
    if seen < rows:
        raise TooFewError(f"{client} brought {seen:,} of {rows:,} rows")


@dataclass(slots=True, kw_only=True)
class Client:
    """A client and what it makes of the records; ``part`` of a topic is what it reads at a time."""

    name: str
    output: str
    opened: Opened
    part: float = 1.0
    cpu_seconds: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.name}, {self.output}"


def clients(*, every: bool) -> list[Client]:
    """Those that are installed: ours and the one that all are compared with, or ``every`` one."""
    found = [Client(name=RECEIVED, output=NOTHING, opened=receiving)]
    for name, make, part in (
        (OURS, ours, 1.0),
        (BASE, confluent, 1.0),
        *((("aiokafka", of_aiokafka, 0.25), ("kafka-python", of_kafka_python, 0.1)) if every else ()),
    ):
        try:
            outputs = {output: make(into_arrow=output == TO_ARROW) for output in (TO_ARROW, OBJECTS)}
        except ImportError:
            print(f"{name} is not installed: nothing to compare with", file=sys.stderr)
        else:
            found += [Client(name=name, output=output, opened=each, part=part) for output, each in outputs.items()]
    return found
