"""How long a record takes through a streaming query from topic to topic: ours and Spark's JVM connector.

    python -m benchmarks.latency [--bundled] [--rate 20] [--seconds 30]

A producer (librdkafka, no linger) sends ``--rate`` records a second; each has its time of sending as its value. A query
with the default trigger and at-least-once delivery copies them from a topic to another of the same broker, whose
records get the time at which the broker appended them (LogAppendTime, whole milliseconds): the latency is the
difference, by one machine's clock. A consumer that is not ours reads both times there.

Both connectors work in one Spark session, a query after the other, alternating; with and without
``asyncProgressTrackingEnabled``, which Spark has to be configured to allow for a sink that is not its own. "JVM tuned"
has ``kafka.fetch.max.wait.ms=10``. Every query has a warm-up of its own that does not count, and begins with a
checkpoint of its own. Percentiles are those of all records of a round, and of these the median of the rounds.

A record that comes while a micro-batch runs waits for the next one, so the duration of a micro-batch decides. The
second table has what Spark reports for it (``durationMs``), medians of the micro-batches with rows: ``addBatch`` is the
write with its tasks and their commit, ``commitOffsets`` Spark's commit log and the source's. Beside it is "stub", a
query from a Python source that has one row for each micro-batch to a Python sink that drops it: what Spark itself takes
for a query whose source and sink are written in Python.
"""

import argparse
import itertools
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.support.brokers import Running, apache_kafka_or_bundled
from benchmarks.support.filling import create
from benchmarks.support.report import Cell, Report, arguments, parse
from benchmarks.support.rounds import Case, measure
from benchmarks.support.sessions import jars_of_connector, local_session
from benchmarks.support.stubs import stub_options
from spark_kafka_native._client.admin.topics import delete_topics

OURS, JVM, TUNED, STUB = "pykafka", "JVM", "JVM tuned", "stub"
FORMATS: Final = {OURS: "pykafka", JVM: "kafka", TUNED: "kafka"}
ASYNC_PROGRESS: Final = {"asyncProgressTrackingEnabled": "true"}
ALLOWED: Final = {"_asyncProgressTrackingOverrideSinkSupportCheck": "true"}
LOG_APPEND_TIME: Final = {"message.timestamp.type": "LogAppendTime"}
PERCENTILES: Final = (50.0, 90.0, 99.0)
WHOLE: Final = "triggerExecution"
DURATIONS: Final = ("latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets", WHOLE)
"""Of a micro-batch, as Spark reports them."""
WANTED_MS: Final = 15.0
"""Longest duration of our micro-batches beyond the stub's."""
PATIENCE_S: Final = 60.0
POLL_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class Way:
    """A connector, with Spark's usual progress tracking or with the asynchronous one."""

    connector: str
    asynchronous: bool

    @property
    def name(self) -> str:
        """As tables have it."""
        return f"{self.connector}{', async progress' if self.asynchronous else ''}"

    @property
    def source_options(self) -> dict[str, str]:
        """Beside topic and servers."""
        return {"kafka.fetch.max.wait.ms": "10"} if self.connector == TUNED else {}

    @property
    def sink_options(self) -> dict[str, str]:
        """Beside topic and servers."""
        if not self.asynchronous:
            return {}
        return ASYNC_PROGRESS | (ALLOWED if self.connector == OURS else {})


@dataclass(slots=True)
class Latencies:
    """Milliseconds of every record, a sorted list for each round."""

    rounds: list[list[float]] = field(default_factory=list)
    durations: list[dict[str, float]] = field(default_factory=list)
    """Of each round, the medians of its micro-batches."""

    def duration(self, name: str) -> float | None:
        """The median of the rounds; None if Spark does not report it."""
        found = [each[name] for each in self.durations if name in each]
        return statistics.median(found) if found else None

    def percentile(self, percent: float) -> float:
        """The median of the rounds' percentiles."""
        return statistics.median(percentile(each, percent) for each in self.rounds)

    def worst(self) -> float:
        """The slowest of all."""
        return max(each[-1] for each in self.rounds)


def percentile(values: Sequence[float], percent: float) -> float:
    """Of sorted values."""
    return values[min(len(values) - 1, int(len(values) * percent / 100))]


