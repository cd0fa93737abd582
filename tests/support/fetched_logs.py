"""A log whose values are its offsets, and reading it with a fetcher."""

from collections.abc import Iterable

import pyarrow as pa

from spark_kafka_native.client.cluster.cluster import Cluster
from spark_kafka_native.client.consumer.fetcher import Fetcher
from spark_kafka_native.protocol.topic import TopicPartition
from tests.support.fake_partitions import FakePartition
from tests.support.record_batches import batch_of

T0 = TopicPartition("t", 0)
BATCHES, ROWS = 20, 50
LAST = BATCHES * ROWS


def fill(partition: FakePartition, batches: int = BATCHES, rows: int = ROWS) -> None:
    """Batches whose values are their records' offsets."""
    for _ in range(batches):
        first = partition.log_end
        partition.append(batch_of([b"%d" % (first + row) for row in range(rows)]))


def offsets_of(batches: Iterable[pa.RecordBatch]) -> list[int]:
    return [int(offset) for batch in batches for offset in batch.column("offset").to_numpy()]


def read_until_error(fetcher: Iterable[pa.RecordBatch], found: list[int]) -> None:
    for batch in fetcher:
        found += offsets_of([batch])


def read(cluster: Cluster, start: int, end: int, **options: object) -> list[int]:
    """Offsets of the rows of a range, each checked against its value."""
    with Fetcher(cluster, T0, start, end, **options) as fetcher:  # type: ignore[arg-type]  # options by name
        batches = list(fetcher)
    for batch in batches:
        assert batch.num_rows
        assert batch.column("value").to_pylist() == [b"%d" % offset for offset in offsets_of([batch])]
    assert fetcher.position == end
    return offsets_of(batches)
