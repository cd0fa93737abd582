import logging
import pickle
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from broker_embedded.testing import BrokerProcess, EmbeddedBroker
from spark_kafka_native._net.address import HostPort
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._net.errors import AuthenticationFailed
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._spark.datasource import PyKafkaDataSource
from spark_kafka_native._spark.errors import OptionError, TaskError
from spark_kafka_native._spark.exactly_once.batch import TaskOutcome
from spark_kafka_native._spark.exactly_once.errors import ExactlyOnceError
from spark_kafka_native._spark.sink import exactly_once
from spark_kafka_native._spark.sink.effects import carry_out
from spark_kafka_native._spark.sink.exactly_once import (
    ExactlyOnceStreamWriter,
    ExactlyOnceWriter,
    TaskPrepared,
)
from spark_kafka_native._spark.sink.lookup import PlanningFailed
from spark_kafka_native._spark.sink.writer import TaskWritten
from tests.support.clients.topics import Topics
from tests.support.exactly_once.driver import Killed, killed_after_decision
from tests.support.spark.queries import unique
from tests.support.waiting import eventually

SCHEMA = StructType([StructField("value", BinaryType())])


@dataclass
class Context:
    batch_id: str | None = "0"
    query_id: str | None = "c0ffee"
    attempt_id: int = 0

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802  # Spark's name
        return {"streaming.sql.batchId": self.batch_id, "sql.streaming.queryId": self.query_id}[name]

    def taskAttemptId(self) -> int:  # noqa: N802  # Spark's name
        return self.attempt_id


@dataclass
class Sink:
    """Writers in processes of their own, as far as objects tell: what goes from one to the next is pickled."""

    servers: str
    topics: Topics
    committed: Topics
    monkeypatch: pytest.MonkeyPatch
    topic: str = ""
    prefix: str = field(default_factory=lambda: unique("sink"))
    attempts: int = 0

    def __post_init__(self) -> None:
        self.topic = self.topics.create(2)

    @property
    def source(self) -> PyKafkaDataSource:
        return PyKafkaDataSource(
            {
                "kafka.bootstrap.servers": self.servers,
                "topic": self.topic,
                "delivery.guarantee": "exactly-once",
                "transactional.id.prefix": self.prefix,
            }
        )

    def stream_writer(self) -> ExactlyOnceStreamWriter:
        made = self.source.streamWriter(SCHEMA, overwrite=False)
        assert isinstance(made, ExactlyOnceStreamWriter)
        return made

    def writer(self) -> ExactlyOnceWriter:
        made = self.source.writer(SCHEMA, overwrite=False)
        assert isinstance(made, ExactlyOnceWriter)
        return made

    def task(self, planned: bytes, rows: Any, batch_id: int | None = 0, **more: Any) -> TaskPrepared:
        self.attempts += 1
        context = Context(None if batch_id is None else str(batch_id), attempt_id=self.attempts, **more)
        self.monkeypatch.setattr(exactly_once, "_context", lambda: context)
        batches = iter([batch(rows)]) if isinstance(rows, list) else rows
        message: TaskPrepared = pickle.loads(pickle.dumps(pickle.loads(planned).write(batches)))
        return message

    def run(self, batch_id: int, rows: list[str]) -> TaskPrepared:
        message = self.task(pickle.dumps(self.stream_writer()), rows, batch_id)
        self.stream_writer().commit([message], batch_id)
        return message

    def shows(self, values: list[str]) -> None:
        """Assert what can be read, once the last markers are written."""
        expected = [value.encode() for value in values]
        eventually(lambda: self.committed.values(self.topic), expected)


@pytest.fixture
def sink(bundled_broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sink]:
    servers = bundled_broker.bootstrap_servers
    with Topics(servers) as topics, Topics(servers, "read_committed") as committed:
        yield Sink(servers, topics, committed, monkeypatch)


def batch(values: list[str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"value": pa.array([value.encode() for value in values], pa.binary())})


