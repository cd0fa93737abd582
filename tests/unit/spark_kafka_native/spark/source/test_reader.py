"""A task that reads one range, against a log that is only numbers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pytest

from spark_kafka_native._client.consumer.cursor import PartitionRange
from spark_kafka_native._client.errors import (
    BatchTooLarge,
    CorruptRecords,
    FetchTimeout,
    LogTruncated,
    OffsetOutOfRange,
    TopicRecreated,
)
from spark_kafka_native._net.address import HostPort
from spark_kafka_native._net.errors import BrokerUnreachable
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.errors import DataLossError, TaskError
from spark_kafka_native._spark.options.parsed import SourceOptions
from spark_kafka_native._spark.options.parsing import Query, parse_source_options
from spark_kafka_native._spark.planning.ranges import OffsetRange, range_of
from spark_kafka_native._spark.source import reader
from spark_kafka_native._spark.source.layout import layout_of
from spark_kafka_native._spark.source.reader import read_ranges
from spark_kafka_native._spark.source.schema import source_schema
from spark_kafka_native._spark.source.shaper import RowShaper
from tests.support.spark.fake_offsets import LEADER, FakeCluster

T0 = TopicPartition("t", 0)
LAYOUT = layout_of(source_schema(include_headers=False))


@dataclass
class Log:
    cluster: FakeCluster
    events: dict[int, Any] = field(default_factory=dict)
    """An exception to raise, or a function to call, once, before the record at that offset is read."""
    open_fetchers: int = 0
    columns: Sequence[str] = ()
    asked: list[tuple[int, int]] = field(default_factory=list)
    """First offset and known epoch of each range."""
    timeout_ms: float | None = None

    def fetcher(self, _: object, ranges: Sequence[PartitionRange], **options: Any) -> "LogFetcher":
        self.columns, self.timeout_ms = options["columns"], options["timeout_ms"]
        return LogFetcher(self, ranges)


class LogFetcher:
    def __init__(self, log: Log, ranges: Sequence[PartitionRange]) -> None:
        self._log = log
        self._ranges: dict[TopicPartition, PartitionRange] = {}
        self._positions: dict[TopicPartition, int] = {}
        self.failed: TopicPartition | None = None
        self.named_topics = False
        for wanted in ranges:
            self.assign(wanted)

    def assign(self, wanted: PartitionRange) -> None:
        self._log.asked.append((wanted.from_offset, wanted.known_epoch))
        self._ranges[wanted.partition] = wanted
        self._positions[wanted.partition] = wanted.from_offset

    def remove(self, partition: TopicPartition) -> None:
        del self._ranges[partition], self._positions[partition]

    def position(self, partition: TopicPartition) -> int:
        return self._positions[partition]

    def __enter__(self) -> Self:
        self._log.open_fetchers += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._log.open_fetchers -= 1

    def __iter__(self) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
        for partition, wanted in self._ranges.items():
            self.failed = partition
            for batch in self._rows(partition, wanted):
                yield partition, batch

    def _rows(self, partition: TopicPartition, wanted: PartitionRange) -> Iterator[pa.RecordBatch]:
        cluster = self._log.cluster
        while (position := self._positions[partition]) < wanted.until_offset:
            event = self._log.events.pop(position, None)
            if isinstance(event, Exception):
                raise event
            if event is not None:
                event()
            first, end = cluster.first[partition], cluster.end[partition]
            if not first <= position < end:
                raise OffsetOutOfRange(partition, position, first, end)
            stop = self._positions[partition] = min(position + 3, wanted.until_offset, end)
            yield records(range(position, stop)).select(list(self._log.columns))


def records(offsets: range) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array([None] * len(offsets), pa.binary()),
            "value": pa.array([b"%d" % offset for offset in offsets], pa.binary()),
            "offset": pa.array(offsets, pa.int64()),
            "timestamp": pa.array([0] * len(offsets), pa.timestamp("ms", tz="UTC")),
            "timestamp_type": pa.array([0] * len(offsets), pa.int32()),
        }
    )


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    cluster = FakeCluster().add("t", 20, first=5)
    made = Log(cluster)
    monkeypatch.setattr(reader, "row_fetcher", made.fetcher)
    monkeypatch.setattr(reader, "ClusterOffsets", lambda _: cluster)
    return made


def options(**given: str) -> SourceOptions:
    return parse_source_options({"kafka.bootstrap.servers": "broker:9092", "subscribe": "t"} | given, Query.BATCH)


CARELESS = options(failOnDataLoss="false")


def offsets_read(parsed: SourceOptions, piece: OffsetRange) -> list[int]:
    found: list[int] = []
    for batch in read_ranges(parsed, LAYOUT, [piece]):
        assert batch.schema == LAYOUT.arrow_schema
        found += [int(offset) for offset in np.asarray(batch.column("offset"))]
    return found


def test_range_is_read_in_order(log: Log) -> None:
    assert offsets_read(options(), range_of(T0, 7, 15)) == list(range(7, 15))
    assert log.open_fetchers == 0


def test_earliest_and_latest_are_looked_up_by_the_task(log: Log) -> None:
    piece = range_of(T0, -2, -1)
    assert offsets_read(options(), piece) == list(range(5, 20))
    log.cluster.end[T0], log.cluster.first[T0] = 25, 10
    assert offsets_read(options(), piece) == list(range(10, 25))


def test_closed_reader_closes_its_fetcher(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for LIMIT: the generator is closed."""
    monkeypatch.setattr(reader, "TARGET_ROWS", 3)
    batches = read_ranges(options(), LAYOUT, [range_of(T0, 7, 15)])
    next(batches)
    assert log.open_fetchers == 1
    assert isinstance(batches, Iterator)
    batches.close()  # type: ignore[attr-defined]  # a generator, though it says iterator
    assert log.open_fetchers == 0


