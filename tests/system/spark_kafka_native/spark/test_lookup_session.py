"""``partitioner=lookup`` in Spark: a batch uses one version of a table, and the next batch may use a later one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.lookup_tables.stores import Store, store_of
from spark_kafka_native._client.partitioning.bucket_table import BucketTable
from spark_kafka_native._client.partitioning.partitioner_names import TableLocation
from tests.support.clients.native import config_of
from tests.support.clients.topics import Topics
from tests.support.spark.queries import KafkaFrames, error_text, unique, wait_for

pytestmark = pytest.mark.spark

USERS = "SELECT CAST(id AS STRING) AS key, 'v' AS value FROM range(0, 100, 1, 4)"


@pytest.fixture
def frames(spark: SparkSession, servers: str) -> KafkaFrames:
    return KafkaFrames(spark, servers)


@pytest.fixture(params=["topic", "file"])
def location(request: pytest.FixtureRequest, topics: Topics, tmp_path: Path) -> TableLocation:
    name = topics.create(1, prefix="lookup", cleanup_policy="compact")
    text = f"topic:{name}" if request.param == "topic" else f"file:{tmp_path / 'tables.json'}"
    return TableLocation.parse(text)


@pytest.fixture
def store(servers: str, location: TableLocation) -> Iterator[Store]:
    with Cluster(config_of(servers)) as cluster:
        yield store_of(cluster, location)


def create(store: Store, topic: str, partitions: int = 4) -> BucketTable:
    table = BucketTable.create(topic, partitions)
    store.change(topic, lambda _: table)
    return table


def partition_of(table: BucketTable, key: bytes | None) -> int:
    return int(table.partitions_of(pa.array([key], pa.binary()))[0])


def assert_placed(topics: Topics, topic: str, table: BucketTable, from_offsets: dict[int, int] | None = None) -> None:
    """Assert that 100 records after the offsets are where the table has their keys."""
    starts = from_offsets or {}
    records = [each for each in topics.read(topic) if each.offset >= starts.get(each.partition, 0)]
    assert len(records) == 100
    assert [each.partition for each in records] == [partition_of(table, each.key) for each in records]


@pytest.mark.feature("sink.lookup")
def test_batches_go_by_the_table_until_it_is_reorganized(
    frames: KafkaFrames, topics: Topics, store: Store, location: TableLocation
) -> None:
    topic = topics.create(4)
    table = create(store, topic)
    options: dict[str, Any] = {"topic": topic, "partitioner": "lookup", "lookupTable": location}
    frames.write(USERS, **options)
    assert_placed(topics, topic, table)
    topics.add_partitions(topic, 6)
    before = topics.ends(topic)
    frames.write(USERS, **options)
    assert_placed(topics, topic, table, before)
    wide = store.change(topic, lambda found: None if found is None else found.reorganize(6))
    assert wide is not None
    before = topics.ends(topic)
    frames.write(USERS, **options)
    assert_placed(topics, topic, wide, before)
    assert topics.ends(topic)[5] > 0


@pytest.mark.feature("sink.lookup", "sink.exactlyOnce")
@pytest.mark.parametrize("exactly_once", [False, True])
def test_a_running_query_uses_a_reorganized_table_from_its_next_micro_batch(
    frames: KafkaFrames, topics: Topics, store: Store, location: TableLocation, tmp_path: Path, exactly_once: bool
) -> None:
    source, topic = topics.create(2), topics.create(4)
    table = create(store, topic)
    options: dict[str, Any] = {"topic": topic, "partitioner": "lookup", "lookupTable": location}
    if exactly_once:
        options |= {"delivery__guarantee": "exactly-once", "transactional__id__prefix": unique("lookup")}
    users = [str(number) for number in range(100)]
    stream = frames.stream(subscribe=source, startingOffsets="earliest", schema="key binary, value binary")
    query = frames.write_stream(stream, tmp_path / "checkpoint", trigger={"processingTime": "0 seconds"}, **options)
    try:
        topics.write(source, users, keys=users, partition=[number % 2 for number in range(100)])
        wait_for(lambda: len(topics.read(topic)), 100, query)
        query.processAllAvailable()
        assert_placed(topics, topic, table)
        topics.add_partitions(topic, 6)
        wide = store.change(topic, lambda found: None if found is None else found.reorganize(6))
        assert wide is not None
        before = topics.ends(topic)
        topics.write(source, users, keys=users)
        wait_for(lambda: len(topics.read(topic)), 200, query)
        query.processAllAvailable()
        assert_placed(topics, topic, wide, before)
    finally:
        query.stop()


@pytest.mark.feature("sink.lookup")
def test_an_exactly_once_batch_goes_by_the_table(
    frames: KafkaFrames, topics: Topics, store: Store, location: TableLocation
) -> None:
    topic = topics.create(4)
    table = create(store, topic)
    guarantee: dict[str, Any] = {"delivery__guarantee": "exactly-once", "transactional__id__prefix": unique("lookup")}
    frames.write(USERS, topic=topic, partitioner="lookup", lookupTable=location, **guarantee)
    assert_placed(topics, topic, table)


@pytest.mark.feature("sink.lookup")
@pytest.mark.parametrize("exactly_once", [False, True])
def test_a_topic_without_a_table_is_an_error_before_rows_are_written(
    frames: KafkaFrames, topics: Topics, store: Store, location: TableLocation, exactly_once: bool
) -> None:
    known, unknown = topics.create(4), topics.create(4)
    create(store, known)
    options: dict[str, Any] = {"partitioner": "lookup", "lookupTable": location}
    if exactly_once:
        options |= {"delivery__guarantee": "exactly-once", "transactional__id__prefix": unique("lookup")}
    text = error_text(lambda: frames.write(USERS, topic=unknown, **options))
    command = f"--lookup-table {location} --create --topic {unknown}"
    assert f"topic {unknown} has no table in {location}; create it: pykafka lookup-table --bootstrap-server" in text
    assert command in text
    assert "option 'lookupTable': the write could not be planned, and nothing was written" in text
    both = f"SELECT 'k' AS key, 'v' AS value, explode(array('{known}', '{unknown}')) AS topic"
    text = error_text(lambda: frames.write(both, **options))
    assert f"topic {unknown} has no table in {location}; create it" in text
    assert "Option 'lookupTable' names where the tables are" in text
    assert topics.read(known) == topics.read(unknown) == []


def test_a_topic_that_is_narrower_than_its_table_is_an_error_before_rows_are_written(
    frames: KafkaFrames, topics: Topics, store: Store, location: TableLocation
) -> None:
    topic = topics.create(2)
    create(store, topic, partitions=3)
    options: dict[str, Any] = {"partitioner": "lookup", "lookupTable": location}
    text = error_text(lambda: frames.write(USERS, topic=topic, **options))
    assert f"nothing was written: topic {topic} has 2 partitions, and its look-up table in {location} has 3" in text
    text = error_text(lambda: frames.write(f"SELECT *, '{topic}' AS topic FROM ({USERS})", **options))
    assert f"topic {topic} has 2 partitions, and its look-up table in {location} has 3" in text
    assert topics.read(topic) == []
