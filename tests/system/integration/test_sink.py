import sys
import time
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.datasource import PyKafkaDataSource
from spark_kafka_native._spark.errors import PlanError, TaskError
from tests.support.clients.native import config_of
from tests.support.clients.topics import Record, Topics
from tests.support.features.feature import showing
from tests.support.scripted.fetched_logs import OneRange
from tests.support.servers.brokers import AnyBroker, TopicMaker, stored_batches
from tests.support.waiting import eventually

NOON_MS = 1_700_000_000_123
HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
TYPES: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "headers": HEADERS,
    "timestamp": TimestampType(),
    "other": IntegerType(),
}
ARROW = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "other": pa.int32(),
}


class Sink:
    def __init__(self, broker: AnyBroker | EmbeddedBroker, topics: Topics) -> None:
        self.broker, self.topics = broker, topics

    def write(
        self,
        columns: dict[str, list[Any]],
        types: dict[str, tuple[DataType, pa.DataType]] | None = None,
        **options: Any,
    ) -> None:
        """Append rows, given by column; ``kafka__acks`` is the option ``kafka.acks``."""
        kinds = {name: (TYPES[name], ARROW[name]) for name in columns} | (types or {})
        named = {name.replace("__", "."): str(value) for name, value in options.items()}
        source = PyKafkaDataSource({"kafka.bootstrap.servers": self.broker.bootstrap_servers} | named)
        schema = StructType([StructField(name, kinds[name][0]) for name in columns])
        rows = pa.RecordBatch.from_pydict({name: pa.array(column, kinds[name][1]) for name, column in columns.items()})
        writer = source.writer(schema, overwrite=False)
        message = writer.write(iter([rows]))
        assert message.rows == rows.num_rows
        writer.commit([message])

    def read(self, topic: str) -> list[Record]:
        return self.topics.read(topic)

    def times(self, topic: str, count: int) -> list[tuple[int, int]]:
        """Time in ms and type of time of each record of a topic's first partition."""
        columns = ("timestamp", "timestamp_type")
        with (
            Cluster(config_of(self.broker.bootstrap_servers)) as cluster,
            OneRange(cluster, TopicPartition(topic, 0), 0, count, columns=columns) as fetcher,
        ):
            fetched = list(fetcher)
        table = pa.Table.from_batches(fetched)
        millis: Any = table.column("timestamp").cast(pa.timestamp("ms")).cast(pa.int64())
        kinds: Any = table.column("timestamp_type")
        return list(zip(millis.to_pylist(), kinds.to_pylist(), strict=True))


@pytest.fixture
def sink(any_broker: AnyBroker) -> Iterator[Sink]:
    with Topics(any_broker.bootstrap_servers) as topics:
        yield Sink(any_broker, topics)


def moment(ms: int) -> int:
    """A time as a column of microseconds holds it."""
    return ms * 1000


@pytest.fixture
def topic(new_topic: TopicMaker) -> str:
    return new_topic()


@pytest.mark.feature("sink.value", "sink.key")
@pytest.mark.parametrize(("spark_type", "arrow_type"), [(StringType(), pa.string()), (BinaryType(), pa.binary())])
def test_value_and_key_string_or_binary(sink: Sink, spark_type: DataType, arrow_type: pa.DataType, topic: str) -> None:
    texts: Any = pa.array(["ü", "", None, "b"]).cast(arrow_type)
    column = texts.to_pylist()
    kinds = {"value": (spark_type, arrow_type), "key": (spark_type, arrow_type)}
    sink.write({"value": column, "key": column[::-1]}, kinds, topic=topic)
    assert [(row.key, row.value) for row in sink.read(topic)] == [
        (b"b", "ü".encode()),
        (None, b""),
        (b"", None),
        ("ü".encode(), b"b"),
    ]


@pytest.mark.feature("sink.key", "sink.extraColumns")
def test_key_missing_is_null_and_other_columns_are_ignored(sink: Sink, topic: str) -> None:
    sink.write({"other": [1], "value": [b"a"]}, topic=topic)
    assert sink.read(topic) == [Record(0, 0, None, b"a", None)]


@pytest.mark.feature("sink.topicColumn", "sink.topic")
def test_topic_column_and_option_the_option_wins(sink: Sink, new_topic: TopicMaker) -> None:
    first, second = new_topic(), new_topic()
    columns: dict[str, list[Any]] = {"value": [b"1", b"2", b"3"], "topic": [first, second, first]}
    sink.write(columns)
    assert ([row.value for row in sink.read(first)], [row.value for row in sink.read(second)]) == ([b"1", b"3"], [b"2"])
    sink.write(columns | {"topic": [None] * 3}, topic=f" {second} ")
    assert [row.value for row in sink.read(second)] == [b"2", b"1", b"2", b"3"]


