"""What a record costs as a topic grows, as its partitions become more, and as its log has thousands of segments.

    python -m benchmarks.growth [--records 50000000] [--apache] [--value-bytes 100]

Our client drives the bundled broker, or Apache Kafka (``--apache``). A cost that stays the same shows that no work
depends on the existing records.

- records: one partition grows from a million records to ``--records``. At each size: produce the next slice, read the
  newest slice, read a slice from the middle, look offsets up by timestamp, one request each, at random.
- partitions: 1 to 1,000 with the same records in all of them together: produce and read all; earliest and latest
  offsets of all partitions, per partition.
- segments: the same number of records in 1 to some 5,000 segments of one partition, all in batches of 8 KiB.

Each size is measured in turns with a topic of the smallest size on the same broker, so that the speed of the machine
does not count. The ratio of both does not show what growth costs every topic of the broker, such as page cache.

Seconds are wall-clock, of client and broker together. A slice is read from the fetcher, all columns but headers.
"""

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.support.brokers import Running, apache_kafka, bundled
from benchmarks.support.filling import POOL_BYTES, create, events
from benchmarks.support.report import Cell, Report, arguments, parse
from benchmarks.support.rounds import Case, measure
from spark_kafka_native._client.admin.topics import delete_topics
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.consumer.cursor import PartitionRange
from spark_kafka_native._client.consumer.offsets import EARLIEST, LATEST, list_offsets
from spark_kafka_native._client.consumer.row_fetcher import row_fetcher
from spark_kafka_native._client.producer.producer import Producer
from spark_kafka_native._protocol.topic import TopicPartition

COLUMNS: Final = ("key", "value", "offset", "timestamp", "timestamp_type")
SIZES: Final = (1_000_000, 2_000_000, 5_000_000, 10_000_000, 20_000_000, 50_000_000)
PARTITIONS: Final = (1, 10, 100, 1_000)
SEGMENTS: Final = (1, 10, 100, 1_000, 5_000)
FIRST_MS: Final = 1_700_000_000_000
RECORDS_PER_MS: Final = 10
LOOKUPS: Final = 200
SEGMENT_BATCH_BYTES: Final = 8_192
RECORD_BYTES: Final = 20
"""What a record takes beside its value, about."""
PRODUCE, NEWEST, MIDDLE, LOOKUP = "produce", "read, newest", "read, middle", "lookup by timestamp"
READ, LIST = "read", "list offsets"
ROUNDS: Final = 25
FLAT: Final = 1.1
Costs = dict[str, list[float]]
"""Microseconds of a record, or of a lookup, a value for each round."""
Cases = dict[str, tuple[Case, int]]
"""What is measured, by its name, and how many records or lookups that is."""


class Measured(NamedTuple):
    """A size, and the smallest one in the same rounds."""

    costs: Costs
    smallest: Costs

    def ratio(self, name: str) -> float:
        """How many times as much something costs as at the smallest size."""
        return statistics.median(self.costs[name]) / statistics.median(self.smallest[name])


