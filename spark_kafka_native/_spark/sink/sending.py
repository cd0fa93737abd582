"""The rows of a task, sent with a producer."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from spark_kafka_native._client.cluster.shared import shared_cluster
from spark_kafka_native._client.errors import FewerPartitionsThanTable, NoSuchPartition, ProduceError
from spark_kafka_native._client.partitioning.partitioner_names import LookupTableError, PartitionerError
from spark_kafka_native._client.producer.producer import Producer
from spark_kafka_native._net.errors import BrokerUnreachable
from spark_kafka_native._protocol.errors import AUTHORIZATION_ERRORS, ErrorCode, KafkaError
from spark_kafka_native._spark.errors import TaskError
from spark_kafka_native._spark.garbage_collection import task_begins
from spark_kafka_native._spark.options.parsed import SinkOptions
from spark_kafka_native._spark.sink.by_topic import by_topic
from spark_kafka_native._spark.sink.rows import SinkRows

if TYPE_CHECKING:
    from spark_kafka_native._client.partitioning.lookup import BucketTables

RowsByTopic: TypeAlias = tuple[tuple[str, int], ...]
"""How many rows were written to each topic."""


def write_rows(
    options: SinkOptions, rows: SinkRows, batches: Iterator[pa.RecordBatch], tables: "BucketTables | None" = None
) -> RowsByTopic:
    """Send Spark's batches and wait until all of their rows are acknowledged -> rows by topic, sorted.

    ``tables``: of the partitioner ``lookup``.
    Raises TaskError: rows could not be written; PlanError: a row without a topic, a header without a name, a bad time.
    """
    task_begins()
    try:
        cluster = shared_cluster(options.client)
        with Producer(cluster, partitioner=partitioner_of(options, tables), reuse_producer_id=True) as producer:
            written = send_rows(producer, rows, batches, tables)
            producer.flush()
    except (KafkaError, PartitionerError) as error:
        raise _failed(error) from error
    return written


def partitioner_of(options: SinkOptions, tables: "BucketTables | None") -> "str | BucketTables | None":
    """The partitioner of a producer for a task."""
    assert (tables is not None) == (options.lookup_table is not None), "writers are pickled before a task"
    return options.partitioner if tables is None else tables


def send_rows(
    producer: Producer, rows: SinkRows, batches: Iterator[pa.RecordBatch], tables: "BucketTables | None" = None
) -> RowsByTopic:
    """Send Spark's batches with a producer -> rows by topic, sorted.

    Raises KafkaError, PartitionerError: rows could not be written; PlanError: as ``write_rows``.
    """
    sent: dict[str, int] = {}
    for batch in by_topic(rows, batches):
        if tables is not None:
            tables.check(batch)
        producer.look_up(batch)
        for topic, records in batch.items():
            producer.send(topic, records)
            sent[topic] = sent.get(topic, 0) + records.num_rows
    return tuple(sorted(sent.items()))


def _failed(error: KafkaError | PartitionerError) -> TaskError:
    return TaskError(
        f"writing failed: {error}. {advice(error)} Rows of this task that were acknowledged stay in their topics"
    )


def advice(error: KafkaError | PartitionerError) -> str:
    """The option that concerns an error in writing."""
    if isinstance(error, FewerPartitionsThanTable | LookupTableError):
        return "Option 'lookupTable' names where the tables are; they are read once for each batch."
    return _advice(error)


def _advice(error: KafkaError | PartitionerError) -> str:
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
            return "Raise the topic's max.message.bytes, or the brokers' message.max.bytes: a single record is larger."
        case ProduceError(code=ErrorCode.RECORD_LIST_TOO_LARGE):
            return (
                "Lower option 'kafka.batch.size' below the topic's segment.bytes, or raise segment.bytes if a single "
                "record is larger."
            )
        case ProduceError(code=ErrorCode.INVALID_TIMESTAMP):
            return (
                "The topic's message.timestamp.before.max.ms and message.timestamp.after.max.ms bound the times of "
                "records; they come from column 'timestamp' while option 'includeTimestamp' is true."
            )
        case KafkaError(retriable=True) | ProduceError(code=ErrorCode(retriable=True)):
            return "Option 'kafka.delivery.timeout.ms' bounds the retries."
        case KafkaError() if error.code in AUTHORIZATION_ERRORS:
            return "Give the user this permission."
        case _:
            return "A retry does not help."
