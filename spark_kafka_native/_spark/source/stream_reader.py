"""The streaming reader: Spark's calls -> ``StreamOffsets`` on the driver, ``read_task`` in the tasks."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from spark_kafka_native._spark.garbage_collection import collection_paused
from spark_kafka_native._spark.offsets import format_offsets, parse_offsets

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_kafka_native._spark.offsets import OffsetJson, OffsetMap
    from spark_kafka_native._spark.options.parsed import SourceOptions
    from spark_kafka_native._spark.planning.packing import PlainTask
    from spark_kafka_native._spark.planning.stream import StreamOffsets
    from spark_kafka_native._spark.source.layout import Layout
    from spark_kafka_native._spark.source.offset_texts import OffsetTexts

_UNLIMITED = 2**62
"""Read limit of a query without limits, so that only Trigger.Once has ReadAllAvailable."""


class PyKafkaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads topics as a stream.

    Spark makes two: one in the driver's source process for all calls except ``read``, and one that is pickled into
    every task for ``read``. They share only options and layout, and a task gets its ranges in its ``InputPartition``.
    ``stop`` is not implemented, because Spark often kills the process instead.
    """

    def __init__(self, options: "SourceOptions", layout: "Layout") -> None:
        self._options = options
        self._layout = layout
        self._stream: StreamOffsets | None = None
        self._texts: OffsetTexts | None = None
        self._parsed: tuple[OffsetJson, OffsetMap] | None = None
        self._reported: tuple[OffsetMap, OffsetJson] | None = None

    @property
    def _offsets(self) -> "StreamOffsets":
        """The stream's state, made at the first call on the driver, so that it is never pickled."""
        if self._stream is None:
            from spark_kafka_native._spark.planning.bounds import Clock
            from spark_kafka_native._spark.planning.cluster_offsets import ClusterOffsets
            from spark_kafka_native._spark.planning.stream import StreamOffsets
            from spark_kafka_native._spark.source.offset_texts import OffsetTexts

            self._stream = StreamOffsets(self._options, ClusterOffsets(self._options.client), Clock())
            self._texts = OffsetTexts.recorded()
        return self._stream

    def initialOffset(self) -> "OffsetJson":  # noqa: N802  # Spark's name
        """The start of a query without a checkpoint."""
        with collection_paused():
            return format_offsets(self._offsets.initial())

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  # Spark's name
        """Stop at the present end offsets, for Trigger.AvailableNow."""
        self._offsets.read_what_is_available_now()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  # Spark's name
        """``maxOffsetsPerTrigger``, else ``minOffsetsPerTrigger``, else a very large number.

        Spark has no limit with both, and passes this one back to ``latestOffset``, which uses the options instead.
        """
        if self._options.max_offsets_per_trigger is None and self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadMaxRows(self._options.max_offsets_per_trigger or _UNLIMITED)

    def latestOffset(self, start: "OffsetJson", limit: ReadLimit) -> "OffsetJson":  # noqa: N802  # Spark's name
        """The end of the next micro-batch; ``start`` itself, with the same text, if there is nothing to read.

        Trigger.Once (ReadAllAvailable) ignores the limits of the options.
        """
        options, is_once = self._options, isinstance(limit, ReadAllAvailable)
        with collection_paused():
            begin = self._parse(start)
            end = self._offsets.latest(
                begin,
                max_offsets=None if is_once else options.max_offsets_per_trigger,
                min_offsets=None if is_once else options.min_offsets_per_trigger,
            )
            return start if end is begin or end == begin else format_offsets(end)

    def reportLatestOffset(self) -> "OffsetJson | None":  # noqa: N802  # Spark's name
        """The end offsets of all partitions at the last lookup."""
        latest = self._offsets.known_latest
        if latest is None:
            return None
        if self._reported is None or self._reported[0] is not latest:
            self._reported = latest, format_offsets(latest)
        return self._reported[1]

    def partitions(self, start: "OffsetJson", end: "OffsetJson") -> list[InputPartition]:
        """The tasks of a micro-batch; none if ``start`` and ``end`` are equal."""
        from spark_kafka_native._spark.planning.packing import to_plain

        stream = self._offsets
        from_elsewhere = self._texts is not None and self._texts.is_of_another_connector(end)
        with collection_paused():
            tasks = stream.plan(self._parse(start), _offsets(end), from_elsewhere=from_elsewhere)
            return [InputPartition(to_plain(task)) for task in tasks]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """The records of one task, those of each partition in order."""
        from spark_kafka_native._spark.planning.packing import from_plain
        from spark_kafka_native._spark.source.reader import read_task

        plain: PlainTask | None = partition.value
        return read_task(self._options, self._layout, None if plain is None else from_plain(plain))

    def _parse(self, start: "OffsetJson") -> "OffsetMap":
        """Spark's start; the same map while the start is the same, because Spark calls many times a second."""
        if self._parsed is None or self._parsed[0] != start:
            self._parsed = start, _offsets(start)
        return self._parsed[1]


def _offsets(stored: "OffsetJson") -> "OffsetMap":
    try:
        return parse_offsets(stored)
    except ValueError as error:
        from spark_kafka_native._spark.source.offset_texts import foreign_offsets

        raise foreign_offsets(str(error)) from None