class Log:
    """A topic that grows: every record's timestamp tells its place."""

    def __init__(self, cluster: Cluster, topic: str, partitions: int, pool: pa.RecordBatch, **configs: str) -> None:
        self.cluster, self.pool, self.topic = cluster, pool, topic
        create(cluster, topic, partitions, {"retention.ms": "-1", **configs})
        self.partitions = [TopicPartition(topic, number) for number in range(partitions)]
        self.records = 0
        self._leaders = cluster.leaders(self.partitions)
        self._chance = random.Random(0)

    def produce(self, records: int) -> None:
        """Write so many more, all acknowledged."""
        with Producer(self.cluster) as producer:
            for start in range(0, records, self.pool.num_rows):
                rows = self.pool.slice(0, min(self.pool.num_rows, records - start))
                first = self.records + start
                times = FIRST_MS + np.arange(first, first + rows.num_rows) // RECORDS_PER_MS
                producer.send(self.topic, rows.append_column("timestamp", pa.array(times)))
        self.records += records

    def read(self, partition: TopicPartition, first: int, records: int) -> None:
        """Records of a partition from an offset on."""
        wanted = PartitionRange(
            partition=partition,
            from_offset=first,
            until_offset=first + records,
            leader=self._leaders[partition],
        )
        with row_fetcher(self.cluster, [wanted], columns=COLUMNS) as fetcher:
            seen = sum(batch.num_rows for _, batch in fetcher)
        if seen != records:
            raise RuntimeError(f"{partition} has {seen} records of {records} from {first}")

    def read_all(self) -> None:
        """Every partition from its first record to its last."""
        ends = list_offsets(self.cluster, dict.fromkeys(self.partitions, LATEST))
        for partition, end in ends.items():
            if end.offset:
                self.read(partition, 0, end.offset)

    def look_up(self, times: int) -> None:
        """Ask for the offset of a random timestamp, so many times; each response is checked. One partition only."""
        (partition,) = self.partitions
        for _ in range(times):
            ms = self._chance.randrange(self.records // RECORDS_PER_MS)
            found = list_offsets(self.cluster, {partition: FIRST_MS + ms})[partition].offset
            if found != ms * RECORDS_PER_MS:
                raise RuntimeError(f"{partition}: {found} is not the offset of millisecond {ms}")

    def list_ends(self) -> None:
        """Where all partitions begin and end."""
        for which in (EARLIEST, LATEST):
            list_offsets(self.cluster, dict.fromkeys(self.partitions, which))

    def drop(self) -> None:
        """Delete the topic."""
        delete_topics(self.cluster, [self.topic])


class Topics:
    """Topics of so many partitions, one after the other, each with all records."""

    def __init__(self, cluster: Cluster, name: str, partitions: int, pool: pa.RecordBatch, records: int) -> None:
        self._cluster, self._name, self._partitions, self._pool = cluster, name, partitions, pool
        self._records = records
        self._made = 0
        self.log = self._new()

    def cases(self) -> Cases:
        """What is measured. Producing makes a new log, therefore ``log`` is looked up at each call, not here."""
        return {
            PRODUCE: (self._produce, self._records),
            READ: (self._read, self._records),
            LIST: (self._list, 2 * self._partitions),
        }

    def _read(self) -> None:
        self.log.read_all()

    def _list(self) -> None:
        self.log.list_ends()

    def _new(self) -> Log:
        self._made += 1
        return Log(self._cluster, f"{self._name}-{self._made}", self._partitions, self._pool)

    def _produce(self) -> float:
        self.log.drop()
        self.log = self._new()
        started = time.perf_counter()
        self.log.produce(self._records)
        return time.perf_counter() - started


class Bench:
    """The three ways to grow, on one broker."""

    def __init__(self, running: Running, options: argparse.Namespace) -> None:
        self.running, self.options = running, options
        self.pool = events(POOL_BYTES, options.value_bytes, options.value_bytes, 0).select(["value"])
        self.slice = options.slice
        self.found: dict[str, dict[int, Measured]] = {}

    def records(self, sizes: Sequence[int]) -> None:
        """One partition, more and more records."""
        found = self.found["records"] = {}
        with self.running.cluster() as cluster:
            log = Log(cluster, "growing", 1, self.pool)
            for size in sizes:
                smallest = Log(cluster, f"beside-{size}", 1, self.pool)
                # The slices that the rounds write bring both to their sizes.
                for grown, records in ((smallest, sizes[0]), (log, size)):
                    missing = records - grown.records - self.slice * (self.options.rounds + 1)
                    grown.produce(max(missing, 0 if grown.records else self.slice))  # a lookup is measured first
                found[size] = self._measure(*map(self._one_partition, (log, smallest)), title=f"{size:,} records")
                smallest.drop()
            log.drop()

    def segments(self, counts: Sequence[int], setting: str) -> None:
        """One partition, the same records in more and more segments."""
        found = self.found["segments"] = {}
        total = self.options.segment_records
        with self.running.cluster(batch_size=SEGMENT_BATCH_BYTES) as cluster:
            for count in counts:
                logs = []
                for topic, most in ((f"segments-{count}", count), (f"beside-{count}", counts[0])):
                    size = max(total * (self.options.value_bytes + RECORD_BYTES) // most, 2 * SEGMENT_BATCH_BYTES)
                    logs.append(Log(cluster, topic, 1, self.pool, **{setting: str(size)}))
                    logs[-1].produce(total)
                segments = len(list((self.running.log_directory / f"segments-{count}-0").glob("*.log")))
                found[segments] = self._measure(*map(self._one_partition, logs), title=f"{segments:,} segments")
                for log in logs:
                    log.drop()

    def partitions(self, counts: Sequence[int]) -> None:
        """The same records in more and more partitions."""
        found = self.found["partitions"] = {}
        total = self.options.partition_records
        with self.running.cluster() as cluster:
            for count in counts:
                topics = [
                    Topics(cluster, name, partitions, self.pool, total)
                    for name, partitions in ((f"partitions-{count}", count), (f"beside-{count}", counts[0]))
                ]
                found[count] = self._measure(*(each.cases() for each in topics), title=f"{count:,} partitions")
                for each in topics:
                    each.log.drop()

    def _one_partition(self, log: Log) -> Cases:
        (partition,) = log.partitions
        size = self.slice
        return {
            PRODUCE: (lambda: log.produce(size), size),
            NEWEST: (lambda: log.read(partition, log.records - size, size), size),
            MIDDLE: (lambda: log.read(partition, (log.records - size) // 2, size), size),
            LOOKUP: (lambda: log.look_up(LOOKUPS), LOOKUPS),
        }

    def _measure(self, grown: Cases, smallest: Cases, *, title: str) -> Measured:
        cases = grown | {f"{name}, smallest": case for name, case in smallest.items()}
        seconds = measure({name: run for name, (run, _) in cases.items()}, self.options.rounds, title=title)
        micros = {name: [took / each * 1e6 for took in seconds[name]] for name, (_, each) in cases.items()}
        return Measured(
            costs={name: micros[name] for name in grown},
            smallest={name: micros[f"{name}, smallest"] for name in grown},
        )


def rows_of(found: dict[int, Measured]) -> list[list[Cell]]:
    """A line for each size: medians, and the largest of their ratios to the smallest size."""
    return [
        [
            size,
            *map(statistics.median, measured.costs.values()),
            max(measured.ratio(name) for name in measured.costs),
        ]
        for size, measured in found.items()
    ]


def _broker(directory: Path, *, apache: bool) -> AbstractContextManager[Running]:
    return apache_kafka() if apache else bundled(directory)


def main() -> None:
    """Measure everything, a table for each way to grow."""
    parser = arguments(__doc__, rounds=ROUNDS)
    parser.add_argument("--apache", action="store_true", help="Apache Kafka instead of the bundled broker")
    parser.add_argument("--records", type=int, default=SIZES[-1], help="the largest size (%(default)s)")
    parser.add_argument("--value-bytes", type=int, default=100)
    parser.add_argument("--slice", type=int, default=100_000, help="records that are written or read at a size")
    parser.add_argument("--partition-records", type=int, default=1_000_000, help="in all partitions together")
    parser.add_argument("--segment-records", type=int, default=1_000_000, help="in all segments together")
    parser.add_argument("--only", choices=("records", "partitions", "segments"), help="one of the three ways")
    options = parse(parser, records=400_000, slice=20_000, rounds=2, partition_records=20_000, segment_records=50_000)
    sizes: tuple[int, ...] = SIZES
    partitions: tuple[int, ...] = PARTITIONS
    segments: tuple[int, ...] = SEGMENTS
    if options.quick:
        sizes, partitions, segments = (100_000, 200_000, 400_000), (1, 10, 100), (1, 10, 100)
    sizes = (*(size for size in sizes if size < options.records), options.records)
    report = Report("growth", f"Microseconds a record or a lookup, values of {options.value_bytes} B", options)
    with tempfile.TemporaryDirectory() as directory, _broker(Path(directory), apache=options.apache) as running:
        report.note(f"The broker is {running.name}.")
        bench = Bench(running, options)
        if options.only in {None, "records"}:
            bench.records(sizes)
        if options.only in {None, "partitions"}:
            bench.partitions(partitions)
        if options.only in {None, "segments"}:
            # Kafka 4 refuses small segments but under this name.
            bench.segments(segments, "internal.segment.bytes" if options.apache else "segment.bytes")
    for what, found in bench.found.items():
        columns = [what, *next(iter(found.values())).costs, "worst, x smallest"]
        report.table(columns, rows_of(found), title=f"{report.title}, by {what}")
    if "records" in bench.found:
        size, largest = list(bench.found["records"].items())[-1]
        for name in largest.costs:
            report.target(f"{size:,} records, {name}, x smallest", FLAT, largest.ratio(name), at_most=True)
    kept = {what: {size: one._asdict() for size, one in found.items()} for what, found in bench.found.items()}
    report.keep({"microseconds": kept}).save()


if __name__ == "__main__":
    main()