@pytest.mark.feature("sink.topicColumn")
def test_null_topic_without_the_option(sink: Sink) -> None:
    with pytest.raises(PlanError, match=r"\[KAFKA_NULL_TOPIC_IN_DATA\] .* is null in 1 of 1 row;"):
        sink.write({"value": [b"a"], "topic": [None]})


@pytest.mark.feature("sink.headers", "sink.includeHeaders")
@pytest.mark.parametrize("include", ["true", "false"])
def test_headers_with_duplicates_and_nulls_whatever_include_headers_says(sink: Sink, include: str, topic: str) -> None:
    headers = [[{"key": "a", "value": b"1"}, {"key": "a", "value": None}, {"key": "", "value": b""}], [], None]
    sink.write({"value": [b"v"] * 3, "headers": headers}, topic=topic, includeHeaders=include)
    written = [row.headers for row in sink.read(topic)]
    assert written == [[("a", b"1"), ("a", None), ("", b"")], None, None]


@pytest.mark.feature("sink.headers")
def test_null_header_key(sink: Sink, topic: str) -> None:
    with pytest.raises(PlanError, match=r"\[KAFKA_NULL_HEADER_KEY_IN_DATA\]"):
        sink.write({"value": [b"v"], "headers": [[{"key": None, "value": b"1"}]]}, topic=topic)
    assert sink.read(topic) == []


@pytest.mark.feature("sink.headersMap")
def test_headers_as_a_map_of_strings(sink: Sink, topic: str) -> None:
    strings: tuple[DataType, pa.DataType] = (MapType(StringType(), StringType()), pa.map_(pa.string(), pa.string()))
    sink.write({"value": [b"v"], "headers": [[("z", "ä"), ("a", None)]]}, {"headers": strings}, topic=topic)
    assert sink.read(topic)[0].headers == [("z", "ä".encode()), ("a", None)]


def spread(sink: Sink, topic: str, columns: dict[str, list[Any]], **options: Any) -> list[int]:
    """The partitions of the next rows, in the order of their values."""
    before = len(sink.read(topic))
    sink.write(columns, topic=topic, **options)
    found = {row.value: row.partition for row in sink.read(topic)}
    assert len(sink.read(topic)) == before + len(columns["value"])
    return [found[value] for value in columns["value"]]


@pytest.mark.feature("sink.partition", "sink.partitioner")
def test_partition_column_then_partitioner_then_murmur2(sink: Sink, new_topic: TopicMaker) -> None:
    topic = new_topic(4)
    keys = [b"1", b"2", b"3", b"4", b"5"]
    rows: dict[str, list[Any]] = {"key": keys, "value": [b"default-%d" % row for row in range(5)]}
    by_default = spread(sink, topic, rows)
    # As Java's default partitioner has them: murmur2 of the key modulo 4.
    assert by_default == [3, 0, 3, 1, 2]
    rows["value"] = [b"given-%d" % row for row in range(5)]
    assert spread(sink, topic, rows | {"partition": [2] * 5}) == [2] * 5
    rows["value"] = [b"null-%d" % row for row in range(5)]
    assert spread(sink, topic, rows | {"partition": [None, 1, None, None, None]}) == [by_default[0], 1, *by_default[2:]]
    rows["value"] = [b"turn-%d" % row for row in range(5)]
    round_robin = "org.apache.kafka.clients.producer.RoundRobinPartitioner"
    in_turn = spread(sink, topic, rows, kafka__partitioner__class=round_robin)
    assert [(number - in_turn[0]) % 4 for number in in_turn] == [0, 1, 2, 3, 0]


