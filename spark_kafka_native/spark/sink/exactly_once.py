"""The writers of ``delivery.guarantee`` = exactly-once, batch and streaming: the protocol in Spark's order of calls.

One process on the driver constructs the writer and pickles it: that is when the batch is planned. Tasks unpickle it,
write, and hand back what they leave open. Another process on the driver commits or aborts, for a batch with the planned
writer, for a stream with one of its own, which is never pickled.
"""

import itertools
import logging
import pickle
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from spark_kafka_native.client.cluster.cluster import shared_cluster
from spark_kafka_native.client.producer.partitioners import PartitionerError
from spark_kafka_native.client.producer.producer import Producer
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError
from spark_kafka_native.spark.errors import OptionError, TaskError
from spark_kafka_native.spark.exactly_once.abort import abort
from spark_kafka_native.spark.exactly_once.batch import Message, Outcome, Plan
from spark_kafka_native.spark.exactly_once.commit import commit
from spark_kafka_native.spark.exactly_once.decision import Owner, OwnerKind
from spark_kafka_native.spark.exactly_once.effects import Steps
from spark_kafka_native.spark.exactly_once.errors import ExactlyOnceError, Trouble
from spark_kafka_native.spark.exactly_once.plan import plan
from spark_kafka_native.spark.exactly_once.task import task
from spark_kafka_native.spark.options.exactly_once import GUARANTEE, ExactlyOnce
from spark_kafka_native.spark.options.parsing import SinkOptions
from spark_kafka_native.spark.sink.effects import carry_out
from spark_kafka_native.spark.sink.preflight import check_cluster
from spark_kafka_native.spark.sink.rows import SinkRows
from spark_kafka_native.spark.sink.writer import (
    PyKafkaStreamWriter,
    PyKafkaWriter,
    TaskWritten,
    advice,
    send_rows,
    total_rows,
)
from spark_kafka_native.spark.workers import task_begins

_log = logging.getLogger(__name__)

BATCH_ID: Final = "streaming.sql.batchId"
QUERY_ID: Final = "sql.streaming.queryId"
"""Local properties by which Spark tells tasks what they are part of."""
_JOB_BATCH: Final = 0
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPrepared(TaskWritten):
    """What one task has written and left open."""

    message: Message


class PlanningFailed(pickle.PickleError):
    """A batch could not be planned. A pickling error, because Spark hands those on as they are, and rewords others."""


