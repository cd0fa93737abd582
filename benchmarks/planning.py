"""How long it takes to plan a query, by the number of partitions, beside Spark's JVM connector on the same brokers.

    python -m benchmarks.planning [--partitions 100,1000,10000] [--simulated 100000] [--brokers 20] [--alone]

The bundled broker holds up to 10,000 partitions, with a record in each. More are simulated: brokers in plain Python
that answer from memory, which takes most of the time of some requests. The table has their time in a column, and does
not compare the connectors there.

- planner: ours, in a process of its own as Spark's driver has it. A batch query from earliest to latest; the first
  trigger of a stream that may read half of what there is; the next trigger of one that runs, after a second without
  news. What is sent to Spark is part of it: offsets as JSON, and the tasks, each pickled by itself as Spark does.
  Memory is what the process had at most, beyond what it had before.
- Spark, both connectors in turn (not with ``--alone``): a batch query from ``load()`` to its list of tasks, and
  triggers of a stream with one new record, as ``durationMs`` of its progress tells them: ``latestOffset``, and the
  whole trigger. Requests that it sends in a second when idle are counted for some seconds. Simulated brokers are asked
  for batches only: one trigger of 100,000 partitions takes the JVM connector more than 10 s with them.

Requests are those that one plan sends. Medians of the rounds.
"""

import argparse
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.support.filling import create
from benchmarks.support.report import Cell, Report, arguments, parse
from benchmarks.support.rounds import Case, measure
from benchmarks.support.sessions import jars_of_connector, local_session
from benchmarks.support.simulated import SimulatedCluster
from benchmarks.support.source_process import BATCH, FIRST_TRIGGER, NEXT_TRIGGER, PLANNING, Took, source_process
from broker_embedded.testing import BrokerProcess
from spark_kafka_native._client.admin.topics import delete_topics
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.config import ClientConfig
from spark_kafka_native._client.producer.producer import Producer

IDLE_S: Final = 3.0
TRIGGERS: Final = 3
"""Of a query, after the first."""
TRIGGER_TIMEOUT_S: Final = 120.0
PLANNED_APIS: Final = ("Metadata", "ListOffsets", "DescribeTopicPartitions")
JVM, OURS = "kafka", "pykafka"
TASKS, LATEST, WHOLE = "batch, until its tasks are there", "trigger, latestOffset", "trigger, whole"
TARGET_TIMES: Final = 5.0
TARGET_PARTITIONS: Final = 10_000
PLANNER_BATCH: Final = f"planner: {BATCH}"
BATCH_TARGET_S, BATCH_TARGET_PARTITIONS = 2.0, 100_000
"""Seconds at most for the tasks of a batch with so many partitions, what the brokers take included."""


class Brokers(Protocol):
    """Brokers, real or simulated, that count what they are asked."""

    @property
    def bootstrap_servers(self) -> str:
        """Where they are."""
        ...

    def forget_requests(self) -> None:
        """Count from here on."""
        ...

    def request_counts(self) -> Counter[str]:
        """Requests since then, by API."""
        ...


@dataclass
class Line:
    """What was measured of one case: seconds, and more of those that the planner alone took."""

    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    pickling_seconds: list[float] = field(default_factory=list)
    peaks: list[int] = field(default_factory=list)
    brokers_cpu: list[float] = field(default_factory=list)
    requests: str = ""

    def cells(self) -> list[Cell]:
        """Milliseconds, CPU, and of that pickling, memory, the brokers' CPU, requests; medians of what there is."""
        return [
            statistics.median(self.seconds) * 1000,
            *(
                statistics.median(values) * unit if values else None
                for values, unit in (
                    (self.cpu_seconds, 1000),
                    (self.pickling_seconds, 1000),
                    (self.peaks, 2**-20),
                    (self.brokers_cpu, 1000),
                )
            ),
            self.requests or None,
        ]


Lines = dict[str, Line]


