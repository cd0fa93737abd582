"""Reading a topic through Spark: our source, Spark's JVM connector and a stub that needs no Kafka, in one session.

    python -m benchmarks.source [--bundled] [--bytes 100,1000] [--vary rows,columns,codec] [--modes batch]

Rows go from one Apache Kafka broker into Spark's ``noop`` sink. Readers take turns in one Spark session on two cores,
which the broker shares:

- pykafka: ours. pykafka maxPartitions: with 4 tasks, where there are more partitions.
- JVM: Spark's connector with the options that it has by default. JVM tuned: with ``kafka.max.poll.records=50000``,
  ``kafka.max.partition.fetch.bytes=8388608`` and ``kafka.fetch.max.wait.ms=10``. JVM tuned, other API: a batch by its
  DataSource V2 reader (``spark.sql.sources.useV1SourceList`` without kafka), a stream by its V1 reader
  (``spark.sql.streaming.disabledV2MicroBatchReaders``), with the same options.
- stub: a Python source that has its Arrow batches ready: the limit of all sources that are written in Python.

Modes: ``batch`` and ``stream`` are whole queries by the clock, from ``load()`` to their end; the stream reads all that
is there (``availableNow``). ``stream-steady`` is what a row takes in the micro-batches after the first one of a query
with the default trigger, of an eighth of the rows each (``maxOffsetsPerTrigger``).

Usual rows have keys of 10 bytes and values of one size. Beside them, one thing at a time is varied: rows without keys,
and with values of 0.1 to 1.9 times the size; some columns, which pykafka and the stub read with a schema of one's own
and the JVM connector's are selected of; codecs; partitions; and the number of rows and tasks, for a fit of what a
query, a task and a row take. Values are JSON that gzip makes 4 times smaller; MB/s are of values before compression.
Speeds are medians of the rounds, slowest and fastest in brackets. CPU is that of the same interval as the clock.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from benchmarks.support.brokers import Running, fill, topic
from benchmarks.support.cpu import CpuMeter
from benchmarks.support.rounds import Case
from benchmarks.support.sessions import SOURCE_TUNED, Stream, setting
from benchmarks.support.shapes import BATCH, STEADY, STREAM, USUAL_TASKS, Shape
from benchmarks.support.side_by_side import Comparison
from benchmarks.support.speeds import OURS, STUB, TUNED, TUNED_OTHER
from benchmarks.support.stubs import stub_options
from spark_kafka_native._client.cluster.cluster import Cluster

COUNTS: Final = {100: 8_000_000, 1_000: 2_000_000, 10_000: 240_000}
PACKED: Final = "pykafka maxPartitions"
OTHER_READER: Final = {
    BATCH: {"spark.sql.sources.useV1SourceList": ""},
    STREAM: {"spark.sql.streaming.disabledV2MicroBatchReaders": "org.apache.spark.sql.kafka010.KafkaSourceProvider"},
}
TYPES: Final = {"key": "binary", "value": "binary", "timestamp": "timestamp"}
MICRO_BATCHES: Final = 8
WANTED: Final = {
    BATCH: {100: 1.5, 1_000: 1.4, 10_000: 1.4},
    STREAM: {100: 1.3, 1_000: 1.3, 10_000: 1.3},
}

Load = Callable[[DataFrameReader | DataStreamReader], DataFrame]
"""The rows, of a batch or of a stream."""


class Bench:
    """The readers of one topic after the other."""

    def __init__(self, spark: SparkSession, running: Running, cluster: Cluster, directory: Path) -> None:
        self.spark, self.servers, self.directory = spark, running.bootstrap_servers, directory
        self._running, self._cluster, self._topic = running, cluster, ""

    @contextmanager
    def prepared(self, shape: Shape) -> Iterator[None]:
        """A topic with the rows."""
        with topic(self._cluster, f"source-{time.monotonic_ns()}", shape.partitions) as self._topic:
            fill(self._running, self._topic, shape)
            yield

    def case(self, mode: str, connector: str, shape: Shape, meter: CpuMeter) -> Case:
        """One query; its seconds."""
        run = {BATCH: self._batch, STREAM: self._stream, STEADY: self._steady}[mode]
        form = "stub" if connector == STUB else "pykafka" if connector in {OURS, PACKED} else "kafka"
        options = self._options(mode, connector, shape)
        conf = OTHER_READER[mode] if connector == TUNED_OTHER else {}
        chosen = shape.columns.split(",") if shape.columns else []

        def load(reader: DataFrameReader | DataStreamReader) -> DataFrame:
            configured = reader.format(form).options(**options)
            if chosen and form != "kafka":
                return configured.schema(", ".join(f"{name} {TYPES[name]}" for name in chosen)).load()
            return configured.load().select(*chosen or "*")

        def case() -> float:
            with setting(self.spark, conf):
                return run(load, shape, meter)

        return case

    def _options(self, mode: str, connector: str, shape: Shape) -> dict[str, str]:
        each = str(shape.count // MICRO_BATCHES)
        if connector == STUB:
            steady = {"maxRowsPerTrigger": each} if mode == STEADY else {}
            rows = stub_options(shape.count, shape.partitions, key_bytes=shape.key_bytes, sizes=shape.sizes)
            return rows | steady
        steady = {"maxOffsetsPerTrigger": each} if mode == STEADY else {}
        own = {PACKED: {"maxPartitions": str(USUAL_TASKS)}, TUNED: SOURCE_TUNED, TUNED_OTHER: SOURCE_TUNED}
        read = {"kafka.bootstrap.servers": self.servers, "subscribe": self._topic, "startingOffsets": "earliest"}
        return read | steady | own.get(connector, {})

    def _batch(self, load: Load, _: Shape, meter: CpuMeter) -> float:
        with meter.interval():
            load(self.spark.read).write.format("noop").mode("overwrite").save()
        return meter.wall

    def _stream(self, load: Load, shape: Shape, meter: CpuMeter) -> float:
        query = Stream(lambda: load(self.spark.readStream), "noop", {})
        query.whole(shape.count, self.directory, meter.interval)
        return meter.wall

    def _steady(self, load: Load, shape: Shape, _: CpuMeter) -> float:
        query = Stream(lambda: load(self.spark.readStream), "noop", {})
        return query.steady_row_seconds(MICRO_BATCHES, self.directory) * shape.count


def main() -> None:
    """Measure every shape in its modes, and report."""
    Comparison(
        name="source",
        title="Reading a topic through Spark",
        description=__doc__,
        verb="read",
        counts=COUNTS,
        wanted=WANTED,
        opened=Bench,
        packed=PACKED,
        reading=True,
        wanted_columns=2.0,
    ).main()


if __name__ == "__main__":
    main()