@pytest.mark.feature("sink.exactlyOnce", "sink.exactlyOnceRetries")
def test_a_micro_batch_with_attempts_that_fail_or_lose(sink: Sink) -> None:
    planned = pickle.dumps(sink.stream_writer())
    sink.task(planned, ["a"])  # is killed afterwards, and its message lost
    with pytest.raises(ZeroDivisionError):
        sink.task(planned, (1 / 0 for _ in range(1)))
    messages = [sink.task(planned, ["a"]), sink.task(planned, ["b", "c"]), sink.task(planned, iter([batch([])]))]
    assert [(each.message.outcome, each.rows) for each in messages] == [
        (TaskOutcome.WRITTEN, 1),
        (TaskOutcome.WRITTEN, 2),
        (TaskOutcome.EMPTY, 0),
    ]
    sink.shows([])
    sink.stream_writer().commit(messages, 0)
    sink.shows(["a", "b", "c"])
    assert len(sink.topics.read(sink.topic)) == len("aabc"), "one of them aborted"


@pytest.mark.feature("sink.exactlyOnce")
def test_decided_batch_is_skipped_to_its_last_row(sink: Sink, caplog: pytest.LogCaptureFixture) -> None:
    sink.run(0, ["a", "rest"])
    rows = iter([batch(["a"]), batch(["rest"])])
    message = sink.task(pickle.dumps(sink.stream_writer()), rows)
    assert (message.message.outcome, message.message.rows, next(rows, None)) == (TaskOutcome.SKIPPED, 2, None)
    with caplog.at_level(logging.INFO):
        sink.stream_writer().commit([message], 0)
    assert f"prefix {sink.prefix}: batch 0 was written before with 2 rows and is skipped" in caplog.messages
    sink.run(1, ["b"])
    sink.shows(["a", "b", "rest"])
    with pytest.raises(ExactlyOnceError, match=rf"'transactional.id.prefix' = {sink.prefix}: .* query is at batch 7"):
        sink.run(7, ["c"])