class Bench:
    """The cases of one topic on brokers that have it."""

    def __init__(self, brokers: Brokers, topic: str, partitions: int, rounds: int, warmups: int = 1) -> None:
        self.brokers, self.topic, self.partitions = brokers, topic, partitions
        self.rounds, self.warmups = rounds, warmups
        self.options = {"kafka.bootstrap.servers": brokers.bootstrap_servers, "subscribe": topic}
        self.lines: Lines = {}

    def cluster(self) -> Cluster:
        """A client of the brokers."""
        return Cluster(ClientConfig.parse({"bootstrap.servers": self.brokers.bootstrap_servers}))

    @contextmanager
    def filled(self) -> Iterator[None]:
        """The topic, with a record in every partition; simulated brokers have it from the start."""
        if isinstance(self.brokers, SimulatedCluster):
            yield
            return
        with self.cluster() as cluster:
            create(cluster, self.topic, self.partitions)
            self.produce(np.arange(self.partitions, dtype=np.int32))
            yield
            delete_topics(cluster, [self.topic])

    def produce(self, partitions: np.ndarray[Any, np.dtype[np.int32]]) -> None:
        """A record into each of these partitions."""
        values = pa.array([b"value"] * len(partitions), pa.binary())
        batch = pa.record_batch([pa.array(partitions, pa.int32()), values], names=["partition", "value"])
        with self.cluster() as cluster, Producer(cluster) as producer:
            producer.send(self.topic, batch)

    @contextmanager
    def _counting(self, line: Line) -> Iterator[None]:
        """The requests of what is done meanwhile, and what it takes simulated brokers."""
        self.brokers.forget_requests()
        simulated = self.brokers if isinstance(self.brokers, SimulatedCluster) else None
        before = simulated.cpu_seconds() if simulated else 0.0
        yield
        if simulated:
            line.brokers_cpu.append(simulated.cpu_seconds() - before)
        line.requests = _format_counts(self.brokers.request_counts())

    # --- the planner alone

    def alone(self) -> None:
        """Ours, without Spark."""
        with ExitStack() as stack:
            cases: dict[str, Case] = {}
            for what in PLANNING:
                line = self.lines[f"planner: {what}"] = Line()
                plan = stack.enter_context(source_process(what, self.options | self._limits(what)))
                cases[f"planner: {what}"] = self._planning(plan, line, what)
            self._keep(measure(cases, self.rounds, self.warmups, title=f"{self.partitions:,} partitions"))

    def _limits(self, what: str) -> dict[str, str]:
        """The first trigger reads from earliest, half of the records."""
        if what != FIRST_TRIGGER:
            return {}
        return {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(max(1, self.partitions // 2))}

    def _planning(self, plan: Callable[[], Took], line: Line, what: str) -> Case:
        wanted = {BATCH: self.partitions, FIRST_TRIGGER: self.partitions // 2, NEXT_TRIGGER: 0}[what]

        def case() -> float:
            with self._counting(line):
                planned = plan()
            if planned.count != wanted:
                raise RuntimeError(f"{what}: {planned.count} tasks instead of {wanted}")
            line.cpu_seconds.append(planned.cpu_seconds)
            line.pickling_seconds.append(planned.pickling_seconds)
            line.peaks.append(planned.peak_bytes)
            return planned.seconds

        return case

    def _keep(self, seconds: dict[str, list[float]]) -> None:
        for name, times in seconds.items():
            self.lines[name].seconds = times

    # --- through Spark

    def through_spark(self, spark: SparkSession, connectors: Sequence[str], directory: Path) -> None:
        """Connectors by turns."""
        cases: dict[str, Case] = {}
        for connector in connectors:
            self.lines[_name(connector, TASKS)] = Line()
            cases[_name(connector, TASKS)] = self._tasks_of_batch(spark, connector)
            if not isinstance(self.brokers, SimulatedCluster):
                self.lines |= {_name(connector, what): Line() for what in (LATEST, WHOLE)}
                cases[_name(connector, LATEST)] = self._triggers(spark, connector, directory)
        self._keep(measure(cases, self.rounds, self.warmups, title=f"{self.partitions:,} partitions, Spark"))

    def _tasks_of_batch(self, spark: SparkSession, connector: str) -> Case:
        def case() -> float:
            with self._counting(self.lines[_name(connector, TASKS)]):
                started = time.perf_counter()
                frame = spark.read.format(connector).options(**self.options).load()
                tasks: Any = frame._jdf.queryExecution().toRdd()  # noqa: SLF001  # PySpark cannot plan without running
                count = tasks.getNumPartitions()
                took = time.perf_counter() - started
            if count != self.partitions:
                raise RuntimeError(f"{connector} planned {count} tasks")
            return took

        return case

    def _triggers(self, spark: SparkSession, connector: str, directory: Path) -> Case:
        whole, latest = self.lines[_name(connector, WHOLE)], self.lines[_name(connector, LATEST)]

        def case() -> float:
            checkpoint = tempfile.mkdtemp(dir=directory)
            frame = spark.readStream.format(connector).options(**self.options).load()
            query = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
            try:
                query.processAllAvailable()
                durations = [self._one_trigger(query, turn) for turn in range(TRIGGERS + 1)][1:]
                if not latest.requests:
                    latest.requests = self._when_idle()
            finally:
                query.stop()
            whole.seconds.append(statistics.median(each["triggerExecution"] for each in durations) / 1000)
            del whole.seconds[: -self.rounds]
            return statistics.median(each["latestOffset"] for each in durations) / 1000

        return case

    def _one_trigger(self, query: StreamingQuery, turn: int) -> dict[str, int]:
        """How long the trigger took that read one new record."""
        self.produce(np.array([turn % self.partitions], dtype=np.int32))
        until = time.monotonic() + TRIGGER_TIMEOUT_S
        while time.monotonic() < until:
            # Progress without rows has the number of the batch that comes next.
            with_rows = [progress for progress in query.recentProgress if progress.numInputRows]
            if len(with_rows) > turn:
                return dict(with_rows[turn].durationMs)
            time.sleep(0.05)
        raise RuntimeError(f"no batch within {TRIGGER_TIMEOUT_S:.0f} s: {query.exception()}")

    def _when_idle(self) -> str:
        time.sleep(1)
        self.brokers.forget_requests()
        time.sleep(IDLE_S)
        counts = self.brokers.request_counts()
        return f"{sum(counts[api] for api in PLANNED_APIS) / IDLE_S:.0f} a second when idle"


def _name(connector: str, what: str) -> str:
    return f"Spark, {connector}: {what}"


def _topic(partitions: int) -> str:
    return f"planned-{partitions}"


def _format_counts(counts: Counter[str]) -> str:
    return ", ".join(f"{counts[api]} {api}" for api in PLANNED_APIS if counts[api])


@contextmanager
def real(directory: Path) -> Iterator[BrokerProcess]:
    """The bundled broker, which counts requests."""
    with BrokerProcess(directory, control=True) as broker:
        yield broker


def speed_up(lines: Lines, name: str) -> float | None:
    """How many times as fast as the JVM connector, of a line of ours through Spark; none with simulated brokers."""
    theirs = lines.get(name.replace(f"Spark, {OURS}:", f"Spark, {JVM}:"))
    if not name.startswith(f"Spark, {OURS}:") or theirs is None or theirs.brokers_cpu:
        return None
    return statistics.median(theirs.seconds) / statistics.median(lines[name].seconds)


def main() -> None:
    """Run all cases and print the table."""
    parser = arguments(__doc__)
    parser.add_argument("--partitions", default="100,1000,10000", help="of the bundled broker (%(default)s)")
    parser.add_argument("--simulated", default="100000", help="of simulated brokers; none if empty (%(default)s)")
    parser.add_argument("--brokers", type=int, default=20, help="that are simulated")
    parser.add_argument("--alone", action="store_true", help="the planner alone, without Spark")
    options = parse(parser, partitions="100", simulated="500", brokers=3)
    report = Report("planning", "Planning by the number of partitions", options)
    jars = jars_of_connector(report)
    results: dict[int, Lines] = {}
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        spark = None
        if not options.alone:
            spark = local_session("planning", Path(directory), jars=jars)
            stack.callback(spark.stop)
        for count in map(int, filter(None, options.partitions.split(","))):
            broker = real(Path(directory, f"broker-{count}"))
            results[count] = _run(broker, count, options, spark, [JVM, OURS] if jars else [OURS], Path(directory))
        for count in map(int, filter(None, options.simulated.split(","))):
            cluster = SimulatedCluster(options.brokers, {_topic(count): count})
            results[count] = _run(cluster, count, options, spark, [JVM, OURS] if jars else [OURS], Path(directory))
    _tell(report, results, options)
    report.save()


def _run(
    brokers: AbstractContextManager[BrokerProcess] | AbstractContextManager[SimulatedCluster],
    count: int,
    options: argparse.Namespace,
    spark: SparkSession | None,
    connectors: Sequence[str],
    directory: Path,
) -> Lines:
    with brokers as running:
        bench = Bench(running, _topic(count), count, options.rounds, 0 if options.quick else 1)
        with bench.filled():
            bench.alone()
            if spark is not None:
                bench.through_spark(spark, connectors, directory)
    return bench.lines


def _tell(report: Report, results: dict[int, Lines], options: argparse.Namespace) -> None:
    simulated = {int(count) for count in filter(None, options.simulated.split(","))}
    rows: list[list[Cell]] = [
        [
            f"{count:,}{', simulated' if count in simulated else ''}",
            name,
            *line.cells(),
            speed_up(lines, name),
        ]
        for count, lines in results.items()
        for name, line in lines.items()
    ]
    costs = ["ms", "CPU ms", "pickling, CPU ms", "memory, MiB", "brokers' CPU ms", "requests"]
    columns = ["partitions", "", *costs, "x JVM"]
    report.table(columns, rows)
    for what in (TASKS, LATEST):
        lines, name = results.get(TARGET_PARTITIONS, {}), _name(OURS, what)
        if name in lines and (times := speed_up(lines, name)) is not None:
            report.target(f"{TARGET_PARTITIONS:,} partitions, {what}, x JVM", TARGET_TIMES, times)
    if BATCH_TARGET_PARTITIONS in results:
        seconds = statistics.median(results[BATCH_TARGET_PARTITIONS][PLANNER_BATCH].seconds)
        name = f"{BATCH_TARGET_PARTITIONS:,} partitions, {PLANNER_BATCH}, s"
        report.target(name, BATCH_TARGET_S, seconds, at_most=True)
    report.keep({str(count): {name: line.seconds for name, line in lines.items()} for count, lines in results.items()})


if __name__ == "__main__":
    main()
