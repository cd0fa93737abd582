"""The streaming reader: Spark's calls -> ``StreamOffsets`` on the driver, ``read_task`` in the tasks."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from spark_kafka_native.spark.offsets import OffsetJson, OffsetMap, format_offsets, parse_offsets
from spark_kafka_native.spark.options.parsing import SourceOptions
from spark_kafka_native.spark.planning.cluster_offsets import ClusterOffsets
from spark_kafka_native.spark.planning.pacing import SystemClock
from spark_kafka_native.spark.planning.packing import Task
from spark_kafka_native.spark.planning.stream import StreamOffsets
from spark_kafka_native.spark.source.reader import read_task
from spark_kafka_native.spark.source.schema import Layout
from spark_kafka_native.spark.source.spelling import Spelling

_UNLIMITED = 2**62
"""Read limit of a query without limits; ReadAllAvailable, then, can only mean Trigger.Once."""


class PyKafkaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads topics as a stream.

    Spark makes two: one lives in the driver's source process and answers all calls but ``read``; the other is pickled
    into every task and answers ``read`` alone. So nothing is shared between the two but options and layout, and what a
    task must know comes in its ``InputPartition``. ``stop`` is left alone: Spark often kills the process instead.
    """

    def __init__(self, options: SourceOptions, layout: Layout) -> None:
        self._options = options
        self._layout = layout
        self._stream: StreamOffsets | None = None
        self._spelling: Spelling | None = None
        self._parsed: tuple[OffsetJson, OffsetMap] | None = None
        self._reported: tuple[OffsetMap, OffsetJson] | None = None

    @property
    def _offsets(self) -> StreamOffsets:
        """The stream's state, made at the first call on the driver, so that a pickled reader never carries it."""
        if self._stream is None:
            self._stream = StreamOffsets(self._options, ClusterOffsets(self._options.client), SystemClock())
            self._spelling = Spelling.listen()
        return self._stream

    def initialOffset(self) -> OffsetJson:  # noqa: N802  # Spark's name
        """Where a query without a checkpoint starts."""
        return format_offsets(self._offsets.initial())

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  # Spark's name
        """Take note of Trigger.AvailableNow."""
        self._offsets.read_what_is_available_now()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  # Spark's name
        """``maxOffsetsPerTrigger``, else ``minOffsetsPerTrigger``, else a number that no topic reaches.

        Spark has no limit that says both, and only hands back to ``latestOffset`` what it got here: the limits that
        apply are those of the options.
        """
        if self._options.max_offsets_per_trigger is None and self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadMaxRows(self._options.max_offsets_per_trigger or _UNLIMITED)

    def latestOffset(self, start: OffsetJson, limit: ReadLimit) -> OffsetJson:  # noqa: N802  # Spark's name
        """The end of the next micro-batch; ``start`` itself, as it was spelled, when there is nothing to read.

        Trigger.Once (ReadAllAvailable) reads all, whatever the options say.
        """
        begin = self._parse(start)
        options, is_once = self._options, isinstance(limit, ReadAllAvailable)
        end = self._offsets.latest(
            begin,
            max_offsets=None if is_once else options.max_offsets_per_trigger,
            min_offsets=None if is_once else options.min_offsets_per_trigger,
        )
        return start if end is begin or end == begin else format_offsets(end)

    def reportLatestOffset(self) -> OffsetJson | None:  # noqa: N802  # Spark's name
        """The ends of all partitions as last looked up; asks nobody."""
        latest = self._offsets.known_latest
        if latest is None:
            return None
        if self._reported is None or self._reported[0] is not latest:
            self._reported = latest, format_offsets(latest)
        return self._reported[1]

    def partitions(self, start: OffsetJson, end: OffsetJson) -> list[InputPartition]:
        """The tasks of a micro-batch; none when nothing lies between ``start`` and ``end``."""
        stream = self._offsets
        from_elsewhere = self._spelling is not None and self._spelling.is_foreign(end)
        tasks = stream.plan(self._parse(start), parse_offsets(end), from_elsewhere=from_elsewhere)
        return [InputPartition(task) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one task, those of each partition in order."""
        task: Task | None = partition.value
        return read_task(self._options, self._layout, task)

    def _parse(self, start: OffsetJson) -> OffsetMap:
        """Spark's start; the same map for as long as it is the same, many times a second."""
        if self._parsed is None or self._parsed[0] != start:
            self._parsed = start, parse_offsets(start)
        return self._parsed[1]