@pytest.mark.feature("sink.partitionerChoice")
def test_partitioner_by_name_and_by_a_users_function(
    sink: Sink, new_topic: TopicMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("users_partitioners")
    vars(module)["zero"] = lambda keys, partitions: pa.array([0] * len(keys))
    vars(module)["none"] = lambda keys, partitions: [partitions] * len(keys)
    monkeypatch.setitem(sys.modules, "users_partitioners", module)
    topic = new_topic(4)
    rows: dict[str, list[Any]] = {"key": [b"a", b"order-1", None], "value": [b"crc-0", b"crc-1", b"crc-2"]}
    assert spread(sink, topic, rows, partitioner="consistent_random")[:2] == [3, 3]
    rows["value"] = [b"own-0", b"own-1", b"own-2"]
    own = rows | {"partition": [None, 1, None]}
    assert spread(sink, topic, own, partitioner="users_partitioners:zero") == [0, 1, 0]
    with pytest.raises(TaskError, match=r"users_partitioners:none returned partition 4; the topic has 0 to 3"):
        sink.write(rows, topic=topic, partitioner="users_partitioners:none")


@pytest.mark.feature("sink.partition")
def test_partition_that_the_topic_does_not_have(sink: Sink, new_topic: TopicMaker) -> None:
    topic = new_topic(2)
    with pytest.raises(TaskError, match=rf"{topic}-2 does not exist: the topic has 2 partitions"):
        sink.write({"value": [b"a"], "partition": [2]}, topic=topic)


@pytest.mark.feature("sink.missingTopic")
def test_missing_topic_fails_after_max_block_ms() -> None:
    with (
        EmbeddedBroker(settings={"auto.create.topics.enable": "false"}) as broker,
        Topics(broker.bootstrap_servers) as topics,
        pytest.raises(TaskError, match=r"writing failed: .*absent.* 'kafka.max.block.ms' bounds the wait"),
    ):
        Sink(broker, topics).write({"value": [b"a"]}, topic="absent", kafka__max__block__ms=300)


@pytest.mark.feature("sink.topicColumn")
def test_topic_names_that_cannot_be(sink: Sink) -> None:
    with pytest.raises(TaskError, match=r"writing failed: "):
        sink.write({"value": [b"a"], "topic": [".."]})


@pytest.mark.feature("sink.timestamp")
def test_timestamp_is_the_records_time(sink: Sink, topic: str) -> None:
    before = int(time.time() * 1000)
    times = [moment(NOON_MS) + 999, None, moment(NOON_MS + 50), -1000, 0]
    sink.write({"value": [b"v"] * 5, "timestamp": times}, topic=topic, includeTimestamp="true")
    found = sink.times(topic, 5)
    assert [kind for _, kind in found] == [0] * 5
    assert [found[0][0], found[2][0], found[4][0]] == [NOON_MS, NOON_MS + 50, 0]
    assert before <= found[1][0] == found[3][0] <= int(time.time() * 1000)
    (batch,) = stored_batches(sink.broker, topic)
    assert batch.max_timestamp == found[1][0]


@pytest.mark.feature("sink.timestamp")
def test_timestamp_on_topics_that_keep_their_own_time(sink: Sink, new_topic: TopicMaker) -> None:
    topic = new_topic(message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000)
    columns: dict[str, list[Any]] = {"value": [b"v"] * 2, "timestamp": [moment(NOON_MS), None]}
    sink.write(columns, topic=topic, includeTimestamp="true")
    assert [kind for _, kind in sink.times(topic, 2)] == [1, 1]
    assert min(ms for ms, _ in sink.times(topic, 2)) >= before - 1000


@pytest.mark.feature("sink.timestamp")
def test_timestamp_ignored_unless_configured(sink: Sink, topic: str) -> None:
    sink.write({"value": [b"v"], "timestamp": [moment(NOON_MS)]}, topic=topic)
    assert sink.times(topic, 1)[0][0] > NOON_MS


@pytest.mark.feature("sink.timestamp")
def test_timestamp_that_the_topic_does_not_take(sink: Sink, new_topic: TopicMaker) -> None:
    topic = new_topic(message_timestamp_before_max_ms="3600000")
    with pytest.raises(TaskError, match=r"message\.timestamp\.before\.max\.ms .* option 'includeTimestamp'"):
        sink.write({"value": [b"v"], "timestamp": [moment(NOON_MS)]}, topic=topic, includeTimestamp="true")
    assert sink.read(topic) == []


@pytest.mark.feature("sink.recordSize")
def test_record_size_is_checked_before_anything_of_its_batch_is_sent(sink: Sink, topic: str) -> None:
    with pytest.raises(TaskError) as caught:
        sink.write({"key": [b"k", b"key"], "value": [b"v", b"v" * 9000]}, topic=topic, kafka__max__request__size=5000)
    text = str(caught.value)
    for part in (
        f"row 1 for topic {topic}",
        "(key 3, value 9000)",
        "more than kafka.max.request.size (5000); ",
        "no row of this batch",
    ):
        assert part in text
    assert sink.read(topic) == []


@pytest.mark.feature("sink.recordSize", "sink.errors")
def test_record_that_the_topic_does_not_take_fails_the_task(sink: Sink, new_topic: TopicMaker) -> None:
    topic = new_topic(max_message_bytes="2000")
    with pytest.raises(TaskError, match=r"Raise the topic's max\.message\.bytes"):
        sink.write({"value": [b"v" * 3000]}, topic=topic)


@pytest.mark.parametrize(
    ("options", "batches", "codec", "is_idempotent"),
    [
        showing({"kafka__acks": "0", "kafka__linger__ms": "0"}, 1, "NONE", False, shows="sink.client"),
        showing({"kafka__acks": "1", "kafka__batch__size": "1"}, 300, "NONE", False, shows="sink.client"),
        showing(
            {"kafka__compression__type": "zstd", "kafka__max__request__size": "20000"},
            2,
            "ZSTD",
            True,
            shows="sink.client sink.delivery",
        ),
    ],
)
def test_producer_configs_decide_batches_codec_and_idempotence(
    sink: Sink, options: dict[str, Any], batches: int, codec: str, is_idempotent: bool, topic: str
) -> None:
    """Idempotence needs acks from all replicas, so weaker acks turn it off."""
    sink.write({"value": [b"x" * 100] * 300}, topic=topic, **options)
    # With acks=0 the records may not be in the log yet.
    eventually(lambda: sum(batch.records_count for batch in stored_batches(sink.broker, topic)), 300)
    found = [(batch.compression.name, batch.producer_id >= 0) for batch in stored_batches(sink.broker, topic)]
    assert found == [(codec, is_idempotent)] * batches


def producers_of(sink: Sink, topic: str) -> list[tuple[int, int]]:
    """Producer id and first sequence number of each batch in a topic's first partition."""
    return [(batch.producer_id, batch.base_sequence) for batch in stored_batches(sink.broker, topic)]


def test_tasks_of_one_worker_share_a_producer_id(sink: Sink, topic: str) -> None:
    for number in range(4):
        sink.write({"value": [b"%d" % number]}, topic=topic, kafka__client__id="tasks-of-one-worker")
    eventually(lambda: len(producers_of(sink, topic)), 4)
    found = producers_of(sink, topic)
    assert found == [(found[0][0], sequence) for sequence in range(4)]
    assert [row.value for row in sink.read(topic)] == [b"0", b"1", b"2", b"3"]


def test_rows_are_stored_after_records_or_the_topic_of_a_producer_id_are_deleted(
    sink: Sink, new_topic: TopicMaker
) -> None:
    topic, other = new_topic(), new_topic()
    client: dict[str, Any] = {"topic": topic, "kafka__client__id": "deleted-in-between"}
    sink.write({"value": [b"a", b"b"]}, **client)
    sink.topics.delete_before(topic, 2)
    sink.write({"value": [b"c"]}, **client)
    assert [row.value for row in sink.read(topic)] == [b"c"]
    sink.topics.delete(topic)
    sink.topics.create(name=topic)
    sink.write({"value": [b"d"]}, **client)
    sink.write({"value": [b"e"]}, **client)
    assert [row.value for row in sink.read(topic)] == [b"d", b"e"]
    sink.write({"value": [b"f"]}, **client | {"topic": other})
    ((producer_id, sequence),) = producers_of(sink, other)
    assert producer_id in {found for found, _ in producers_of(sink, topic)}
    assert sequence == 0


def test_the_producer_id_of_a_failed_task_is_not_used_again(sink: Sink, new_topic: TopicMaker) -> None:
    topic = new_topic(max_message_bytes="2000")
    client: dict[str, Any] = {
        "topic": topic,
        "kafka__client__id": "failed-in-between",
        "kafka__compression__type": "none",
    }
    sink.write({"value": [b"a"]}, **client)
    with pytest.raises(TaskError):
        sink.write({"value": [b"v" * 3000]}, **client)
    sink.write({"value": [b"b"]}, **client)
    eventually(lambda: len(producers_of(sink, topic)), 2)
    (first, _), (second, sequence) = producers_of(sink, topic)
    assert first != second
    assert sequence == 0
    assert [row.value for row in sink.read(topic)] == [b"a", b"b"]


@pytest.mark.feature("sink.client")
def test_much_data_with_a_small_buffer(sink: Sink, new_topic: TopicMaker) -> None:
    topic = new_topic(2)
    values = [b"%05d" % row + b"x" * 15_000 for row in range(1000)]
    sink.write({"value": values}, topic=topic, kafka__buffer__memory=16_384)
    assert sorted(row.value or b"" for row in sink.read(topic)) == values
