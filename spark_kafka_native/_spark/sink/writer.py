"""The writers, batch and streaming: a task sends its rows and returns after all are acknowledged.

Delivery is at least once: a task that Spark runs again sends its rows again. Retries in a task write no duplicates,
because the producer is idempotent (unless ``kafka.enable.idempotence`` or ``kafka.acks`` disable that).
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

if TYPE_CHECKING:
    import pyarrow as pa

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
    """Appends a batch to topics. Pickled into every task."""

    def __init__(self, options: "SinkOptions", rows: "SinkRows") -> None:
        self._options = options
        self._rows = rows

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> TaskWritten:  # type: ignore[override]  # its row-wise base takes rows
        """Send the rows of one task. Raises TaskError naming topic-partition and option."""
        from spark_kafka_native._spark.sink.sending import write_rows

        return TaskWritten(rows_by_topic=write_rows(self._options, self._rows, iterator))

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

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> TaskWritten:  # type: ignore[override]  # its row-wise base takes rows
        """Send the rows of one task. Raises TaskError naming topic-partition and option."""
        from spark_kafka_native._spark.sink.sending import write_rows

        return TaskWritten(rows_by_topic=write_rows(self._options, self._rows, iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's name
        """Do nothing: acknowledged rows are readable."""
        _log.debug("batch %d: rows written: %d", batchId, total_rows(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's name
        """Log that rows of tasks that succeeded stay in their topics; a repeated batch writes them again."""
        _log.warning(
            "batch %d failed; rows of tasks that succeeded stay in their topics: %d", batchId, total_rows(messages)
        )


def total_rows(messages: Sequence[WriterCommitMessage | None]) -> int:
    """Rows in all messages."""
    return sum(message.rows for message in messages if isinstance(message, TaskWritten))
