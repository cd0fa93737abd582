"""Reading a topic through Spark: our source, Spark's JVM connector and stubs that need no Kafka, in one session.

    python -m benchmarks.source [--full] [--bundled] [--bytes 100,1000] [--codecs none] [--modes batch-noop]

Batches go from one Apache Kafka broker into Spark's ``noop`` sink (``batch-noop``) and into ``sum(length(value))``
(``batch-sum``); a stream catches up with what is there (``availableNow``) into ``noop`` (``stream-noop``). Readers take
turns in one Spark session on two cores, which the broker shares:

- pykafka: ours. pykafka maxPartitions: with as many tasks as a topic usually has partitions, where there are more.
- JVM: Spark's connector as it is by default: a batch by its DataSource V1 reader, a stream by V2. JVM other: by the
  other one, ``spark.sql.sources.useV1SourceList`` without kafka, ``spark.sql.streaming.disabledV2MicroBatchReaders``.
- stub: a Python source that has its Arrow batches ready, the ceiling of all Python sources. loopback stub: it receives,
  too, what the rows take in a log without compression, from a process that does nothing but ``sendfile``.

By default one thing differs from 100 B or 1,000 B, no codec, 4 partitions, into ``noop``; ``--full`` measures every
combination.
Times of batches are from ``load()`` to the last row, those of streams the sum of their triggers. Values are JSON that
gzip makes 4 times smaller; MB/s are of values before compression. Medians of the rounds.
"""

