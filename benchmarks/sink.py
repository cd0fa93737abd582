"""Writing rows from Spark to a topic: our sink, Spark's JVM connector and a sink that drops the rows, in one session.

    python -m benchmarks.sink [--full] [--bundled] [--bytes 100,1000] [--codecs none] [--modes batch]

Rows are made by Spark's JVM for all of them: pieces of a text of JSON events, as a batch of so many rows, or as one
micro-batch of a stream (``rate-micro-batch``, ``availableNow``), in four tasks. Every sink has the options that it has
by default, and takes its turn in one Spark session on two cores, which the broker, one Apache Kafka, shares:

- pykafka: ours, at least once.
- JVM: Spark's connector as it is by default: batches by its DataSource V1 writer, streams by V2. JVM other: by the
  other one, ``spark.sql.sources.useV1SourceList`` without kafka, ``spark.sql.streaming.disabledV2Writers``.
- stub: a Python sink that takes Arrow batches and drops them, the ceiling of all Python sinks.

By default one thing differs from 100 B or 1,000 B, no codec, 4 partitions of the topic, a batch; ``--full`` measures
every combination. Each write has a new topic, which is made before and counted and deleted after the time that is
measured: of batches from ``save()`` to its end, of streams the sum of their triggers. Medians of the rounds.
"""

import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.support import filling
from benchmarks.support.brokers import apache_kafka_or_bundled, topic
from benchmarks.support.cpu import COLUMNS as CPU_COLUMNS
from benchmarks.support.cpu import CpuMeter
from benchmarks.support.report import Cell, Report, arguments, parse
from benchmarks.support.rounds import Case, measure, ratio
from benchmarks.support.sessions import jars_of_connector, local_session, setting, stream_seconds
from benchmarks.support.shapes import (
    QUICK_SCALE,
    Found,
    Shape,
    add_axes,
    columns,
    draw,
    fastest,
    lines,
    modes_of,
    rows_beside,
    shapes,
)
from spark_kafka_native.client.cluster import Cluster
from spark_kafka_native.client.offsets import LATEST, list_offsets
from spark_kafka_native.protocol.topic import TopicPartition

WANTED_OF_JVM: Final = 2.0
WANTED_OF_STUB: Final = 0.8
TARGET_BYTES: Final = (100, 1_000)

OURS, JVM, JVM_OTHER, STUB = "pykafka", "JVM", "JVM other", "stub"
OTHERS: Final = (JVM, JVM_OTHER, STUB)
BATCH, STREAM = "batch", "stream"
OTHER_WRITER: Final = {
    BATCH: {"spark.sql.sources.useV1SourceList": ""},
    STREAM: {"spark.sql.streaming.disabledV2Writers": "org.apache.spark.sql.kafka010.KafkaSourceProvider"},
}
TASKS: Final = 4
TEXT_BYTES: Final = 1 << 20
STEP: Final = 104_729
"""How far apart in the text neighbouring rows are taken: a prime, so that no batch of records has a place twice."""
FIRST_WARMUPS: Final = 10
"""Rounds that do not count of the first shape. Spark and the broker are compiled at run time, for half a minute."""


class Bench:
    """The sinks, on one broker."""

    def __init__(self, spark: SparkSession, servers: str, cluster: Cluster, directory: Path) -> None:
        self.spark, self.servers, self.cluster, self.directory = spark, servers, cluster, directory
        events = filling.events(2 * TEXT_BYTES, 1_000, 1_000, 0).column("value")
        self._text = b"".join(filter(None, events.to_pylist()))[:TEXT_BYTES]

    def case(self, mode: str, sink: str, shape: Shape, rows: int) -> Case:
        """One write of a sink, timed by itself."""

        def case() -> float:
            with topic(self.cluster, f"sink-{time.monotonic_ns()}", shape.partitions) as name:
                with setting(self.spark, OTHER_WRITER[mode] if sink == JVM_OTHER else {}):
                    options = {
                        "kafka.bootstrap.servers": self.servers,
                        "topic": name,
                        "kafka.compression.type": shape.codec,
                    }
                    form = {OURS: "pykafka", STUB: "stub"}.get(sink, "kafka")
                    write = self._batch if mode == BATCH else self._stream
                    seconds = write(form, options, shape.value_bytes, rows)
                if sink != STUB and (written := self._records(name, shape.partitions)) != rows:
                    raise RuntimeError(f"{sink}: {written:,} records instead of {rows:,}")
            return seconds

        return case

    def _records(self, name: str, partitions: int) -> int:
        wanted = {TopicPartition(name, index): LATEST for index in range(partitions)}
        return sum(found.offset for found in list_offsets(self.cluster, wanted).values())

    def _value(self, number: Column, value_bytes: int) -> Column:
        place = F.pmod(number * STEP, F.lit(TEXT_BYTES - value_bytes)) + 1
        return F.lit(self._text).substr(place.cast("int"), F.lit(value_bytes)).alias("value")

    def _batch(self, form: str, options: dict[str, str], value_bytes: int, rows: int) -> float:
        frame: DataFrame = self.spark.range(0, rows, 1, TASKS).select(self._value(F.col("id"), value_bytes))
        started = time.perf_counter()
        frame.write.format(form).mode("append").options(**options).save()
        return time.perf_counter() - started

    def _stream(self, form: str, options: dict[str, str], value_bytes: int, rows: int) -> float:
        reader = self.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows)
        frame = reader.option("numPartitions", TASKS).load().select(self._value(F.col("value"), value_bytes))
        return stream_seconds(frame, form, options, rows, self.directory)


