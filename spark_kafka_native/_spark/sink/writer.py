"""The writers, batch and streaming: a task sends its rows and returns after all are acknowledged.

Delivery is at least once: a task that Spark runs again sends its rows again. Retries in a task write no duplicates,
because the producer is idempotent (unless ``kafka.enable.idempotence`` or ``kafka.acks`` disable that).
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_kafka_native._client.partitioning.lookup import BucketTables
    from spark_kafka_native._spark.options.parsed import SinkOptions
    from spark_kafka_native._spark.sink.rows import SinkRows

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
    """Appends a batch to topics. Pickled into every task, which reads look-up tables first."""

    def __init__(self, options: "SinkOptions", rows: "SinkRows") -> None:
        self._options = options
        self._rows = rows
        self._tables: BucketTables | None = None

    def __getstate__(self) -> dict[str, Any]:
        self._tables = self._tables or planned_tables(self._options)
        return vars(self)

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> TaskWritten:  # type: ignore[override]  # its row-wise base takes rows
        """Send the rows of one task. Raises TaskError naming topic-partition and option."""
        from spark_kafka_native._spark.sink.sending import write_rows

        return TaskWritten(rows_by_topic=write_rows(self._options, self._rows, iterator, self._tables))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Do nothing: acknowledged rows are readable."""
        _log.debug("rows written: %d", total_rows(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log that rows of tasks that succeeded stay in their topics."""
        _log.warning("the write failed; rows of tasks that succeeded stay in their topics: %d", total_rows(messages))


class PyKafkaStreamWriter(DataSourceStreamArrowWriter):
    """Appends micro-batches to topics. Pickled into every task; without state, because each batch has a new one."""

    def __init__(self, options: "SinkOptions", rows: "SinkRows") -> None:
        self._options = options
        self._rows = rows
        self._tables: BucketTables | None = None

    def __getstate__(self) -> dict[str, Any]:
        self._tables = self._tables or planned_tables(self._options)
        return vars(self)

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> TaskWritten:  # type: ignore[override]  # its row-wise base takes rows
        """Send the rows of one task. Raises TaskError naming topic-partition and option."""
        from spark_kafka_native._spark.sink.sending import write_rows

        return TaskWritten(rows_by_topic=write_rows(self._options, self._rows, iterator, self._tables))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's name
        """Do nothing: acknowledged rows are readable."""
        _log.debug("batch %d: rows written: %d", batchId, total_rows(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's name
        """Log that rows of tasks that succeeded stay in their topics; a repeated batch writes them again."""
        _log.warning(
            "batch %d failed; rows of tasks that succeeded stay in their topics: %d", batchId, total_rows(messages)
        )


def planned_tables(options: "SinkOptions") -> "BucketTables | None":
    """The look-up tables of a write, None if its partitioner uses none. Raises PlanningFailed."""
    if options.lookup_table is None:
        return None
    from spark_kafka_native._spark.sink.lookup import read_tables

    return read_tables(options)


def total_rows(messages: Sequence[WriterCommitMessage | None]) -> int:
    """Rows in all messages."""
    return sum(message.rows for message in messages if isinstance(message, TaskWritten))