class Bench:
    """Queries on one broker, in one session."""

    def __init__(self, spark: SparkSession, running: Running, directory: Path, options: argparse.Namespace) -> None:
        self.spark, self.running, self.directory, self.options = spark, running, directory, options
        self._numbers = itertools.count()

    def case(self, way: Way, found: Latencies) -> Case:
        """A query from its start to its end; seconds are the median latency."""

        def run() -> float:
            number = next(self._numbers)
            source, sink = f"in-{number}", f"out-{number}"
            with self.running.cluster() as cluster:
                create(cluster, source, self.options.partitions)
                create(cluster, sink, self.options.partitions, LOG_APPEND_TIME)
                try:
                    latencies, durations = self._measured(way, source, sink)
                finally:
                    delete_topics(cluster, [source, sink])
            found.rounds.append(latencies)
            found.durations.append(durations)
            return percentile(latencies, 50.0) / 1000

        return run

    def stub(self, found: Latencies) -> Case:
        """A query of which only the durations of its micro-batches are measured."""

        def run() -> float:
            options = stub_options(1, 1, sizes=(100, 100)) | {"endless": "true"}
            rows = self.spark.readStream.format("stub").options(**options).load()
            writer = rows.writeStream.format("stub")
            query = writer.option("checkpointLocation", tempfile.mkdtemp(dir=self.directory)).start()
            try:
                until = time.monotonic() + PATIENCE_S
                while query.lastProgress is None:
                    _check(query, until)
                    time.sleep(POLL_S)
                time.sleep(self.options.warmup_seconds + self.options.seconds)
                found.durations.append(durations_ms(query))
            finally:
                query.stop()
            return found.durations[-1][WHOLE] / 1000

        return run

    def _measured(self, way: Way, source: str, sink: str) -> tuple[list[float], dict[str, float]]:
        query = self._started(way, source, sink)
        try:
            producer = Producer({"bootstrap.servers": self.running.bootstrap_servers, "linger.ms": 0, "acks": "all"})
            arrived = _Arrivals(self.running.bootstrap_servers, sink, self.options.partitions)
            with arrived:
                self._until_it_runs(query, producer, source, arrived)
                rate = self.options.rate
                warmup, wanted = int(rate * self.options.warmup_seconds), int(rate * self.options.seconds)
                first = send(producer, source, rate, warmup + wanted)[warmup]
                arrived.wait_for(first, wanted, query)
                return sorted(ms for sent_ns, ms in arrived.found() if sent_ns >= first), durations_ms(query)
        finally:
            query.stop()

    def _started(self, way: Way, source: str, sink: str) -> StreamingQuery:
        servers = {"kafka.bootstrap.servers": self.running.bootstrap_servers}
        form = FORMATS[way.connector]
        reader = self.spark.readStream.format(form).options(**servers, subscribe=source, **way.source_options)
        rows = reader.option("startingOffsets", "earliest").load().select("key", "value")
        writer = rows.writeStream.format(form).options(**servers, topic=sink, **way.sink_options)
        return writer.option("checkpointLocation", tempfile.mkdtemp(dir=self.directory)).start()

    def _until_it_runs(self, query: StreamingQuery, producer: Producer, source: str, arrived: "_Arrivals") -> None:
        """Send a record every now and then until one has come through."""
        until = time.monotonic() + PATIENCE_S
        while not arrived.count:
            send(producer, source, self.options.rate, 1)
            _check(query, until)
            time.sleep(0.1)


class _Arrivals:
    """What comes into the sink topic, read by a consumer that is not ours, in a thread; a context manager."""

    def __init__(self, servers: str, topic: str, partitions: int) -> None:
        settings = {"bootstrap.servers": servers, "group.id": "latency", "enable.auto.commit": False}
        self._consumer = Consumer(settings)
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        self._found: list[tuple[int, float]] = []
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> "_Arrivals":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self._consumer.close()

    @property
    def count(self) -> int:
        """Records so far."""
        return len(self._found)

    def found(self) -> list[tuple[int, float]]:
        """Each record's time of sending in nanoseconds, and its latency in milliseconds."""
        return list(self._found)

    def wait_for(self, first_ns: int, wanted: int, query: StreamingQuery) -> None:
        """Until so many records are there that were sent from then on. Raises RuntimeError: they did not come."""
        until = time.monotonic() + PATIENCE_S
        while sum(sent_ns >= first_ns for sent_ns, _ in self.found()) < wanted:
            _check(query, until)
            time.sleep(POLL_S)

    def _read(self) -> None:
        while not self._done.is_set():
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                sent_ns, (_, appended_ms) = int(message.value() or b"0"), message.timestamp()
                self._found.append((sent_ns, appended_ms - sent_ns / 1e6))


def durations_ms(query: StreamingQuery) -> dict[str, float]:
    """Of the micro-batches with rows that Spark remembers, the median of each duration. Raises RuntimeError: none."""
    took = [each.durationMs for each in query.recentProgress if each.numInputRows]
    if not took:
        raise RuntimeError(f"no micro-batch had rows: {query.exception() or query.lastProgress}")
    return {name: statistics.median(each[name] for each in took if name in each) for name in took[-1]}


