"""What Spark's own settings bring to a source and a sink that are written in Python.

    python -m benchmarks.settings [--bundled] [--scale 1]

Each setting is measured in new Spark sessions, one for each round, which alternate with those of the other settings.
In a session each query runs once to warm up, and once to be measured: batches that read and write values of 100 and
1,000 bytes with keys, as in ``benchmarks.source`` and ``benchmarks.sink``, by pykafka and by the stub, which needs no
Kafka. The table has the median of the rounds, and how many times as fast a query is as with Spark's defaults.
"""

import statistics
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks import sink, source
from benchmarks.support.brokers import Running, apache_kafka_or_bundled
from benchmarks.support.cpu import CpuMeter
from benchmarks.support.report import Cell, Report, arguments, parse
from benchmarks.support.sessions import in_new_process, local_session
from benchmarks.support.shapes import BATCH, Shape
from benchmarks.support.speeds import OURS, STUB

DEFAULTS: Final = "Spark's defaults"
UNIX_SOCKETS: Final = {"spark.python.unix.domain.socket.enabled": "true"}
NO_CHECKS: Final = {
    "spark.driver.extraJavaOptions": "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
}
SETTINGS: Final[Mapping[str, Mapping[str, str]]] = {
    DEFAULTS: {},
    "Unix sockets": UNIX_SOCKETS,
    "Arrow without checks": NO_CHECKS,
    "both": UNIX_SOCKETS | NO_CHECKS,
    "spark.buffer.size=4096": {"spark.buffer.size": "4096"},
    "spark.buffer.size=1048576": {"spark.buffer.size": "1048576"},
    "arrow.maxRecordsPerBatch=50000": {"spark.sql.execution.arrow.maxRecordsPerBatch": "50000"},
}
READ, WRITE = "read", "write"
ROWS: Final = {READ: {100: 8_000_000, 1_000: 2_000_000}, WRITE: {100: 4_000_000, 1_000: 1_000_000}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A batch query; pickled to the process of a new session."""

    verb: str
    connector: str
    shape: Shape

    @property
    def name(self) -> str:
        """As the table has it."""
        return f"{self.verb} {self.shape.value_bytes:,} B, {self.connector}"


def seconds_in_session(settings: Mapping[str, str], queries: Sequence[Query], running: Running) -> dict[str, float]:
    """Seconds of each query in a new Spark session; runs in a process of its own."""
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        given: dict[str, Any] = {name.replace(".", "__"): value for name, value in settings.items()}
        spark = local_session("settings", Path(temporary), **given)
        stack.callback(spark.stop)
        meter = CpuMeter.beside(running.pid)
        cluster = stack.enter_context(running.cluster())
        opened = {verb: module.Bench(spark, running, cluster, Path(temporary)) for verb, module in _BENCHES.items()}
        for query in queries:
            bench = opened[query.verb]
            with bench.prepared(query.shape):
                case = bench.case(BATCH, query.connector, query.shape, meter)
                case()
                took = case()
            assert took is not None
            found[query.name] = took
    return found


_BENCHES: Final = {READ: source, WRITE: sink}


def main() -> None:
    """Measure every setting, and report."""
    parser = arguments(__doc__, rounds=3)
    parser.add_argument("--bundled", action="store_true", help="the bundled broker instead of Apache Kafka")
    parser.add_argument("--scale", type=float, default=1.0, help="times the usual number of rows (%(default)s)")
    options = parse(parser, scale=0.002)
    report = Report("settings", "Spark's settings for a source and a sink in Python", options)
    queries = [
        Query(verb=verb, connector=connector, shape=Shape(value_bytes=size, count=round(rows * options.scale) // 4 * 4))
        for verb, counts in ROWS.items()
        for size, rows in counts.items()
        for connector in (OURS, STUB)
    ]
    found: dict[str, dict[str, list[float]]] = {name: {query.name: [] for query in queries} for name in SETTINGS}
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        running = stack.enter_context(apache_kafka_or_bundled(directory, bundled_wanted=options.bundled))
        report.note(f"The broker is {running.name}.")
        names = list(SETTINGS)
        for turn in range(options.rounds):
            for name in names if turn % 2 else reversed(names):
                seconds = in_new_process(seconds_in_session, SETTINGS[name], queries, running)
                for query, took in seconds.items():
                    found[name][query].append(took)
    _tell(report, queries, found)
    report.keep(found).save()


def _tell(report: Report, queries: Sequence[Query], found: Mapping[str, Mapping[str, Sequence[float]]]) -> None:
    rows: list[list[Cell]] = []
    for query in queries:
        usual = statistics.median(found[DEFAULTS][query.name])
        times: list[Cell] = [
            usual / statistics.median(found[name][query.name]) for name in SETTINGS if name != DEFAULTS
        ]
        rows.append([query.name, query.shape.count / usual / 1e6, *times])
    others = [f"{name}, times as fast" for name in SETTINGS if name != DEFAULTS]
    report.table(["query", f"{DEFAULTS}, M rows/s", *others], rows)


if __name__ == "__main__":
    main()
