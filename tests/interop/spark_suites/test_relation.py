"""KafkaRelationSuite: batch queries."""

import json
from typing import Any, NamedTuple

import pytest
from pyspark.sql import DataFrame

from tests.support.clients.confluent_transactions import TransactionalWriter
from tests.support.clients.topics import Topics
from tests.support.servers.brokers import AnyBroker
from tests.support.spark.queries import KafkaFrames, error_text, numbers, unique

pytestmark = [pytest.mark.interop, pytest.mark.spark]

FAR_FUTURE_MS = 9_000_000_000_000
T1, T2, T3 = 1_700_000_000_000, 1_700_000_001_000, 1_700_000_002_000


def write_range(topics: Topics, topic: str, start: int, stop: int, partition: int) -> None:
    topics.write(topic, [str(n) for n in range(start, stop)], partition=partition)


def offsets_json(topic: str, by_partition: dict[int, int]) -> str:
    """``startingOffsets`` and its like for one topic."""
    return json.dumps({topic: {str(partition): number for partition, number in by_partition.items()}})


@pytest.fixture
def topic(topics: Topics) -> str:
    """0 to 9 in partition 0, 10 to 19 in partition 1, 20 in partition 2."""
    made = topics.create(3)
    topics.write(made, [str(n) for n in range(21)], partition=[0] * 10 + [1] * 10 + [2])
    return made


@pytest.mark.feature("offsets.lateBinding", "offsets.special", "source.subscribe")
def test_explicit_earliest_to_latest_offsets(kafka: KafkaFrames, topics: Topics, topic: str) -> None:
    df = kafka.read(subscribe=topic, startingOffsets="earliest", endingOffsets="latest")
    assert numbers(df) == list(range(21))
    write_range(topics, topic, 21, 30, 2)
    assert numbers(df) == list(range(30))


@pytest.mark.feature("source.startingOffsets", "source.endingOffsets")
def test_default_starting_and_ending_offsets(kafka: KafkaFrames, topic: str) -> None:
    assert numbers(kafka.read(subscribe=topic)) == list(range(21))


@pytest.mark.feature("source.startingOffsets", "source.endingOffsets", "offsets.lateBinding")
def test_explicit_offsets(kafka: KafkaFrames, topics: Topics, topic: str) -> None:
    df = kafka.read(
        subscribe=topic,
        startingOffsets=offsets_json(topic, {0: -2, 1: -2, 2: 0}),
        endingOffsets=offsets_json(topic, {0: -1, 1: -1, 2: 1}),
    )
    assert numbers(df) == list(range(21))
    write_range(topics, topic, 31, 40, 2)
    assert numbers(df) == list(range(21)), "partition 2 ends at a given offset"
    write_range(topics, topic, 21, 31, 1)
    assert numbers(df) == list(range(31))


@pytest.mark.feature("source.includeHeaders", "column.headers")
def test_default_starting_and_ending_offsets_with_headers(kafka: KafkaFrames, topics: Topics) -> None:
    topic = topics.create(3)
    headers: list[list[tuple[str, bytes | None]] | None] = [
        None,
        [("a", b"b"), ("c", b"d")],
        [("e", b"f"), ("e", b"g")],
    ]
    topics.write(topic, ["1", "2", "3"], partition=[0, 1, 2], headers=headers)
    rows = kafka.read(subscribe=topic, includeHeaders="true").selectExpr("string(value)", "headers").collect()
    found = {row.value: row.headers and [(each.key, bytes(each.value)) for each in row.headers] for row in rows}
    assert found == dict(zip("123", headers, strict=True))


class Timed(NamedTuple):
    """A topic with 0 to 9 at T1, 10 to 19 at T2, 20 to 29 at T3; number n is in partition n % 3."""

    kafka: KafkaFrames
    name: str

    def read(self, **options: Any) -> list[int]:
        return numbers(self.kafka.read(subscribe=self.name, **options))

    def times(self, *by_partition: int) -> str:
        """Times of the three partitions; one alone is that of all."""
        given = by_partition if len(by_partition) == 3 else by_partition * 3
        return offsets_json(self.name, dict(enumerate(given)))


@pytest.fixture(scope="session")
def timed(kafka: KafkaFrames, topics: Topics) -> Timed:
    name = topics.create(3)
    topics.write(
        name,
        [str(n) for n in range(30)],
        partition=[n % 3 for n in range(30)],
        timestamps=[T1] * 10 + [T2] * 10 + [T3] * 10,
    )
    return Timed(kafka, name)


@pytest.mark.feature("source.startingOffsetsByTimestamp", "source.endingOffsetsByTimestamp", "offsets.byTimestamp")
def test_timestamp_provided_for_starting_and_ending(timed: Timed) -> None:
    start, end = timed.times(T2), timed.times(T3)
    assert timed.read(startingOffsetsByTimestamp=start, endingOffsetsByTimestamp=end) == list(range(10, 20))