def sinks(shape: Shape, *, jvm: bool, full: bool) -> list[str]:
    """Who takes part; the JVM connector's other writer only where a target is."""
    theirs = [JVM, *([JVM_OTHER] if full or shape.is_usual else [])] if jvm else []
    return [OURS, *theirs, STUB]


def main() -> None:
    """Measure every shape in both modes, and report."""
    parser = arguments(__doc__)
    add_axes(parser, list(OTHER_WRITER), scale=0.5)
    parser.add_argument("--bundled", action="store_true", help="to the bundled broker instead of Apache Kafka")
    options = parse(parser, scale=QUICK_SCALE)
    report = Report("sink", "Writing a topic from Spark", options)
    jars = jars_of_connector(report)
    found: dict[str, dict[Shape, Found]] = {mode: {} for mode in options.modes}
    cpu: list[list[Cell]] = []
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker = apache_kafka_or_bundled(directory / "broker", bundled_wanted=options.bundled)
        running = stack.enter_context(broker)
        report.note(f"Broker: {running.name}.")
        cluster = stack.enter_context(running.cluster())
        spark = local_session("sink", directory, jars=jars, memory="4g")
        stack.callback(spark.stop)
        bench = Bench(spark, running.bootstrap_servers, cluster, directory)
        for number, shape in enumerate(shapes(options)):
            taking_part = sinks(shape, jvm=bool(jars), full=options.full)
            warmups = 1 if number or options.quick else FIRST_WARMUPS
            for mode in modes_of(shape, options):
                rows = shape.rows(options.scale)
                meter = CpuMeter.beside(running.pid)
                cases = {sink: meter.metered(sink, bench.case(mode, sink, shape, rows)) for sink in taking_part}
                found[mode][shape] = measure(cases, options.rounds, warmups, title=f"{shape}, {mode}")
                if shape.is_usual:
                    cpu += meter.lines(rows, options.rounds, f"{shape.value_bytes:,} B, {mode}")
    tell(report, found)
    report.table(("", "by", *CPU_COLUMNS), cpu, "CPU of both cores")
    report.save()


def tell(report: Report, found: dict[str, dict[Shape, Found]]) -> None:
    """Tables, targets and plot."""
    scale = report.options.scale
    for mode, by_shape in found.items():
        report.table(columns(OURS, OTHERS, OTHERS), list(lines(by_shape, OURS, OTHERS, OTHERS, scale=scale)), mode)
        for shape, seconds in by_shape.items():
            if not shape.is_usual or shape.value_bytes not in TARGET_BYTES:
                continue
            where = f"{mode}, {shape.value_bytes:,} B"
            theirs = fastest(seconds, (JVM, JVM_OTHER))
            if theirs is not None:
                times = ratio(seconds[OURS], theirs)
                report.target(f"{where}: times the JVM connector's faster writer", WANTED_OF_JVM, times)
                rows_beside(report, f"write a {mode}", shape, seconds[OURS], theirs, scale=scale)
            share = ratio(seconds[OURS], seconds[STUB])
            report.target(f"{where}: times the stub", WANTED_OF_STUB, share)
    report.keep(
        {mode: {str(shape): seconds for shape, seconds in by_shape.items()} for mode, by_shape in found.items()}
    )
    report.plot(lambda figure: draw(figure, "Writing a topic from Spark on two cores", found, scale=scale))


if __name__ == "__main__":
    main()