def test_many_rows_are_shaped_in_parts(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    shaped: list[int] = []

    def shape(self: RowShaper, records: pa.RecordBatch) -> pa.RecordBatch:
        shaped.append(records.num_rows)
        return original(self, records)

    original = RowShaper.shape
    monkeypatch.setattr(RowShaper, "shape", shape)
    assert offsets_read(options(), range_of(T0, 7, 15)) == list(range(7, 15))
    whole = max(shaped)
    shaped.clear()
    monkeypatch.setattr(reader, "MAX_SHAPED_ROWS", whole - 1)
    assert offsets_read(options(), range_of(T0, 7, 15)) == list(range(7, 15))
    assert max(shaped) == whole - 1 > 0
    assert sum(shaped) == 8


def test_start_deleted_before_the_task(log: Log) -> None:
    with pytest.raises(DataLossError, match=r"COULD_NOT_READ_OFFSET_RANGE\] offsets \[2, 5\) of t-0"):
        offsets_read(options(), range_of(T0, 2, 9))
    assert offsets_read(CARELESS, range_of(T0, 2, 9)) == [5, 6, 7, 8]
    assert offsets_read(CARELESS, range_of(T0, 2, 4)) == []


def test_records_deleted_while_they_are_read_are_skipped_without_duplicates(log: Log) -> None:
    log.events[10] = lambda: log.cluster.first.update({T0: 14})
    assert offsets_read(CARELESS, range_of(T0, 7, 18)) == [7, 8, 9, 14, 15, 16, 17]


def test_records_deleted_from_a_range_that_starts_at_earliest_are_not_missed(log: Log) -> None:
    """The plan of a DataFrame that is read again after retention did its work."""
    piece = OffsetRange(topic="t", partition=0, from_offset=2, until_offset=9, from_earliest=True)
    assert offsets_read(options(), piece) == [5, 6, 7, 8]
    gone = OffsetRange(topic="t", partition=0, from_offset=-2, until_offset=4, from_earliest=True)
    assert offsets_read(options(), gone) == []


def test_log_that_ends_before_the_range_is_a_loss(log: Log) -> None:
    log.cluster.end[T0] = 9
    with pytest.raises(DataLossError, match=r"offsets \[9, 15\) of t-0 do not exist"):
        offsets_read(options(), range_of(T0, 7, 15))
    assert offsets_read(CARELESS, range_of(T0, 7, 15)) == [7, 8]
    with pytest.raises(DataLossError, match=r"offsets \[9, 15\) of t-0 do not exist"):
        offsets_read(options(), range_of(T0, 15, -1))
    assert offsets_read(CARELESS, range_of(T0, 15, -1)) == []


def test_topic_that_was_created_again_is_not_read_as_the_old_one(log: Log) -> None:
    log.events[10] = TopicRecreated(T0, "1", "2")
    with pytest.raises(DataLossError, match=r"TOPIC_RECREATED\] offsets \[10, 15\) of t-0 are gone"):
        offsets_read(options(), range_of(T0, 7, 15))
    log.events[10] = TopicRecreated(T0, "1", "2")
    assert offsets_read(CARELESS, range_of(T0, 7, 15)) == [7, 8, 9]


def planned(from_offset: int, until_offset: int, epoch: int) -> OffsetRange:
    return range_of(T0, from_offset, until_offset)._replace(leader=LEADER._replace(leader_epoch=epoch))


@pytest.mark.feature("client.leaderEpochs")
def test_truncated_log_is_a_loss(log: Log) -> None:
    piece = planned(7, 15, 4)
    log.events[13] = LogTruncated(T0, 15, 13)
    with pytest.raises(DataLossError, match=r"PARTITION_OFFSET_CHANGED\] the log of t-0 was truncated at offset 13 "):
        offsets_read(options(), piece)
    assert log.asked == [(7, 4)]


@pytest.mark.feature("client.leaderEpochs")
@pytest.mark.parametrize(("cut_at", "read_on"), [(13, 13), (10, 10), (8, 8), (2, 7)])
def test_records_after_an_accepted_truncation_are_read(log: Log, cut_at: int, read_on: int) -> None:
    log.events[13] = LogTruncated(T0, 13, cut_at)
    assert offsets_read(CARELESS, planned(7, 15, 4)) == [*range(7, 13), *range(read_on, 15)]
    assert log.asked == [(7, 4), (read_on, -1)], "no more is known of the new log"


@pytest.mark.feature("source.pollTimeoutMs")
def test_poll_timeout_bounds_the_wait_for_records(log: Log) -> None:
    offsets_read(options(**{"kafkaConsumer.pollTimeoutMs": "512"}), range_of(T0, 7, 15))
    assert log.timeout_ms == 512


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (
            BrokerUnreachable({HostPort("broker", 9092): "connection refused"}),
            "(broker:9092: connection refused). Option 'kafka.default.api.timeout.ms' bounds the retries",
        ),
        (
            BrokerUnreachable({HostPort("b", 9092): "refused"}, bootstrap="kafka.bootstrap.servers"),
            "(b:9092: refused); check kafka.bootstrap.servers. Option 'kafka.default.api.timeout.ms' bounds",
        ),
        (FetchTimeout(T0, 10, 60_000, "the log ends"), "'kafkaConsumer.pollTimeoutMs'"),
        (BatchTooLarge(T0, 10, 1_000), "'maxDecompressedBatchBytes'"),
        (CorruptRecords(T0, 10, "bad CRC"), "'kafka.check.crcs'"),
        (KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, "t-0"), "'kafka.default.api.timeout.ms'"),
        (KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "t"), "Give the user this permission."),
    ],
)
@pytest.mark.parametrize("parsed", [options(), CARELESS])
def test_failed_read_task_names_range_and_option(log: Log, error: KafkaError, says: str, parsed: SourceOptions) -> None:
    log.events[10] = error
    with pytest.raises(TaskError) as caught:
        offsets_read(parsed, range_of(T0, 7, 15))
    text = str(caught.value)
    assert text.startswith("reading t-0 offsets [7, 15) failed: ")
    assert says in text
    assert "No record was skipped" in text
    assert caught.value.__cause__ is error
    assert log.open_fetchers == 0


def test_partition_deleted_before_its_range_is_read(log: Log) -> None:
    log.cluster.remove("t")
    with pytest.raises(
        TaskError, match=r"reading t-0 offsets \[earliest, latest\) failed: .* Load the DataFrame again"
    ):
        offsets_read(options(), range_of(T0, -2, -1))
    assert offsets_read(CARELESS, range_of(T0, -2, -1)) == []


def test_topic_that_is_deleted_while_it_is_read(log: Log) -> None:
    log.events[10] = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "t-0")
    assert offsets_read(CARELESS, range_of(T0, 7, 15)) == [7, 8, 9]
    log.events[10] = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "t-0")
    with pytest.raises(TaskError, match="Load the DataFrame again"):
        offsets_read(options(), range_of(T0, 7, 15))