def _check(query: StreamingQuery, until: float) -> None:
    if not query.isActive or time.monotonic() > until:
        raise RuntimeError(f"the records do not come through: {query.exception() or query.lastProgress}")


def send(producer: Producer, topic: str, rate: float, records: int) -> list[int]:
    """Send records evenly spread, each with its time as its value; those times, in nanoseconds."""
    times: list[int] = []
    begun = time.perf_counter()
    for number in range(records):
        while (ahead := begun + number / rate - time.perf_counter()) > 0:
            producer.poll(ahead)
        times.append(time.time_ns())
        producer.produce(topic, str(times[-1]).encode())
    producer.flush(30)
    return times


def main() -> None:
    """Measure all ways and print the table."""
    parser = arguments(__doc__)
    parser.add_argument("--bundled", action="store_true", help="the bundled broker instead of Apache Kafka")
    parser.add_argument("--rate", type=float, default=20.0, help="records a second (%(default)s)")
    parser.add_argument("--seconds", type=float, default=30.0, help="that count, of each query (%(default)s)")
    parser.add_argument("--warmup-seconds", type=float, default=10.0, help="before these (%(default)s)")
    parser.add_argument("--partitions", type=int, default=1, help="of both topics (%(default)s)")
    options = parse(parser, seconds=2.0, warmup_seconds=1.0)
    report = Report("latency", f"Latency in ms from topic to topic, {options.rate:g} records a second", options)
    jars = jars_of_connector(report)
    connectors = [OURS, JVM, TUNED] if jars else [OURS]
    ways = [Way(connector, asynchronous) for asynchronous in (False, True) for connector in connectors]
    found = {way.name: Latencies() for way in ways}
    least = Latencies()
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        directory = Path(temporary)
        broker = apache_kafka_or_bundled(directory / "broker", bundled_wanted=options.bundled)
        running = stack.enter_context(broker)
        report.note(f"The broker is {running.name}.")
        spark = local_session("latency", directory, jars=jars)
        stack.callback(spark.stop)
        bench = Bench(spark, running, directory, options)
        cases = {way.name: bench.case(way, found[way.name]) for way in ways}
        measure(cases | {STUB: bench.stub(least)}, options.rounds, 0 if options.quick else 1)
    for latencies in (least, *found.values()):
        del latencies.rounds[: -options.rounds], latencies.durations[: -options.rounds]
    _tell(report, ways, found, least)
    report.save()


def _tell(report: Report, ways: Sequence[Way], found: dict[str, Latencies], least: Latencies) -> None:
    best: dict[bool, str] = {}
    for way in ways:
        if way.connector != OURS and (
            way.asynchronous not in best
            or found[way.name].percentile(50.0) < found[best[way.asynchronous]].percentile(50.0)
        ):
            best[way.asynchronous] = way.name
    rows: list[list[Cell]] = []
    for way in ways:
        mine = found[way.name]
        percentiles = [mine.percentile(each) for each in PERCENTILES]
        medians = [percentile(each, 50.0) for each in mine.rounds]
        spread = f"{min(medians):.0f}-{max(medians):.0f}"
        times = mine.percentile(50.0) / found[best[way.asynchronous]].percentile(50.0) if best else None
        rows.append([way.name, sum(map(len, mine.rounds)), *percentiles, spread, mine.worst(), times])
        if way.connector == OURS and not way.asynchronous and best:
            fastest = best[way.asynchronous]
            whom = f"Spark's JVM connector{', tuned' if fastest.startswith(TUNED) else ''}"
            theirs = found[fastest].percentile(50.0)
            report.beside("topic to topic, p50", "ms", mine.percentile(50.0), whom, theirs, less_is_better=True)
    percents = (f"p{each:g}" for each in PERCENTILES)
    report.table(["", "records", *percents, "p50 of the rounds", "slowest", "p50, x the faster JVM"], rows)
    durations = [[name, *map(each.duration, DURATIONS)] for name, each in {**found, STUB: least}.items()]
    report.table(["", *DURATIONS], durations, "A micro-batch, ms")
    beyond = (found[OURS].duration(WHOLE) or 0.0) - (least.duration(WHOLE) or 0.0)
    report.target(f"{OURS}: a micro-batch, ms beyond the stub's", WANTED_MS, beyond, at_most=True)
    report.keep(
        {
            "milliseconds": {name: each.rounds for name, each in found.items()},
            "durations": {name: each.durations for name, each in {**found, STUB: least}.items()},
        }
    )


if __name__ == "__main__":
    main()
