"""Short queries: the time from ``load()`` to the end of a query with few rows, which is mostly its start.

    python -m benchmarks.start [--bundled] [--rows 2000]

Each query reads or writes ``--rows`` records of 100 bytes in two tasks:

- ``batch``: ``load()`` into Spark's ``noop`` sink.
- ``stream``: the same rows with ``availableNow``, from ``load()`` to the end of the query.
- ``write``: a batch from Spark's ``range`` to a topic.
- ``write-stream``: from Spark's ``rate-micro-batch`` source to a topic, one micro-batch.

"Later" queries alternate in one Spark session, after a warm-up. "First" is the first query of a new Spark session in a
new process, without the start of the session; each round starts a session for each query and connector.

Connectors: pykafka; the JVM connector with its defaults, and tuned with the options of ``benchmarks.source`` and
``benchmarks.sink``; and a stub, a source or sink in Python that needs no Kafka: the time that Spark itself takes for a
connector in Python. Spark's workers run ``pykafka-python``, or Python itself where a name ends with ``plain``; later
queries of these have a session of their own. Seconds are medians of the rounds, of which later queries have three times
as many.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from benchmarks.support.brokers import apache_kafka_or_bundled, fill, topic
from benchmarks.support.report import Cell, Report, arguments, parse
from benchmarks.support.rounds import Case, measure
from benchmarks.support.sessions import (
    BATCH_TIMEOUT_S,
    SINK_TUNED,
    SOURCE_TUNED,
    in_new_process,
    jars_of_connector,
    local_session,
)
from benchmarks.support.shapes import Shape
from benchmarks.support.speeds import JVM, OURS, STUB, TUNED
from benchmarks.support.stubs import stub_options

BATCH, STREAM, WRITE, WRITE_STREAM = "batch", "stream", "write", "write-stream"
MODES: Final = (BATCH, STREAM, WRITE, WRITE_STREAM)
PLAIN: Final = ", plain"
"""The end of a connector's name whose workers run Python itself."""
TASKS: Final = 2
VALUE_BYTES: Final = 100
ABOVE_STUB_S: Final = 0.10
"""Longest time of our stream beyond the stub's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One query of a connector; pickled to the process of a new session."""

    mode: str
    connector: str
    servers: str
    source: str
    """The topic that is read."""
    sink: str
    """The topic that is written."""
    rows: int

    def run(self, spark: SparkSession, directory: Path) -> float:
        """Seconds of the query. Raises RuntimeError: a stream did not end, or had another number of rows."""
        started = time.perf_counter()
        if self.mode == BATCH:
            self._read(spark).write.format("noop").mode("overwrite").save()
        elif self.mode == WRITE:
            rows = spark.range(0, self.rows, 1, TASKS).selectExpr(f"rpad(id, {VALUE_BYTES}, 'x') as value")
            rows.write.format(self._format).options(**self._write_options()).mode("append").save()
        else:
            self._stream(spark, directory)
        return time.perf_counter() - started

    def check(self, spark: SparkSession) -> None:
        """Raises RuntimeError: a batch reads another number of rows."""
        if self.mode == BATCH and (read := self._read(spark).count()) != self.rows:
            raise RuntimeError(f"{self.name}: {read:,} rows instead of {self.rows:,}")

    @property
    def name(self) -> str:
        """As the tables have it."""
        return f"{self.mode} {self.connector}"

    @property
    def python(self) -> str | None:
        """What Spark's workers run; None: what they run usually."""
        return sys.executable if self.connector.endswith(PLAIN) else None

    @property
    def _is_stub(self) -> bool:
        return self.connector.removesuffix(PLAIN) == STUB

    @property
    def _format(self) -> str:
        return "stub" if self._is_stub else "pykafka" if self.connector.removesuffix(PLAIN) == OURS else "kafka"

    def _read_options(self) -> dict[str, str]:
        if self._is_stub:
            return stub_options(self.rows, TASKS, sizes=(VALUE_BYTES, VALUE_BYTES))
        tuned = SOURCE_TUNED if self.connector == TUNED else {}
        return {
            "kafka.bootstrap.servers": self.servers,
            "subscribe": self.source,
            "startingOffsets": "earliest",
        } | tuned

    def _write_options(self) -> dict[str, str]:
        if self._is_stub:
            return {}
        tuned = SINK_TUNED if self.connector == TUNED else {}
        return {"kafka.bootstrap.servers": self.servers, "topic": self.sink} | tuned

    def _read(self, spark: SparkSession) -> DataFrame:
        return spark.read.format(self._format).options(**self._read_options()).load()

    def _stream(self, spark: SparkSession, directory: Path) -> None:
        if self.mode == STREAM:
            rows = spark.readStream.format(self._format).options(**self._read_options()).load()
            writer = rows.writeStream.format("noop")
        else:
            once = {"rowsPerBatch": str(self.rows), "numPartitions": str(TASKS), "startTimestamp": "0"}
            rows = spark.readStream.format("rate-micro-batch").options(**once).load()
            values = rows.selectExpr(f"rpad(value, {VALUE_BYTES}, 'x') as value")
            writer = values.writeStream.format(self._format).options(**self._write_options())
        checkpoint = tempfile.mkdtemp(dir=directory)
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        if not query.awaitTermination(int(BATCH_TIMEOUT_S)):
            raise RuntimeError(f"{self.name}: no end after {BATCH_TIMEOUT_S:.0f} s")
        if (read := sum(progress.numInputRows for progress in query.recentProgress)) != self.rows:
            raise RuntimeError(f"{self.name}: {read:,} rows instead of {self.rows:,}")


