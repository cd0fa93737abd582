"""What exactly once costs a streaming query: beside at least once, Spark's JVM sink and a sink that drops the rows.

    python -m benchmarks.exactly_once [--jvm] [--apache] [--rows 200000] [--tasks 4] [--rounds 5]

Rows are made by Spark (``rate-micro-batch``), so that nothing but the sink differs; every sink has the options that it
has by default, and the JVM sink a second time those of `benchmarks.sink`. One micro-batch follows the other. Times are
those of the query's progress: ``addBatch`` is planning the write, the tasks and the commit, ``triggerExecution`` is all
of the micro-batch, its checkpoint included.

- large: rows per second of micro-batches of ``--rows``, by the median of ``triggerExecution``.
- small: both times of micro-batches of ``--small-rows``, median and 99th percentile.

The sinks take turns, a query each, on the bundled broker, and after that on Apache Kafka (``--apache``). A round goes
before as a warm-up, and the first micro-batch of each query does not count: it recovers what the last one left.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from rich.progress import track

from benchmarks.support.report import Cell, Report, arguments, parse
from benchmarks.support.sessions import RECOMMENDED, SINK_TUNED, local_session
from broker_embedded.testing import BrokerProcess
from tests.support.servers.apache_kafka import ApacheKafka
from tests.support.spark.jvm_connector import connector_jars

BATCH_TIMEOUT_S: Final = 120.0
POLL_S: Final = 0.1
KEPT_PROGRESSES: Final = 1_000
ADD_BATCH: Final = "addBatch"
WHOLE: Final = "triggerExecution"


@dataclass(frozen=True)
class Sink:
    """A sink of a name, with its format and its options beside servers and topic."""

    name: str
    format: str
    options: dict[str, str] = field(default_factory=dict)


AT_LEAST_ONCE: Final = Sink("pykafka, at least once", "pykafka")
EXACTLY_ONCE: Final = Sink(
    "pykafka, exactly once",
    "pykafka",
    {"delivery.guarantee": "exactly-once", "transactional.id.prefix": "exactly-once-{size}"},
)
CEILING: Final = Sink("Python sink that drops the rows", "stub")
JVM: Final = Sink("Spark's JVM sink", "kafka")
TUNED: Final = Sink("Spark's JVM sink, tuned", "kafka", SINK_TUNED)


@dataclass(frozen=True)
class Size:
    """Micro-batches of so many rows, and how many of them are measured in a round."""

    name: str
    rows: int
    batches: int


Milliseconds = dict[str, list[int]]
"""Of each micro-batch that counts, by the name of the duration."""
Times = dict[str, dict[str, Milliseconds]]
"""By sink and size."""


class Bench:
    """The sinks, over one broker and one Spark session."""

    def __init__(
        self, spark: SparkSession, broker: ApacheKafka | BrokerProcess, directory: Path, options: argparse.Namespace
    ) -> None:
        self.spark, self.broker, self.directory, self.options = spark, broker, directory, options
        self.sinks = [CEILING, AT_LEAST_ONCE, EXACTLY_ONCE, *([JVM, TUNED] if options.jvm else [])]
        self.sizes = [
            Size("large", options.rows, options.batches),
            Size("small", options.small_rows, options.small_batches),
        ]

    def run(self, description: str) -> Times:
        """All rounds."""
        for topic in {self._topic(sink, size) for sink in self.sinks for size in self.sizes}:
            self.broker.create_topic(topic, self.options.tasks)
        times: Times = {
            sink.name: {size.name: {ADD_BATCH: [], WHOLE: []} for size in self.sizes} for sink in self.sinks
        }
        for turn in track(range(self.options.rounds + 1), description=description):
            for size in self.sizes:
                for sink in self.sinks:
                    found = self._durations(sink, size)
                    for name, kept in times[sink.name][size.name].items() if turn else ():
                        kept.extend(durations[name] for durations in found)
        return times

    def _topic(self, sink: Sink, size: Size) -> str:
        return f"{size.name}-{self.sinks.index(sink)}"

    def _durations(self, sink: Sink, size: Size) -> list[dict[str, int]]:
        """The durations of the micro-batches of one query, which resumes at the checkpoint of the last one."""
        with self._query(sink, size) as query:
            first = _wait_for_batch(query, 0)
            _wait_for_batch(query, first + size.batches)
            batches = [progress for progress in query.recentProgress if progress.batchId > first]
        if any(progress.numInputRows != size.rows for progress in batches):
            raise RuntimeError(f"{sink.name}: batches of {[progress.numInputRows for progress in batches]} rows")
        return [dict(progress.durationMs) for progress in batches[: size.batches]]

    @contextmanager
    def _query(self, sink: Sink, size: Size) -> Iterator[StreamingQuery]:
        topic = self._topic(sink, size)
        reader = self.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", size.rows)
        numbers = reader.option("numPartitions", self.options.tasks).load()
        padded = f"rpad(CAST(value AS string), {self.options.value_bytes}, 'x')"
        writer = numbers.selectExpr(f"CAST({padded} AS binary) AS value").writeStream.format(sink.format)
        writer.option("kafka.bootstrap.servers", self.broker.bootstrap_servers).option("topic", topic)
        writer.options(**{name: value.format(size=size.name) for name, value in sink.options.items()})
        query = writer.option("checkpointLocation", str(self.directory / topic)).start()
        try:
            yield query
        finally:
            query.stop()


def _wait_for_batch(query: StreamingQuery, wanted: int) -> int:
    """Wait until a micro-batch of this number or a later one has ended; the number of the last. Raises RuntimeError."""
    last, until = -1, time.monotonic() + BATCH_TIMEOUT_S
    while time.monotonic() < until:
        if not query.isActive:
            break
        progress = query.lastProgress
        if progress is not None and progress.batchId > last:
            last, until = progress.batchId, time.monotonic() + BATCH_TIMEOUT_S
            if last >= wanted:
                return last
        time.sleep(POLL_S)
    raise RuntimeError(f"no batch after {last} within {BATCH_TIMEOUT_S:.0f} s: {query.exception()}")


def main() -> None:
    """Run all cases and report."""
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, default=200_000, help="of a large micro-batch")
    parser.add_argument("--batches", type=int, default=3, help="large ones in a round")
    parser.add_argument("--small-rows", type=int, default=100, help="of a small micro-batch")
    parser.add_argument("--small-batches", type=int, default=40, help="small ones in a round")
    parser.add_argument("--value-bytes", type=int, default=100)
    parser.add_argument("--tasks", type=int, default=4, help="of a micro-batch, and partitions of a topic")
    parser.add_argument("--jvm", action="store_true", help="Spark's JVM sink, too, from Maven Central")
    parser.add_argument("--apache", action="store_true", help="on Apache Kafka, too, from Maven Central")
    options = parse(parser, rows=1_000, batches=1, small_batches=2)
    report = Report("exactly_once", "What exactly once costs a streaming query", options)
    results: dict[str, Times] = {}
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        spark = local_session(
            "exactly_once",
            directory,
            jars=connector_jars() if options.jvm else (),
            settings={**RECOMMENDED, "spark.sql.streaming.numRecentProgressUpdates": str(KEPT_PROGRESSES)},
        )
        with BrokerProcess(directory / "broker") as broker:
            results["bundled"] = Bench(spark, broker, directory / "bundled", options).run("bundled broker")
        if options.apache:
            with ApacheKafka(jvm_options=()) as kafka:
                results["Apache Kafka"] = Bench(spark, kafka, directory / "apache", options).run("Apache Kafka")
        spark.stop()
    _tell(report, results, options)
    report.save()


def _tell(report: Report, results: dict[str, Times], options: argparse.Namespace) -> None:
    rows: list[list[Cell]] = []
    for broker, times in results.items():
        for sink, sizes in times.items():
            rate = options.rows / statistics.median(sizes["large"][WHOLE]) * 1000
            small = [_percentiles(sizes["small"][name]) for name in (ADD_BATCH, WHOLE)]
            rows.append([broker, sink, round(rate), *(round(value) for pair in small for value in pair)])
    titles = ("large, rows/s", f"small, {ADD_BATCH} p50, ms", "p99, ms", f"small, {WHOLE} p50, ms", "p99, ms")
    report.table(("broker", "sink", *titles), rows)
    report.note(
        f"large: {options.rows:,} rows of {options.value_bytes} B, {options.rounds * options.batches} micro-batches; "
        f"small: {options.small_rows:,} rows, {options.rounds * options.small_batches} micro-batches; "
        f"{options.tasks} tasks"
    )
    report.keep(results)


def _percentiles(milliseconds: list[int]) -> tuple[float, float]:
    """The median and the 99th percentile."""
    return float(np.percentile(milliseconds, 50)), float(np.percentile(milliseconds, 99))


if __name__ == "__main__":
    main()
