"""A log whose values are its offsets, and reading one range of it."""

from collections.abc import Iterable, Iterator
from typing import Any, Final, Self

import pyarrow as pa

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.cluster.metadata import NO_EPOCH, PartitionLeader
from spark_kafka_native._client.consumer.cursor import FetchMetrics, PartitionRange
from spark_kafka_native._client.consumer.row_fetcher import row_fetcher
from spark_kafka_native._protocol.messages.fetch import AbortedTransaction
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._records.batch import seal
from spark_kafka_native._records.control import ControlType
from tests.support.records.record_batches import batch_of, marker
from tests.support.scripted.partitions import FakePartition
from tests.support.scripted.steps import Drop, HalfFrame, Raw, Step, WrongCorrelation

T0 = TopicPartition("t", 0)
BATCHES, ROWS = 20, 50
LAST = BATCHES * ROWS

BROKEN_FETCHES: Final[tuple[Step, ...]] = (
    *(Drop(), HalfFrame(3), HalfFrame(300), WrongCorrelation()),
    *(Raw(b"\xff" * 16), Raw(b"\0\0\0\x10GARBAGEGARBAGE!!")),
)
"""The ways in which a Fetch response can be lost or malformed."""


class OneRange:
    """A `Fetcher` of one range, as an iterable of its record batches."""

    def __init__(
        self,
        cluster: Cluster,
        partition: TopicPartition,
        from_offset: int,
        until_offset: int,
        *,
        leader: PartitionLeader | None = None,
        known_epoch: int = NO_EPOCH,
        **options: Any,
    ) -> None:
        self._partition = partition
        wanted = PartitionRange(
            partition=partition,
            from_offset=from_offset,
            until_offset=until_offset,
            leader=leader,
            known_epoch=known_epoch,
        )
        self.fetcher = row_fetcher(cluster, [wanted], **options)

    @property
    def position(self) -> int:
        return self.fetcher.position(self._partition)

    @property
    def metrics(self) -> FetchMetrics:
        return self.fetcher.metrics

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for partition, records in self.fetcher:
            assert partition == self._partition
            yield records

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.fetcher.close()


def fill(partition: FakePartition, batches: int = BATCHES, rows: int = ROWS) -> None:
    """Batches whose values are their records' offsets."""
    for _ in range(batches):
        first = partition.log_end
        partition.append(batch_of([b"%d" % (first + row) for row in range(rows)]))


def append_sparse(partition: FakePartition, base_offset: int, offsets: int) -> None:
    """One record in a batch that once had ``offsets`` of them, as compaction leaves it."""
    batch = batch_of([b"%d" % base_offset])
    batch[23:27] = (offsets - 1).to_bytes(4, "big")
    seal(batch)
    partition.put(batch, base_offset)


def transaction(partition: FakePartition, producer_id: int, kind: ControlType, rows: int = 5) -> list[int]:
    """Append a transaction and its marker; the offsets of its records."""
    first = partition.log_end
    values = [b"%d" % (first + row) for row in range(rows)]
    batch = batch_of(values, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)
    partition.append(batch)
    partition.put(marker(kind, producer_id), partition.log_end)
    if kind is ControlType.ABORT:
        partition.aborted.append(AbortedTransaction(producer_id=producer_id, first_offset=first))
    return list(range(first, first + rows))


def offsets_of(batches: Iterable[pa.RecordBatch]) -> list[int]:
    return [int(offset) for batch in batches for offset in batch.column("offset").to_numpy()]


def read_until_error(fetcher: Iterable[pa.RecordBatch], found: list[int]) -> None:
    for batch in fetcher:
        found += offsets_of([batch])


def read(cluster: Cluster, start: int, end: int, **options: Any) -> list[int]:
    """Offsets of the rows of a range, each checked against its value."""
    with OneRange(cluster, T0, start, end, **options) as fetcher:
        batches = list(fetcher)
    for batch in batches:
        assert batch.num_rows
        assert batch.column("value").to_pylist() == [b"%d" % offset for offset in offsets_of([batch])]
    assert fetcher.position == end
    return offsets_of(batches)