def test_a_writer_is_planned_once_and_by_pickling_alone(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = sink.stream_writer()
    first = pickle.loads(pickle.dumps(writer))
    second = pickle.loads(pickle.dumps(writer))
    assert first._plan == second._plan is not None
    monkeypatch.setattr(exactly_once, "plan_write", lambda _: pytest.fail("planned again"))
    pickle.dumps(first)
    sink.stream_writer().abort([], 0)


@pytest.mark.feature("sink.exactlyOnce")
def test_aborted_batch_has_no_readable_rows(sink: Sink) -> None:
    message = sink.task(pickle.dumps(sink.stream_writer()), ["a"])
    sink.stream_writer().abort([message, None], 0)
    with pytest.raises(ExactlyOnceError, match="FENCED"):
        sink.stream_writer().commit([message], 0)
    sink.run(0, ["b"])
    sink.shows(["b"])


def test_abort_of_a_decided_batch_commits_it(sink: Sink, caplog: pytest.LogCaptureFixture) -> None:
    message = sink.run(0, ["a"])
    sink.stream_writer().abort([message], 0)
    assert f"prefix {sink.prefix}: batch 0 of this run was decided before and is committed" in caplog.messages
    sink.shows(["a"])


def test_messages_of_another_batch_are_not_committed(sink: Sink) -> None:
    message = sink.task(pickle.dumps(sink.stream_writer()), ["a"])
    for messages, batch_id in (([message], 1), ([message, None], 0), ([message, TaskWritten(rows_by_topic=())], 0)):
        with pytest.raises(ExactlyOnceError, match=f"MIXED.* not those of batch {batch_id}"):
            sink.stream_writer().commit(messages, batch_id)


@pytest.mark.feature("sink.exactlyOnceBatch")
def test_batch_writes_one_after_the_other(sink: Sink) -> None:
    for values in (["a"], ["b"]):
        planned = pickle.dumps(sink.writer())
        message = sink.task(planned, values, None)
        pickle.loads(planned).commit([message])
    lost = pickle.dumps(sink.writer())
    message = sink.task(lost, ["c"], None)
    pickle.loads(lost).abort([message])
    sink.shows(["a", "b"])
    with pytest.raises(ExactlyOnceError, match=r"is batch 0 of batch write .*, and this is streaming query c0ffee"):
        sink.run(0, ["d"])


@pytest.mark.feature("sink.exactlyOnceBatch", "sink.exactlyOnceKills")
def test_a_batch_write_killed_after_its_decision_is_completed_by_the_next_one(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = pickle.dumps(sink.writer())
    messages = [sink.task(planned, ["a"], None), sink.task(planned, ["b"], None)]
    with monkeypatch.context() as patch:
        patch.setattr(exactly_once, "carry_out", lambda on, steps: carry_out(on, killed_after_decision(steps)))
        with pytest.raises(Killed):
            pickle.loads(planned).commit(messages)
    sink.shows([])
    next_one = pickle.dumps(sink.writer())
    sink.shows(["a", "b"])
    pickle.loads(next_one).commit([sink.task(next_one, ["c"], None)])
    sink.shows(["a", "b", "c"])


def test_exactly_once_inside_foreach_batch_is_refused(sink: Sink) -> None:
    planned = pickle.dumps(sink.writer())
    with pytest.raises(OptionError, match=r"'delivery\.guarantee': cannot be exactly-once inside foreachBatch"):
        sink.task(planned, ["a"], 3)


def test_task_without_a_batch_id_fails(sink: Sink) -> None:
    planned = pickle.dumps(sink.stream_writer())
    with pytest.raises(TaskError, match="has not set the query and batch of this task"):
        sink.task(planned, ["a"], None)


def test_planning_errors_name_the_prefix(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(error: Exception) -> None:
        def check(*_: object) -> None:
            raise error

        monkeypatch.setattr(exactly_once, "check_cluster", check)

    fails(KafkaError(ErrorCode.REQUEST_TIMED_OUT, "broker 1"))
    with pytest.raises(PlanningFailed, match=r"NOT_PLANNED\] .*broker 1.* 'kafka.default.api.timeout.ms'") as caught:
        pickle.dumps(sink.stream_writer())
    assert isinstance(caught.value, pickle.PickleError), "or Spark would put words of its own before ours"
    fails(AuthenticationFailed(HostPort("broker", 9092), "kafka.sasl.jaas.config", "PLAIN: invalid credentials"))
    with pytest.raises(PlanningFailed) as caught:
        pickle.dumps(sink.stream_writer())
    assert str(caught.value) == (
        f"[PYKAFKA_EXACTLY_ONCE.NOT_PLANNED] option 'transactional.id.prefix' = {sink.prefix}: the write could not be "
        "planned, and nothing was written: broker:9092: kafka.sasl.jaas.config: PLAIN: invalid credentials"
    )
    fails(OptionError("kafka.transaction.timeout.ms", "too long"))
    with pytest.raises(PlanningFailed, match=r"option 'kafka\.transaction\.timeout\.ms': too long"):
        pickle.dumps(sink.stream_writer())


def test_planning_warns_while_no_broker_can_be_reached(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Deadline, "pause", lambda *_: False)
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t"}
    asked = options | {"delivery.guarantee": "exactly-once", "transactional.id.prefix": "unreachable"}
    with pytest.raises(PlanningFailed, match=r"NOT_PLANNED\] .*connection refused"):
        pickle.dumps(PyKafkaDataSource(asked).streamWriter(SCHEMA, overwrite=False))
    assert "no broker of kafka.bootstrap.servers can be reached (127.0.0.1:1: connection refused)" in caplog.text


def test_brokers_without_list_transactions_are_too_old() -> None:
    with EmbeddedBroker(settings={"as.version": "2.8"}) as broker:
        options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": "t"}
        asked = options | {"delivery.guarantee": "exactly-once", "transactional.id.prefix": "old"}
        with pytest.raises(PlanningFailed, match=r"nothing was written: .*needs Kafka 3\.0 or newer"):
            pickle.dumps(PyKafkaDataSource(asked).streamWriter(SCHEMA, overwrite=False))
        assert broker.topics() == {}


def test_errors_of_tasks_and_commits_name_what_is_safe(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    planned = pickle.dumps(sink.stream_writer())
    message = sink.task(planned, ["a"])

    def fails(*_: object, **__: object) -> None:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "broker 1")

    monkeypatch.setattr(exactly_once, "carry_out", fails)
    with pytest.raises(TaskError, match=r"writing failed: .*broker 1.* No row of this task can be read with"):
        sink.task(planned, ["a"])
    with pytest.raises(ExactlyOnceError, match=r"OUTCOME_UNKNOWN\] prefix .*: The commit failed"):
        sink.stream_writer().commit([message], 0)
    with pytest.raises(ExactlyOnceError, match=r"OUTCOME_UNKNOWN\] prefix .*: The abort failed"):
        sink.stream_writer().abort([message], 0)