@pytest.mark.feature("source.startingOffsetsByTimestamp", "source.endingOffsets")
def test_timestamp_provided_for_starting_offset_for_ending(timed: Timed) -> None:
    found = timed.read(
        startingOffsetsByTimestamp=timed.times(T1), endingOffsets=offsets_json(timed.name, {0: -1, 1: -1, 2: 1})
    )
    assert found == sorted([*(n for n in range(30) if n % 3 != 2), 2])


@pytest.mark.feature("source.startingOffsets", "source.endingOffsetsByTimestamp")
def test_timestamp_provided_for_ending_offset_for_starting(timed: Timed) -> None:
    found = timed.read(
        startingOffsets=offsets_json(timed.name, {0: -2, 1: 0, 2: 0}), endingOffsetsByTimestamp=timed.times(T3)
    )
    assert found == list(range(20))


@pytest.mark.feature("source.startingOffsetsByTimestamp")
def test_timestamp_provided_for_starting_only(timed: Timed) -> None:
    assert timed.read(startingOffsetsByTimestamp=timed.times(T2)) == list(range(10, 30))


@pytest.mark.feature("source.endingOffsetsByTimestamp")
def test_timestamp_provided_for_ending_only(timed: Timed) -> None:
    assert timed.read(endingOffsetsByTimestamp=timed.times(T3)) == list(range(20))


@pytest.mark.feature("source.startingTimestamp", "source.endingTimestamp")
def test_global_timestamp_provided_for_starting_and_ending(timed: Timed) -> None:
    assert timed.read(startingTimestamp=T2, endingTimestamp=T3) == list(range(10, 20))
    assert timed.read(startingTimestamp=T2) == list(range(10, 30))
    assert timed.read(endingTimestamp=T3) == list(range(20))


@pytest.mark.feature("source.startingOffsetsByTimestampStrategy", "offsets.byTimestamp")
def test_no_matched_offset_for_timestamp_starting_offsets(timed: Timed) -> None:
    by_partition = timed.times(T2, T2, FAR_FUTURE_MS)
    text = error_text(lambda: timed.read(startingOffsetsByTimestamp=by_partition))
    assert f"{timed.name}-2 has no record with timestamp {FAR_FUTURE_MS} or later" in text
    everywhere = error_text(lambda: timed.read(startingTimestamp=FAR_FUTURE_MS))
    assert "has no record with timestamp" in everywhere
    lenient = {"startingOffsetsByTimestampStrategy": "latest"}
    assert timed.read(startingOffsetsByTimestamp=by_partition, **lenient) == [n for n in range(10, 30) if n % 3 != 2]


@pytest.mark.feature("source.startingTimestamp", "source.startingOffsetsByTimestamp", "source.startingOffsets")
def test_preferences_on_offset_related_options(timed: Timed) -> None:
    both = {"startingOffsetsByTimestamp": timed.times(T2), "startingOffsets": "earliest"}
    assert timed.read(startingTimestamp=T3, **both) == list(range(20, 30))
    assert timed.read(**both) == list(range(10, 30))


@pytest.mark.feature("source.endingOffsetsByTimestamp", "offsets.byTimestamp")
def test_no_matched_offset_for_timestamp_ending_offsets(timed: Timed) -> None:
    found = timed.read(endingOffsetsByTimestamp=timed.times(T2, T2, FAR_FUTURE_MS))
    assert found == sorted([*range(10), *(n for n in range(10, 30) if n % 3 == 2)])


@pytest.mark.feature("run.selfUnion", "offsets.lateBinding")
def test_reuse_same_dataframe_in_query(kafka: KafkaFrames, topics: Topics) -> None:
    topic = topics.create()
    write_range(topics, topic, 0, 10, 0)
    df = kafka.read(subscribe=topic)
    assert numbers(df.union(df)) == sorted([*range(10)] * 2)


@pytest.mark.feature("offsets.lateBinding", "offsets.special")
def test_late_binding_start_offsets(kafka: KafkaFrames, topics: Topics) -> None:
    topic = topics.create()
    write_range(topics, topic, 0, 10, 0)
    df = kafka.read(subscribe=topic, startingOffsets="earliest", endingOffsets="latest")
    assert numbers(df) == list(range(10))
    topics.delete_before(topic, 10)
    write_range(topics, topic, 10, 20, 0)
    assert numbers(df) == list(range(10, 20))


@pytest.mark.feature("transactions.committed", "transactions.aborted", "transactions.open", "source.isolationLevel")
@pytest.mark.feature("transactions.uncommitted")
def test_read_kafka_transactional_messages(kafka: KafkaFrames, topics: Topics, any_broker: AnyBroker) -> None:
    topic = topics.create()
    writer = TransactionalWriter(kafka.servers, unique("relation"))

    def read(level: str) -> DataFrame:
        return kafka.read(subscribe=topic, kafka__isolation__level=level)

    committed, everything = read("read_committed"), read("read_uncommitted")
    writer.begin()
    writer.send(topic, range(1, 6))
    assert (numbers(committed), numbers(everything)) == ([], [*range(1, 6)])
    writer.commit()
    assert topics.ends(topic) == {0: 6}, "a marker after the records"
    assert (numbers(committed), numbers(everything)) == ([*range(1, 6)], [*range(1, 6)])
    with writer.transaction(abort=True):
        writer.send(topic, range(6, 11))
    assert topics.ends(topic) == {0: 12}
    assert (numbers(committed), numbers(everything)) == ([*range(1, 6)], [*range(1, 11)])
    with writer.transaction():
        writer.send(topic, range(11, 16))
    assert topics.ends(topic) == {0: 18}
    assert (numbers(committed), numbers(everything)) == ([*range(1, 6), *range(11, 16)], [*range(1, 16)])


