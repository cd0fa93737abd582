"""The writers of ``delivery.guarantee`` = exactly-once, batch and streaming.

One process on the driver makes the writer and pickles it, which plans the batch. Tasks unpickle it, write, and return
their open transactions. Another process on the driver commits or aborts: for a batch with the planned writer, for a
stream with another one that is never pickled.
"""

import itertools
import logging
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from spark_kafka_native._client.cluster.shared import shared_cluster
from spark_kafka_native._client.partitioning.partitioner_names import PartitionerError
from spark_kafka_native._client.producer.producer import Producer
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError, counted
from spark_kafka_native._spark.errors import OptionError, TaskError
from spark_kafka_native._spark.exactly_once.abort import abort
from spark_kafka_native._spark.exactly_once.batch import TaskMessage, TaskOutcome, WritePlan
from spark_kafka_native._spark.exactly_once.commit import commit
from spark_kafka_native._spark.exactly_once.decision import Owner, OwnerKind
from spark_kafka_native._spark.exactly_once.effects import Steps
from spark_kafka_native._spark.exactly_once.errors import ErrorKind, ExactlyOnceError, before_another_run
from spark_kafka_native._spark.exactly_once.plan import plan
from spark_kafka_native._spark.exactly_once.task import task
from spark_kafka_native._spark.garbage_collection import task_begins
from spark_kafka_native._spark.options.exactly_once import GUARANTEE, PREFIX
from spark_kafka_native._spark.options.parsed import ExactlyOnce, SinkOptions
from spark_kafka_native._spark.sink.cluster_check import check_cluster
from spark_kafka_native._spark.sink.effects import carry_out
from spark_kafka_native._spark.sink.lookup import PlanningFailed
from spark_kafka_native._spark.sink.rows import SinkRows
from spark_kafka_native._spark.sink.sending import advice, partitioner_of, send_rows
from spark_kafka_native._spark.sink.writer import PyKafkaStreamWriter, PyKafkaWriter, TaskWritten

if TYPE_CHECKING:
    from spark_kafka_native._client.partitioning.lookup import BucketTables

_log = logging.getLogger(__name__)

BATCH_ID: Final = "streaming.sql.batchId"
QUERY_ID: Final = "sql.streaming.queryId"
"""Spark's local properties of tasks."""
_JOB_BATCH: Final = 0
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPrepared(TaskWritten):
    """The commit message of one task with an open transaction."""

    message: TaskMessage


class ExactlyOnceWriter(PyKafkaWriter):
    """Appends a batch to topics atomically. Planned when it is pickled first."""

    def __init__(self, options: SinkOptions, rows: SinkRows) -> None:
        super().__init__(options, rows)
        self._owner = Owner(OwnerKind.JOB, uuid.uuid4().hex)
        self._plan: WritePlan | None = None

    def __getstate__(self) -> dict[str, Any]:
        super().__getstate__()  # reads look-up tables before earlier drivers are fenced
        self._plan = self._plan or plan_write(self._options)
        return vars(self)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskPrepared:  # type: ignore[override]  # its row-wise base takes rows
        """Write the rows of one task and leave the transaction open. Raises TaskError, ExactlyOnceError."""
        context = _context()
        if context.getLocalProperty(BATCH_ID) is not None:
            raise OptionError(
                GUARANTEE,
                "cannot be exactly-once inside foreachBatch: a batch that Spark runs again would be written again. Use "
                "writeStream.format('pykafka')",
            )
        return _write_task(
            self._options, self._rows, self._tables, self._plan, self._owner, _JOB_BATCH, context, iterator
        )

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Decide the batch and commit its transactions."""
        _commit(self._options, messages, _JOB_BATCH)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Abort the batch, or complete it if it is decided."""
        _abort(self._options, messages, "the write")