def first_query(query: Query, jars: Sequence[Path]) -> float:
    """Seconds of the first query of a new Spark session; runs in a process of its own."""
    with tempfile.TemporaryDirectory() as temporary:
        spark = local_session("start", Path(temporary), jars=jars, python=query.python)
        try:
            return query.run(spark, Path(temporary))
        finally:
            spark.stop()


def later_queries(queries: Sequence[Query], jars: Sequence[Path], rounds: int, warmups: int) -> dict[str, list[float]]:
    """Seconds of queries of the same Python in one Spark session; runs in a process of its own."""
    with tempfile.TemporaryDirectory() as temporary:
        spark = local_session("start", Path(temporary), jars=jars, python=queries[0].python)
        try:
            for query in queries:
                query.check(spark)
            cases: dict[str, Case] = {query.name: partial(query.run, spark, Path(temporary)) for query in queries}
            return measure(cases, rounds, warmups, title="later queries")
        finally:
            spark.stop()


def main() -> None:
    """Measure first and later queries, and print a table of each."""
    parser = arguments(__doc__, rounds=3)
    parser.add_argument("--bundled", action="store_true", help="the bundled broker instead of Apache Kafka")
    parser.add_argument("--rows", type=int, default=2_000, help="of each query (%(default)s)")
    options = parse(parser)
    report = Report("start", f"Seconds of queries with {options.rows:,} rows", options)
    jars = jars_of_connector(report)
    connectors = (OURS, OURS + PLAIN, *((JVM, TUNED) if jars else ()), STUB, STUB + PLAIN)
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        directory = Path(temporary)
        running = stack.enter_context(apache_kafka_or_bundled(directory / "broker", bundled_wanted=options.bundled))
        report.note(f"The broker is {running.name}.")
        cluster = stack.enter_context(running.cluster())
        source = stack.enter_context(topic(cluster, "start-source", TASKS))
        sink = stack.enter_context(topic(cluster, "start-sink", TASKS))
        fill(running, source, Shape(value_bytes=VALUE_BYTES, count=options.rows, partitions=TASKS))
        queries = [
            Query(
                mode=mode,
                connector=connector,
                servers=running.bootstrap_servers,
                source=source,
                sink=sink,
                rows=options.rows,
            )
            for mode in MODES
            for connector in connectors
        ]
        first: dict[str, Case] = {query.name: partial(in_new_process, first_query, query, jars) for query in queries}
        of_first = measure(first, options.rounds, 0, title="first queries")
        of_later: dict[str, list[float]] = {}
        rounds = options.rounds if options.quick else 3 * options.rounds
        for python in (None, sys.executable):
            same = [query for query in queries if query.python == python]
            of_later |= in_new_process(later_queries, same, jars, rounds, 1 if options.quick else 2)
    _tell(report, connectors, of_first, "First query of a session, seconds")
    _tell(report, connectors, of_later, "Later queries, seconds")
    _compare(report, of_later, has_jvm=bool(jars))
    report.keep({"first": of_first, "later": of_later}).save()


def _tell(report: Report, connectors: Sequence[str], seconds: Mapping[str, Sequence[float]], title: str) -> None:
    rows: list[list[Cell]] = []
    for mode in MODES:
        medians = {name: statistics.median(seconds[f"{mode} {name}"]) for name in connectors}
        rivals = [medians[name] for name in (JVM, TUNED) if name in medians]
        times = medians[OURS] / min(rivals) if rivals else None
        rows.append([mode, *medians.values(), medians[OURS] - medians[STUB], times])
    report.table(["query", *connectors, "pykafka - stub", "pykafka / fastest JVM"], rows, title)


def _compare(report: Report, later: Mapping[str, Sequence[float]], *, has_jvm: bool) -> None:
    def median(mode: str, *connectors: str) -> float:
        return min(statistics.median(later[f"{mode} {name}"]) for name in connectors)

    above = median(STREAM, OURS) - median(STREAM, STUB)
    report.target("later stream, seconds more than the stub", ABOVE_STUB_S, above, at_most=True)
    if not has_jvm:
        return
    for mode in MODES:
        ours, theirs = median(mode, OURS), median(mode, JVM, TUNED)
        if mode == BATCH:
            report.target("later batch, times the time of the fastest JVM connector", 1.0, ours / theirs, at_most=True)
        report.beside(f"short query: {mode}", "s", ours, "fastest JVM connector", theirs, less_is_better=True)


if __name__ == "__main__":
    main()