class ExactlyOnceWriter(PyKafkaWriter):
    """Appends a batch to topics, all of it or nothing. Planned when it is pickled first."""

    def __init__(self, options: SinkOptions, rows: SinkRows) -> None:
        super().__init__(options, rows)
        self._owner = Owner(OwnerKind.JOB, uuid.uuid4().hex)
        self._plan: Plan | None = None

    def __getstate__(self) -> dict[str, Any]:
        self._plan = self._plan or plan_write(self._options)
        return vars(self)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskPrepared:  # type: ignore[override]  # its row-wise base takes rows
        """Write the rows of one task and leave them undecided. Raises TaskError, ExactlyOnceError."""
        context = _context()
        if context.getLocalProperty(BATCH_ID) is not None:
            raise OptionError(
                GUARANTEE,
                "cannot be exactly-once inside foreachBatch: a batch that Spark runs again would be written again. Use "
                "writeStream.format('pykafka')",
            )
        return _write_task(self._options, self._rows, self._plan, self._owner, _JOB_BATCH, context, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Decide that all rows are to be readable, and make them so."""
        _commit(self._options, messages, _JOB_BATCH)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Take all rows back, unless they are decided: then make them readable."""
        _abort(self._options, messages, "the write")


class ExactlyOnceStreamWriter(PyKafkaStreamWriter):
    """Appends micro-batches to topics, each once. Planned when it is pickled first."""

    def __init__(self, options: SinkOptions, rows: SinkRows) -> None:
        super().__init__(options, rows)
        self._plan: Plan | None = None

    def __getstate__(self) -> dict[str, Any]:
        self._plan = self._plan or plan_write(self._options)
        return vars(self)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskPrepared:  # type: ignore[override]  # its row-wise base takes rows
        """Write the rows of one task and leave them undecided. Raises TaskError, ExactlyOnceError."""
        context = _context()
        query_id, batch_id = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
        if query_id is None or batch_id is None:
            raise TaskError(f"option '{GUARANTEE}': Spark does not tell this task which batch of which query it is")
        owner = Owner(OwnerKind.QUERY, query_id)
        return _write_task(self._options, self._rows, self._plan, owner, int(batch_id), context, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's name
        """Decide that all rows are to be readable, and make them so. Nothing to do for a batch that was before."""
        _commit(self._options, messages, batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's name
        """Take all rows back, unless they are decided: then make them readable."""
        _abort(self._options, messages, f"batch {batchId}")


def plan_write(options: SinkOptions) -> Plan:
    """Fence earlier drivers, complete or take back what they have left. Raises PlanningFailed."""
    chosen = _chosen(options)
    cluster = shared_cluster(options.client)
    try:
        check_cluster(cluster, chosen)
        return carry_out(cluster, plan(chosen.names, chosen.timing))
    except (ExactlyOnceError, OptionError) as error:
        raise PlanningFailed(str(error)) from error
    except KafkaError as error:
        raise PlanningFailed(
            f"prefix {chosen.names.prefix}: the write could not be planned, and nothing was written: {error}. "
            f"{_planning_advice(error)}"
        ) from error


def _planning_advice(error: KafkaError) -> str:
    if error.code is ErrorCode.UNSUPPORTED_VERSION:
        return f"Option '{GUARANTEE}': exactly-once needs Kafka 3.0 or newer."
    return "Option 'kafka.default.api.timeout.ms' says how long each step is tried."


def _write_task(
    options: SinkOptions,
    rows: SinkRows,
    planned: Plan | None,
    owner: Owner,
    batch_id: int,
    context: TaskContext,
    iterator: Iterator[pa.RecordBatch],
) -> TaskPrepared:
    task_begins()
    assert planned is not None, "writers are pickled on their way to a task"
    sent: tuple[tuple[str, int], ...] = ()
    batches = iter(iterator)
    first = next((batch for batch in batches if batch.num_rows), None)

    def send(producer: Producer) -> None:
        nonlocal sent
        assert first is not None
        sent = send_rows(producer, rows, itertools.chain([first], batches))

    steps = task(planned, owner, batch_id, context.taskAttemptId(), _chosen(options).timing, has_rows=first is not None)
    try:
        message = carry_out(shared_cluster(options.client), steps, send=send, partitioner=options.partitioner)
    except (KafkaError, PartitionerError) as error:
        raise TaskError(
            f"writing failed: {error}. {advice(error)} Nothing of this task can be read with "
            "isolation.level=read_committed, now or later; a task that Spark runs again, or a query started again, "
            "writes all of its rows"
        ) from error
    if message.outcome is Outcome.SKIPPED:
        # Whoever makes the rows may have to get to their end, as stateful operators do.
        for _ in batches:
            pass
    return TaskPrepared(rows_by_topic=sent, message=message)


def _commit(options: SinkOptions, messages: Sequence[WriterCommitMessage | None], batch_id: int) -> None:
    chosen = _chosen(options)
    found = _messages(messages)
    if len(found) != len(messages) or any(message.batch_id != batch_id for message in found):
        raise ExactlyOnceError(
            Trouble.MIXED,
            f"prefix {chosen.names.prefix}: the messages of {len(messages)} tasks are not those of batch {batch_id}",
        )
    _carry_out(options, commit(chosen.names, found, chosen.timing), "The commit")
    if found[0].outcome is Outcome.SKIPPED:
        _log.info("prefix %s: batch %d was written before, and is skipped", chosen.names.prefix, batch_id)
    else:
        _log.debug("prefix %s: committed batch %d with %d rows", chosen.names.prefix, batch_id, total_rows(messages))


def _abort(options: SinkOptions, messages: Sequence[WriterCommitMessage | None], what: str) -> None:
    chosen = _chosen(options)
    given_up = _carry_out(options, abort(chosen.names, _messages(messages), chosen.timing), "The abort")
    outcome = "was decided before, and has been committed" if given_up.decided else "failed, and nothing of it counts"
    _log.warning("prefix %s: %s %s", chosen.names.prefix, what, outcome)


def _carry_out(options: SinkOptions, steps: Steps[T], what: str) -> T:
    """Raises ExactlyOnceError."""
    try:
        return carry_out(shared_cluster(options.client), steps)
    except KafkaError as error:
        raise ExactlyOnceError(
            Trouble.UNKNOWN,
            f"prefix {_chosen(options).names.prefix}: {what} did not come to its end: {error}. The next start finds "
            "out what was decided; nothing is lost or written twice if it comes before the transactions time out. "
            "Option 'kafka.default.api.timeout.ms' says how long each step is tried",
        ) from error


def _messages(messages: Sequence[WriterCommitMessage | None]) -> list[Message]:
    return [each.message for each in messages if isinstance(each, TaskPrepared)]


def _chosen(options: SinkOptions) -> ExactlyOnce:
    assert options.exactly_once is not None, "these writers are for exactly-once"
    return options.exactly_once


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "Spark calls this in a task"
    return context