class ExactlyOnceStreamWriter(PyKafkaStreamWriter):
    """Appends micro-batches to topics, each once. Planned when it is pickled first."""

    def __init__(self, options: SinkOptions, rows: SinkRows) -> None:
        super().__init__(options, rows)
        self._plan: WritePlan | None = None

    def __getstate__(self) -> dict[str, Any]:
        super().__getstate__()  # reads look-up tables before earlier drivers are fenced
        self._plan = self._plan or plan_write(self._options)
        return vars(self)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskPrepared:  # type: ignore[override]  # its row-wise base takes rows
        """Write the rows of one task and leave the transaction open. Raises TaskError, ExactlyOnceError."""
        context = _context()
        query_id, batch_id = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
        if query_id is None or batch_id is None:
            raise TaskError(f"option '{GUARANTEE}': Spark has not set the query and batch of this task")
        owner = Owner(OwnerKind.QUERY, query_id)
        return _write_task(self._options, self._rows, self._tables, self._plan, owner, int(batch_id), context, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's name
        """Decide the batch and commit its transactions. Skips a batch that was decided before."""
        _commit(self._options, messages, batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's name
        """Abort the batch, or complete it if it is decided."""
        _abort(self._options, messages, f"batch {batchId} of this run")


def plan_write(options: SinkOptions) -> WritePlan:
    """Fence earlier drivers, complete or abort their batches. Raises PlanningFailed."""
    chosen = _chosen(options)
    cluster = shared_cluster(options.client)
    try:
        check_cluster(cluster, chosen)
        return carry_out(cluster, plan(chosen.names, chosen.timing))
    except (ExactlyOnceError, OptionError) as error:
        raise PlanningFailed(str(error)) from error
    except KafkaError as error:
        failed = f"option '{PREFIX}' = {chosen.names.prefix}: the write could not be planned, and nothing was written"
        text = f"{failed}: {error}{_advice(error)}"
        raise PlanningFailed(str(ExactlyOnceError(ErrorKind.NOT_PLANNED, text))) from error


def _advice(error: KafkaError) -> str:
    if error.code is ErrorCode.UNSUPPORTED_VERSION:
        return f". Option '{GUARANTEE}': exactly-once needs Kafka 3.0 or newer"
    return ". Option 'kafka.default.api.timeout.ms' bounds the retries of each step" if error.retriable else ""


def _write_task(
    options: SinkOptions,
    rows: SinkRows,
    tables: "BucketTables | None",
    planned: WritePlan | None,
    owner: Owner,
    batch_id: int,
    context: TaskContext,
    iterator: Iterator[pa.RecordBatch],
) -> TaskPrepared:
    task_begins()
    assert planned is not None, "writers are pickled before a task"
    sent: tuple[tuple[str, int], ...] = ()
    batches = iter(iterator)
    first = next((batch for batch in batches if batch.num_rows), None)

    def send(producer: Producer) -> None:
        nonlocal sent
        assert first is not None
        sent = send_rows(producer, rows, itertools.chain([first], batches), tables)

    steps = task(planned, owner, batch_id, context.taskAttemptId(), _chosen(options).timing, has_rows=first is not None)
    try:
        partitioner = partitioner_of(options, tables)
        message = carry_out(shared_cluster(options.client), steps, send=send, partitioner=partitioner)
    except (KafkaError, PartitionerError) as error:
        raise TaskError(
            f"writing failed: {error}. {advice(error)} No row of this task can be read with "
            "isolation.level=read_committed, now or later; a repeated task, or a restarted query, writes all "
            "of its rows"
        ) from error
    count = sum(rows_of_topic for _, rows_of_topic in sent)
    if message.outcome is TaskOutcome.SKIPPED and first is not None:
        # Operators before the sink, such as stateful ones, may need that all rows are read, too.
        count = first.num_rows + sum(batch.num_rows for batch in batches)
    return TaskPrepared(rows_by_topic=sent, message=replace(message, rows=count))


def _commit(options: SinkOptions, messages: Sequence[WriterCommitMessage | None], batch_id: int) -> None:
    chosen = _chosen(options)
    found = _messages(messages)
    if len(found) != len(messages) or any(message.batch_id != batch_id for message in found):
        raise ExactlyOnceError(
            ErrorKind.MIXED,
            f"prefix {chosen.names.prefix}: the messages of {counted(len(messages), 'task')} are not those of batch "
            f"{batch_id}",
        )
    _carry_out(options, commit(chosen.names, found, chosen.timing), "The commit")
    prefix, rows = chosen.names.prefix, counted(sum(message.rows for message in found), "row")
    if found[0].outcome is TaskOutcome.SKIPPED:
        _log.info("prefix %s: batch %d was written before with %s and is skipped", prefix, batch_id, rows)
    else:
        _log.debug("prefix %s: committed batch %d with %s", prefix, batch_id, rows)


def _abort(options: SinkOptions, messages: Sequence[WriterCommitMessage | None], what: str) -> None:
    chosen = _chosen(options)
    result = _carry_out(options, abort(chosen.names, _messages(messages), chosen.timing), "The abort")
    outcome = "was decided before and is committed" if result.decided else "failed and is aborted"
    _log.warning("prefix %s: %s %s", chosen.names.prefix, what, outcome)


def _carry_out(options: SinkOptions, steps: Steps[T], what: str) -> T:
    prefix = _chosen(options).names.prefix
    try:
        return carry_out(shared_cluster(options.client), steps)
    except KafkaError as error:
        raise ExactlyOnceError(
            ErrorKind.UNKNOWN,
            f"prefix {prefix}: {what} failed: {error}. A query reads the last decision at its next start; no row is "
            "lost or written twice if that happens before the transactions time out. "
            f"{before_another_run(prefix)}{_advice(error)}",
        ).at(",".join(map(str, options.client.bootstrap_servers))) from error


def _messages(messages: Sequence[WriterCommitMessage | None]) -> list[TaskMessage]:
    return [each.message for each in messages if isinstance(each, TaskPrepared)]


def _chosen(options: SinkOptions) -> ExactlyOnce:
    assert options.exactly_once is not None, "these writers are for exactly-once"
    return options.exactly_once


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "Spark calls this in a task"
    return context