@pytest.mark.feature("source.minPartitions", "split.minPartitions", "split.one", "offsets.lateBinding")
def test_min_partitions(kafka: KafkaFrames, topics: Topics, topic: str) -> None:
    df = kafka.read(subscribe=topic, minPartitions=6)
    assert df.rdd.getNumPartitions() >= 6
    assert numbers(df) == list(range(21))
    write_range(topics, topic, 21, 31, 2)
    assert numbers(df) == list(range(31)), "pieces at the edges still take what came later"
    assert kafka.read(subscribe=topic).rdd.getNumPartitions() == 3


@pytest.mark.feature("more.maxPartitions", "offsets.lateBinding", "loss.agedOut")
def test_max_partitions(kafka: KafkaFrames, topics: Topics) -> None:
    topic = topics.create(20)
    topics.write(topic, [str(n) for n in range(200)], partition=[n % 20 for n in range(200)])
    df = kafka.read(subscribe=topic, maxPartitions=3)
    assert df.rdd.getNumPartitions() == 3
    assert numbers(df) == list(range(200))
    topics.write(topic, [str(n) for n in range(200, 300)], partition=[7] * 100)
    assert numbers(df) == list(range(300))
    from_first: dict[str, Any] = {
        "subscribe": topic,
        "startingOffsets": offsets_json(topic, dict.fromkeys(range(20), 0)),
        "maxPartitions": 2,
    }
    careful, careless = kafka.read(**from_first), kafka.read(**from_first, failOnDataLoss="false")
    assert [frame.rdd.getNumPartitions() for frame in (careful, careless)] == [2, 2]
    topics.delete_before(topic, 5, partition=3)
    assert f"offsets [0, 5) of {topic}-3 were deleted before they were read" in error_text(careful.count)
    assert numbers(careless) == [n for n in range(300) if n not in {3, 23, 43, 63, 83}]


@pytest.mark.feature("source.maxRecordsPerPartition", "better.batchMaxRecords")
def test_max_records_per_partition_from_earliest_to_latest(kafka: KafkaFrames, topic: str) -> None:
    df = kafka.read(subscribe=topic, maxRecordsPerPartition=4)
    assert numbers(df) == list(range(21))
    assert df.rdd.getNumPartitions() == 3 + 3 + 1


@pytest.mark.feature("offsets.order", "offsets.sets")
def test_topic_partition_for_start_offset_and_end_offset_must_match(kafka: KafkaFrames) -> None:
    offsets = {"startingOffsets": '{"t":{"0":0,"1":0}}', "endingOffsets": '{"t":{"0":5}}'}
    text = error_text(lambda: kafka.read(subscribe="t", **offsets))
    assert "option 'endingOffsets': must name the same partitions as 'startingOffsets'; not in both: t-1" in text


@pytest.mark.feature("offsets.order")
def test_unresolved_start_offset_greater_than_end_offset(kafka: KafkaFrames) -> None:
    offsets = {"startingOffsets": '{"t":{"0":1}}', "endingOffsets": '{"t":{"0":0}}'}
    text = error_text(lambda: kafka.read(subscribe="t", **offsets))
    assert "the start offset 1 is greater than the end offset 0 for t-0" in text
    times = {"startingTimestamp": "2", "endingTimestamp": "1"}
    text = error_text(lambda: kafka.read(subscribe="t", **times))
    assert "the start timestamp 2 is greater than the end timestamp 1" in text


@pytest.mark.feature("offsets.order")
def test_resolved_start_offset_greater_than_end_offset(kafka: KafkaFrames, topics: Topics) -> None:
    """By a time, and by a log that is shorter than the given start."""
    topic, empty = topics.create(2), topics.create()
    topics.write(topic, ["a", "b", "a", "b"], partition=[0, 0, 1, 1], timestamps=[T1, T2] * 2)
    by_time = kafka.read(
        subscribe=topic,
        startingOffsets=offsets_json(topic, {0: 3, 1: 3}),
        endingOffsetsByTimestamp=offsets_json(topic, {0: T2, 1: T2}),
    )
    text = error_text(by_time.count)
    assert f"the resolved start offset 3 is greater than the resolved end offset 1 for {topic}-0" in text
    by_latest = kafka.read(subscribe=empty, startingOffsets=offsets_json(empty, {0: 1}), endingOffsets="latest")
    text = error_text(by_latest.count)
    assert f"the resolved start offset 1 is greater than the resolved end offset 0 for {empty}-0" in text
