"""Writing rows from Spark to a topic: our sink, Spark's JVM connector and a stub that drops the rows, in one session.

    python -m benchmarks.sink [--bundled] [--bytes 100,1000] [--vary rows,codec,partitions,size] [--modes batch]

Rows are made by Spark's JVM for all of them: pieces of a text of JSON events, and keys of 10 digits. The sinks
alternate in one Spark session on two cores, which the broker, one Apache Kafka, shares:

- pykafka: ours, at least once, with the options that it has by default.
- JVM: Spark's connector with the options that it has by default. JVM tuned: with ``kafka.batch.size=1048576`` and
  ``kafka.linger.ms=20``. JVM tuned, other API: a batch by its DataSource V2 writer
  (``spark.sql.sources.useV1SourceList`` without kafka), a stream by its V1 writer
  (``spark.sql.streaming.disabledV2Writers``), with the same options.
- stub: a Python sink that takes Arrow batches and drops them. It has no broker, and a broker on the same cores takes
  most of the time: what the stub shows is the CPU that Spark itself takes to make the rows and to hand them to Python.

Modes: ``batch`` and ``stream`` are whole queries by the clock, from ``range()`` or ``load()`` to their end; the stream
is one micro-batch (``rate-micro-batch``, ``availableNow``). ``stream-steady`` is what a row takes in the micro-batches
after the first one of a query with the default trigger, of an eighth of the rows each.

What is varied is as in `benchmarks.source`. Each write has a new topic, which is created before and counted and deleted
after the interval that clock and CPU measure. Speeds are medians of the rounds, slowest and fastest in brackets.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.support import filling
from benchmarks.support.brokers import Running, topic
from benchmarks.support.cpu import CpuMeter
from benchmarks.support.rounds import Case
from benchmarks.support.sessions import SINK_TUNED, Stream, setting
from benchmarks.support.shapes import BATCH, STEADY, STREAM, VARYING, Shape
from benchmarks.support.side_by_side import Comparison
from benchmarks.support.speeds import OURS, STUB, TUNED, TUNED_OTHER
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.consumer.offsets import LATEST, list_offsets
from spark_kafka_native._protocol.topic import TopicPartition

COUNTS: Final = {100: 8_000_000, 1_000: 2_000_000, 10_000: 200_000}
"""At least 5 seconds of our writer."""
OTHER_WRITER: Final = {
    BATCH: {"spark.sql.sources.useV1SourceList": ""},
    STREAM: {"spark.sql.streaming.disabledV2Writers": "org.apache.spark.sql.kafka010.KafkaSourceProvider"},
}
WANTED: Final = {mode: {100: 2.0, 1_000: 1.4} for mode in (BATCH, STREAM)}
MICRO_BATCHES: Final = 8
TEXT_BYTES: Final = 1 << 20
STEP, OTHER_STEP = 104_729, 7_919
"""How far apart in the text neighbouring rows are taken: primes, so that no batch of records has a row twice."""


class Bench:
    """The sinks, on one broker."""

    def __init__(self, spark: SparkSession, running: Running, cluster: Cluster, directory: Path) -> None:
        self.spark, self.servers, self.cluster, self.directory = spark, running.bootstrap_servers, cluster, directory
        events = filling.events(2 * TEXT_BYTES, 1_000, 1_000, 0).column("value")
        text = b"".join(filter(None, events.to_pylist()))[:TEXT_BYTES]
        # A subquery and no literal: Spark writes out the literals of a plan, and keeps that text of each micro-batch.
        spark.createDataFrame(pa.table({"bytes": [text]})).createOrReplaceTempView("text")
        self._text = F.expr("(SELECT bytes FROM text)")

    @contextmanager
    def prepared(self, _: Shape) -> Iterator[None]:
        """Nothing: each write has a topic of its own."""
        yield

    def case(self, mode: str, connector: str, shape: Shape, meter: CpuMeter) -> Case:
        """One query; its seconds."""
        run = {BATCH: self._batch, STREAM: self._stream, STEADY: self._steady}[mode]
        form = {OURS: "pykafka", STUB: "stub"}.get(connector, "kafka")
        conf = OTHER_WRITER[mode] if connector == TUNED_OTHER else {}
        tuned = SINK_TUNED if connector in {TUNED, TUNED_OTHER} else {}

        def case() -> float:
            with topic(self.cluster, f"sink-{time.monotonic_ns()}", shape.partitions) as name:
                with setting(self.spark, conf):
                    to = {"kafka.bootstrap.servers": self.servers, "topic": name}
                    seconds = run(form, {**to, "kafka.compression.type": shape.codec, **tuned}, shape, meter)
                written = self._records(name, shape.partitions)
                if connector != STUB and (written < shape.count or (mode != STEADY and written > shape.count)):
                    raise RuntimeError(f"{connector}: {written:,} records instead of {shape.count:,}")
            return seconds

        return case

    def _records(self, name: str, partitions: int) -> int:
        wanted = {TopicPartition(name, index): LATEST for index in range(partitions)}
        return sum(found.offset for found in list_offsets(self.cluster, wanted).values())

    def _rows(self, numbers: DataFrame, shape: Shape) -> DataFrame:
        number = F.col(numbers.columns[-1])
        shortest, longest = shape.sizes
        size: Column = F.lit(shape.value_bytes)
        if shape.kind == VARYING:
            size = (F.pmod(number * OTHER_STEP, F.lit(longest - shortest + 1)) + shortest).cast("int")
        place = (F.pmod(number * STEP, F.lit(TEXT_BYTES - longest)) + 1).cast("int")
        key = [F.lpad(number.cast("string"), shape.key_bytes, "0").alias("key")] if shape.key_bytes else []
        return numbers.select(*key, self._text.substr(place, size).alias("value"))

    def _batch(self, form: str, options: dict[str, str], shape: Shape, meter: CpuMeter) -> float:
        with meter.interval():
            rows = self._rows(self.spark.range(0, shape.count, 1, shape.tasks), shape)
            rows.write.format(form).mode("append").options(**options).save()
        return meter.wall

    def _stream(self, form: str, options: dict[str, str], shape: Shape, meter: CpuMeter) -> float:
        Stream(lambda: self._micro_batches(shape, 1), form, options).whole(shape.count, self.directory, meter.interval)
        return meter.wall

    def _steady(self, form: str, options: dict[str, str], shape: Shape, _: CpuMeter) -> float:
        query = Stream(lambda: self._micro_batches(shape, MICRO_BATCHES), form, options)
        return query.steady_row_seconds(MICRO_BATCHES, self.directory) * shape.count

    def _micro_batches(self, shape: Shape, batches: int) -> DataFrame:
        reader = self.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", shape.count // batches)
        return self._rows(reader.option("numPartitions", shape.tasks).load(), shape)


def main() -> None:
    """Measure every shape in its modes, and report."""
    Comparison(
        name="sink",
        title="Writing a topic from Spark",
        description=__doc__,
        verb="write",
        counts=COUNTS,
        wanted=WANTED,
        opened=Bench,
    ).main()


if __name__ == "__main__":
    main()
