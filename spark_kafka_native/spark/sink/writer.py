"""The writers, batch and streaming: a task sends its rows and returns after all are acknowledged.

Delivery is at least once: a task that Spark runs again sends its rows again. Retries in a task write no duplicates,
because the producer is idempotent (unless ``kafka.enable.idempotence`` or ``kafka.acks`` disable that).
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from spark_kafka_native.client.cluster.shared import shared_cluster
from spark_kafka_native.client.errors import NoSuchPartition, ProduceError
from spark_kafka_native.client.producer.partitioners import PartitionerError
from spark_kafka_native.client.producer.producer import Producer
from spark_kafka_native.net.errors import BrokerUnreachable
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError
from spark_kafka_native.spark.errors import TaskError
from spark_kafka_native.spark.options.parsing import SinkOptions
from spark_kafka_native.spark.sink.rows import SinkRows
from spark_kafka_native.spark.workers import task_begins

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskWritten(WriterCommitMessage):
    """The acknowledged rows of one task."""

    rows_by_topic: tuple[tuple[str, int], ...]

    @property
    def rows(self) -> int:
        """Rows in all topics."""
        return sum(rows for _, rows in self.rows_by_topic)


class PyKafkaWriter(DataSourceArrowWriter):
    """Appends a batch to topics. Pickled into every task."""

    def __init__(self, options: SinkOptions, rows: SinkRows) -> None:
        self._options = options
        self._rows = rows

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskWritten:  # type: ignore[override]  # its row-wise base takes rows
        """Send the rows of one task. Raises TaskError naming topic-partition and option."""
        return write_rows(self._options, self._rows, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Do nothing: acknowledged rows are readable."""
        _log.debug("wrote %d rows", total_rows(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log that rows of tasks that succeeded stay in their topics."""
        _log.warning("the write failed; %d rows of tasks that succeeded stay in their topics", total_rows(messages))


class PyKafkaStreamWriter(DataSourceStreamArrowWriter):
    """Appends micro-batches to topics. Pickled into every task; without state, because each batch has a new one."""

    def __init__(self, options: SinkOptions, rows: SinkRows) -> None:
        self._options = options
        self._rows = rows

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskWritten:  # type: ignore[override]  # its row-wise base takes rows
        """Send the rows of one task. Raises TaskError naming topic-partition and option."""
        return write_rows(self._options, self._rows, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's name
        """Do nothing: acknowledged rows are readable."""
        _log.debug("batch %d: wrote %d rows", batchId, total_rows(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's name
        """Log that rows of tasks that succeeded stay in their topics; a repeated batch writes them again."""
        _log.warning(
            "batch %d failed; %d rows of tasks that succeeded stay in their topics", batchId, total_rows(messages)
        )


def write_rows(options: SinkOptions, rows: SinkRows, batches: Iterator[pa.RecordBatch]) -> TaskWritten:
    """Send Spark's batches and wait until all of their rows are acknowledged.

    Raises TaskError: rows could not be written; PlanError: a row without a topic, a header without a name, a bad time.
    """
    task_begins()
    try:
        cluster = shared_cluster(options.client)
        with Producer(cluster, partitioner=options.partitioner, reuse_producer_id=True) as producer:
            written = send_rows(producer, rows, batches)
            producer.flush()
    except (KafkaError, PartitionerError) as error:
        raise _failed(error) from error
    return TaskWritten(rows_by_topic=written)


def send_rows(producer: Producer, rows: SinkRows, batches: Iterator[pa.RecordBatch]) -> tuple[tuple[str, int], ...]:
    """Send Spark's batches with a producer -> rows by topic, sorted.

    Raises KafkaError, PartitionerError: rows could not be written; PlanError: as ``write_rows``.
    """
    sent: dict[str, int] = {}
    for by_topic in rows.by_topic(batches):
        producer.look_up(by_topic)
        for topic, records in by_topic.items():
            producer.send(topic, records)
            sent[topic] = sent.get(topic, 0) + records.num_rows
    return tuple(sorted(sent.items()))


def _failed(error: KafkaError | PartitionerError) -> TaskError:
    return TaskError(
        f"writing failed: {error}. {advice(error)} Rows of this task that were acknowledged stay in their topics"
    )


def advice(error: KafkaError | PartitionerError) -> str:
    """The option that concerns an error in writing."""
    match error:
        case BrokerUnreachable():
            return "Options 'kafka.max.block.ms' and 'kafka.delivery.timeout.ms' bound the retries."
        case NoSuchPartition():
            return "It is from column 'partition'; without that column, or for null, the partitioner chooses one."
        case KafkaError(code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            return "A topic must exist, or brokers must create it; option 'kafka.max.block.ms' bounds the wait."
        case PartitionerError():
            return "Option 'partitioner' names it."
        case ProduceError(code=ErrorCode.MESSAGE_TOO_LARGE):
            return "The topic's max.message.bytes bounds a batch; option 'kafka.batch.size' sets the size of batches."
        case ProduceError(code=ErrorCode.INVALID_TIMESTAMP):
            return (
                "The topic's message.timestamp.before.max.ms and message.timestamp.after.max.ms bound the times of "
                "records; they come from column 'timestamp' while option 'includeTimestamp' is true."
            )
        case KafkaError(retriable=True) | ProduceError(code=ErrorCode(retriable=True)):
            return "Option 'kafka.delivery.timeout.ms' bounds the retries."
        case _:
            return "A retry does not help."


def total_rows(messages: Sequence[WriterCommitMessage | None]) -> int:
    """Rows in all messages."""
    return sum(message.rows for message in messages if isinstance(message, TaskWritten))