import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from benchmarks.support.brokers import BATCH_BYTES, apache_kafka_or_bundled, fill, topic
from benchmarks.support.cpu import COLUMNS as CPU_COLUMNS
from benchmarks.support.cpu import CpuMeter
from benchmarks.support.report import Cell, Report, arguments, parse
from benchmarks.support.rounds import Case, measure, ratio
from benchmarks.support.sessions import jars_of_connector, local_session, setting, stream_seconds
from benchmarks.support.shapes import (
    QUICK_SCALE,
    USUAL_PARTITIONS,
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
from benchmarks.support.stubs import log_bytes, sender

WANTED_OF_JVM: Final = {100: 2.0, 1_000: 1.3}
WANTED_OF_LOOPBACK: Final = 0.85

OURS, JVM, JVM_OTHER, STUB, LOOPBACK = "pykafka", "JVM", "JVM other", "stub", "loopback stub"
PACKED: Final = "pykafka maxPartitions"
OTHERS: Final = (PACKED, JVM, JVM_OTHER, STUB, LOOPBACK)
COMPARED: Final = (JVM, JVM_OTHER, LOOPBACK)
NOOP, SUM, STREAM = "batch-noop", "batch-sum", "stream-noop"
BATCH_BY_V2: Final = {"spark.sql.sources.useV1SourceList": ""}
STREAM_BY_V1: Final = {
    "spark.sql.streaming.disabledV2MicroBatchReaders": "org.apache.spark.sql.kafka010.KafkaSourceProvider"
}
IN_README: Final = {NOOP: "read a batch", STREAM: "read a stream"}
OTHER_READER: Final = {NOOP: BATCH_BY_V2, SUM: BATCH_BY_V2, STREAM: STREAM_BY_V1}
FIRST_WARMUPS: Final = 6
"""Rounds that do not count of the first topic. Spark and the broker are compiled at run time, for half a minute."""


class Bench:
    """The readers of one topic after the other."""

    def __init__(self, spark: SparkSession, servers: str, address: str, directory: Path) -> None:
        self.spark, self.servers, self.sender, self.directory = spark, servers, address, directory

    def cases(self, mode: str, readers: list[str], name: str, shape: Shape, rows: int) -> dict[str, Case]:
        """A case for each reader."""
        given = {reader: self._options(reader, name, shape, rows) for reader in readers}
        return {reader: self._case(mode, reader, options, shape, rows) for reader, options in given.items()}

    def _options(self, reader: str, name: str, shape: Shape, rows: int) -> dict[str, str]:
        if reader in {STUB, LOOPBACK}:
            options = {"rows": rows, "partitions": shape.partitions, "valueBytes": shape.value_bytes}
            row_bytes = log_bytes(shape.value_bytes, BATCH_BYTES)
            received = {"sender": self.sender, "rowBytes": row_bytes} if reader == LOOPBACK else {}
            return {name: str(value) for name, value in (options | received).items()}
        packed = {"maxPartitions": str(USUAL_PARTITIONS)} if reader == PACKED else {}
        return {"kafka.bootstrap.servers": self.servers, "subscribe": name, "startingOffsets": "earliest"} | packed

    def _case(self, mode: str, reader: str, options: dict[str, str], shape: Shape, rows: int) -> Case:
        form = {OURS: "pykafka", PACKED: "pykafka", JVM: "kafka", JVM_OTHER: "kafka"}.get(reader, "stub")
        conf = OTHER_READER[mode] if reader == JVM_OTHER else {}

        def case() -> float:
            with setting(self.spark, conf):
                if mode == STREAM:
                    return self._stream(form, options, rows)
                if mode == SUM:
                    return self._sum(form, options, rows * shape.value_bytes)
                return self._noop(form, options)

        return case

    def _load(self, form: str, options: dict[str, str]) -> DataFrame:
        return self.spark.read.format(form).options(**options).load()

    def _noop(self, form: str, options: dict[str, str]) -> float:
        started = time.perf_counter()
        self._load(form, options).write.format("noop").mode("overwrite").save()
        return time.perf_counter() - started

    def _sum(self, form: str, options: dict[str, str], value_bytes: int) -> float:
        started = time.perf_counter()
        found = self._load(form, options).selectExpr("sum(length(value))").collect()[0][0]
        seconds = time.perf_counter() - started
        if found != value_bytes:
            raise RuntimeError(f"{form}: {found:,} bytes instead of {value_bytes:,}")
        return seconds

    def _stream(self, form: str, options: dict[str, str], rows: int) -> float:
        frame = self.spark.readStream.format(form).options(**options).load()
        return stream_seconds(frame, "noop", {}, rows, self.directory)


def readers(shape: Shape, *, jvm: bool, full: bool) -> list[str]:
    """Who takes part; the JVM connector's other reader only where a target is."""
    theirs = [JVM, *([JVM_OTHER] if full or shape.is_usual else [])] if jvm else []
    packed = [PACKED] if shape.partitions > USUAL_PARTITIONS else []
    return [OURS, *packed, *theirs, STUB, LOOPBACK]


def main() -> None:
    """Measure every shape in every mode, and report."""
    parser = arguments(__doc__)
    add_axes(parser, list(OTHER_READER))
    parser.add_argument("--bundled", action="store_true", help="from the bundled broker instead of Apache Kafka")
    options = parse(parser, scale=QUICK_SCALE)
    report = Report("source", "Reading a topic through Spark", options)
    jars = jars_of_connector(report)
    found: dict[str, dict[Shape, Found]] = {mode: {} for mode in options.modes}
    cpu: list[list[Cell]] = []
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker = apache_kafka_or_bundled(directory / "broker", bundled_wanted=options.bundled)
        running = stack.enter_context(broker)
        report.note(f"Broker: {running.name}.")
        cluster = stack.enter_context(running.cluster())
        spark = local_session("source", directory, jars=jars, memory="4g")
        stack.callback(spark.stop)
        bench = Bench(spark, running.bootstrap_servers, stack.enter_context(sender()), directory)
        for number, shape in enumerate(shapes(options)):
            with topic(cluster, f"source-{number}", shape.partitions) as name:
                fill(running, name, shape, shape.rows(options.scale))
                for mode in modes_of(shape, options):
                    taking_part = readers(shape, jvm=bool(jars), full=options.full)
                    rows, meter = shape.rows(options.scale), CpuMeter.beside(running.pid)
                    cases = bench.cases(mode, taking_part, name, shape, rows)
                    cases = {reader: meter.metered(reader, case) for reader, case in cases.items()}
                    warmups = 1 if number or options.quick else FIRST_WARMUPS
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
        report.table(columns(OURS, OTHERS, COMPARED), list(lines(by_shape, OURS, OTHERS, COMPARED, scale=scale)), mode)
        for shape, seconds in by_shape.items():
            if not shape.is_usual or shape.value_bytes not in WANTED_OF_JVM:
                continue
            where = f"{mode}, {shape.value_bytes:,} B"
            theirs = fastest(seconds, (JVM, JVM_OTHER))
            if theirs is not None:
                wanted = WANTED_OF_JVM[shape.value_bytes]
                what, times = f"{where}: times the JVM connector's faster reader", ratio(seconds[OURS], theirs)
                report.target(what, wanted, times)
                if mode in IN_README:
                    rows_beside(report, IN_README[mode], shape, seconds[OURS], theirs, scale=scale)
            share = ratio(seconds[OURS], seconds[LOOPBACK])
            report.target(f"{where}: times the loopback stub", WANTED_OF_LOOPBACK, share)
    report.keep(
        {mode: {str(shape): seconds for shape, seconds in by_shape.items()} for mode, by_shape in found.items()}
    )
    report.plot(lambda figure: draw(figure, "Reading a topic through Spark on two cores", found, scale=scale))


if __name__ == "__main__":
    main()
