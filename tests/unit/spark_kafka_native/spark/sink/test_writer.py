import pickle
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pytest
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from spark_kafka_native._client.errors import NoSuchPartition, ProduceError, RecordTooLarge
from spark_kafka_native._client.lookup_tables.file_store import FileStore
from spark_kafka_native._client.partitioning.bucket_table import BucketTable
from spark_kafka_native._client.partitioning.lookup import BucketTables
from spark_kafka_native._client.partitioning.partitioner_names import PartitionerError
from spark_kafka_native._net.address import HostPort
from spark_kafka_native._net.errors import BrokerUnreachable
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.datasource import PyKafkaDataSource
from spark_kafka_native._spark.errors import OptionError, PlanError, TaskError
from spark_kafka_native._spark.sink import sending
from spark_kafka_native._spark.sink.lookup import PlanningFailed
from spark_kafka_native._spark.sink.writer import PyKafkaStreamWriter, PyKafkaWriter, TaskWritten

T0 = TopicPartition("t", 0)
SCHEMA = StructType([StructField("value", BinaryType()), StructField("topic", StringType())])
OPTIONS = {"kafka.bootstrap.servers": "broker:9092"}


@dataclass
class Notes:
    calls: list[Any] = field(default_factory=list)
    error: KafkaError | PartitionerError | None = None
    error_at: str = "flush"
    partitioner: str | BucketTables | None = None

    def producer(
        self, _: object, *, partitioner: str | BucketTables | None, reuse_producer_id: bool
    ) -> "NotingProducer":
        assert reuse_producer_id
        self.partitioner = partitioner
        return NotingProducer(self)


class NotingProducer:
    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._notes.calls.append("close" if kind is None else "abort")

    def look_up(self, topics: Iterable[str]) -> None:
        self._note("look_up", ("look_up", *topics))

    def send(self, topic: str, rows: pa.RecordBatch) -> None:
        self._note("send", (topic, rows.column("value").to_pylist()))

    def flush(self) -> None:
        self._note("flush", "flush")

    def _note(self, name: str, call: object) -> None:
        if self._notes.error is not None and self._notes.error_at == name:
            raise self._notes.error
        self._notes.calls.append(call)


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> Notes:
    made = Notes()
    monkeypatch.setattr(sending, "Producer", made.producer)
    return made


def batch(values: list[bytes], topics: list[str | None]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary()), "topic": pa.array(topics, pa.string())})


def writers(**options: str) -> list[PyKafkaWriter | PyKafkaStreamWriter]:
    source = PyKafkaDataSource(OPTIONS | options)
    return [
        source.writer(SCHEMA, overwrite=False),
        source.streamWriter(SCHEMA, overwrite=False),
        source.streamWriter(SCHEMA, overwrite=True),
    ]


@pytest.mark.parametrize("which", [0, 1, 2])
def test_rows_are_sent_flushed_and_counted(notes: Notes, which: int) -> None:
    task = pickle.loads(pickle.dumps(writers()[which]))
    message = task.write(iter([batch([b"1", b"2"], ["y", "x"]), batch([b"3"], ["y"])]))
    assert notes.calls == [("look_up", "y", "x"), ("y", [b"1", b"3"]), ("x", [b"2"]), "flush", "close"]
    assert message == TaskWritten(rows_by_topic=(("x", 1), ("y", 2)))
    assert message.rows == 3
    assert isinstance(pickle.loads(pickle.dumps(message)), WriterCommitMessage)


def test_task_without_rows_returns_a_message(notes: Notes) -> None:
    assert writers()[0].write(iter([])) == TaskWritten(rows_by_topic=())
    assert notes.calls == ["flush", "close"]


def test_overwrite_is_refused_in_a_batch() -> None:
    with pytest.raises(OptionError, match=r"only ever appended to; use mode\('append'\)"):
        PyKafkaDataSource(OPTIONS | {"topic": "t"}).writer(SCHEMA, overwrite=True)


def test_null_topic_writes_nothing(notes: Notes) -> None:
    with pytest.raises(PlanError, match="KAFKA_NULL_TOPIC_IN_DATA"):
        writers()[0].write(iter([batch([b"1"], [None])]))
    assert notes.calls == ["abort"]


@pytest.mark.feature("sink.partitionerChoice")
@pytest.mark.parametrize(
    ("options", "partitioner"), [({}, None), ({"partitioner": "Round_Robin"}, "round_robin"), ({"topic": "t"}, None)]
)
def test_the_producer_is_given_the_partitioner(notes: Notes, options: dict[str, str], partitioner: str | None) -> None:
    writers(**options)[0].write(iter([]))
    assert notes.partitioner == partitioner


@pytest.mark.feature("sink.partitionerChoice", "sink.partitioner")
def test_invalid_partitioners() -> None:
    sticky = "org.apache.kafka.clients.producer.UniformStickyPartitioner"
    with pytest.raises(OptionError, match=r"option 'partitioner': contradicts 'kafka.partitioner.class'"):
        writers(**{"partitioner": "sticky", "kafka.partitioner.class": sticky})
    with pytest.raises(OptionError, match=r"option 'partitioner': 'mine' is neither module:function nor one of"):
        writers(partitioner="mine")
    with pytest.raises(OptionError, match=r"option 'kafka.partitioner.class': .*RoundRobinPartitioner"):
        writers(**{"kafka.partitioner.class": "com.example.Mine"})


@pytest.mark.feature("sink.lookup")
def test_partitioner_lookup_and_its_option_need_each_other() -> None:
    with pytest.raises(OptionError, match="option 'lookupTable': is required with option 'partitioner' = lookup"):
        writers(partitioner="lookup")
    for options in ({}, {"partitioner": "sticky"}):
        with pytest.raises(OptionError, match="option 'lookupTable': requires option 'partitioner' = lookup"):
            writers(lookupTable="topic:x", **options)
    with pytest.raises(OptionError, match="option 'lookupTable': 'x' must be topic:NAME or file:/PATH"):
        writers(partitioner="lookup", lookupTable="x")


@pytest.mark.feature("sink.lookup")
@pytest.mark.parametrize("which", [0, 1, 2])
def test_all_tasks_have_the_tables_of_when_the_writer_was_pickled(notes: Notes, tmp_path: Path, which: int) -> None:
    store = FileStore(str(tmp_path / "tables.json"))
    first = store.change("t", lambda _: BucketTable.create("t", 2))
    made = writers(partitioner="lookup", lookupTable=str(store))
    planned = pickle.dumps(made[which])
    second = store.change("t", lambda table: table and table.reorganize(3))
    for data, expected in (
        (planned, first),
        (pickle.dumps(made[which]), first),
        (pickle.dumps(made[which - 1]), second),
    ):
        pickle.loads(data).write(iter([]))
        assert isinstance(notes.partitioner, BucketTables)
        assert notes.partitioner.tables["t"].same_as(expected)


@pytest.mark.feature("sink.lookup")
def test_a_topic_without_a_table_sends_no_row_of_its_batch(notes: Notes, tmp_path: Path) -> None:
    store = FileStore(str(tmp_path / "tables.json"))
    store.change("y", lambda _: BucketTable.create("y", 2))
    task = pickle.loads(pickle.dumps(writers(partitioner="lookup", lookupTable=str(store))[0]))
    with pytest.raises(TaskError, match=r"writing failed: topic x has no table in file:.*Option 'lookupTable' names"):
        task.write(iter([batch([b"1", b"2"], ["y", "x"])]))
    assert notes.calls == ["abort"]


def test_tables_that_cannot_be_read_are_an_error_of_pickling(tmp_path: Path) -> None:
    (tmp_path / "tables.json").write_text("{", encoding="utf-8")
    writer = writers(partitioner="lookup", lookupTable=f"file:{tmp_path}/tables.json")[0]
    with pytest.raises(PlanningFailed, match="option 'lookupTable': the write could not be planned, and nothing was"):
        pickle.dumps(writer)


@pytest.mark.feature("sink.client")
@pytest.mark.parametrize(
    "name", ["kafka.transactional.id", "kafka.key.serializer", "kafka.value.serializer", "kafka.interceptor.classes"]
)
def test_client_properties_that_are_refused_by_name(name: str) -> None:
    with pytest.raises(OptionError, match=f"option '{name}': is not supported[:;] "):
        writers(**{name: "anything"})


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (PartitionerError("partitioner a:b returned partition 9; the topic has 0 to 3"), "Option 'partitioner'"),
        (ProduceError(T0, ErrorCode.INVALID_TIMESTAMP, "too old", 5), "message.timestamp.before.max.ms"),
        (BrokerUnreachable({HostPort("broker", 9092): "connection refused"}), "'kafka.max.block.ms'"),
        (RecordTooLarge("t", 3, 2_000_000, 1_048_576), "A retry does not help."),
        (NoSuchPartition(TopicPartition("t", 7), 4), "column 'partition'"),
        (ProduceError(T0, ErrorCode.MESSAGE_TOO_LARGE, "too large", 5), "Raise the topic's max.message.bytes"),
        (ProduceError(T0, ErrorCode.REQUEST_TIMED_OUT, "no response", 5), "'kafka.delivery.timeout.ms'"),
        (KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "topic t"), "'kafka.max.block.ms'"),
        (ProduceError(T0, ErrorCode.RECORD_LIST_TOO_LARGE, "too large", 5), "Lower option 'kafka.batch.size'"),
        (ProduceError(T0, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no", 5), "Give the user this permission."),
    ],
)
@pytest.mark.parametrize("at", ["send", "flush"])
def test_failed_write_task_names_option(notes: Notes, error: KafkaError | PartitionerError, says: str, at: str) -> None:
    notes.error, notes.error_at = error, at
    with pytest.raises(TaskError) as caught:
        writers(topic="t")[0].write(iter([batch([b"1"], ["x"])]))
    text = str(caught.value)
    assert str(error) in text
    assert says in text
    assert "Rows of this task that were acknowledged stay in their topics" in text
    assert "No row was lost" not in text
    assert notes.calls[-1] == "abort"


def test_commit_and_abort_count_what_tasks_wrote(caplog: pytest.LogCaptureFixture) -> None:
    messages = [TaskWritten(rows_by_topic=(("x", 1),)), None, TaskWritten(rows_by_topic=(("x", 2), ("y", 3)))]
    batch_writer, stream_writer, _ = writers()
    assert isinstance(batch_writer, PyKafkaWriter)
    assert isinstance(stream_writer, PyKafkaStreamWriter)
    batch_writer.commit(messages)
    stream_writer.commit(messages, 7)
    assert caplog.text == ""
    batch_writer.abort(messages)
    stream_writer.abort(messages, 7)
    assert "rows of tasks that succeeded stay in their topics: 6" in caplog.messages[0]
    assert "batch 7 failed; rows" in caplog.messages[1]
