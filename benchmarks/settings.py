"""What Spark's own settings bring to a source and a sink that are written in Python.

    python -m benchmarks.settings [--bundled] [--scale 1]

``docs/performance.md`` recommends two: Unix sockets between the JVM and its Python workers
(``spark.python.unix.domain.socket.enabled``); and rows to Python in Arrow batches of any size in bytes, which is looked
at for each row if there is a limit (``spark.sql.execution.arrow.maxBytesPerBatch``). Each is measured alone, and both
together. A third one, Arrow without checks of bounds and nulls (``arrow.enable_unsafe_memory_access``,
``arrow.enable_null_check_for_get``), is measured alone and beside both.

Each is measured in new Spark sessions, one for each round, which alternate with those of the others. In a session each
query runs once to warm up, and three times to be measured: batches that read and write values of 100 and 1,000 bytes
with keys, as in ``benchmarks.source`` and ``benchmarks.sink``, and a stream with few rows in each micro-batch; by
pykafka and by the stub, which needs no Kafka. The table has the median of all runs, and how many times as fast a query
is as with Spark's defaults.
"""

import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks import sink, source
from benchmarks.support.brokers import Running, apache_kafka_or_bundled
from benchmarks.support.cpu import CpuMeter
from benchmarks.support.report import Cell, Report, arguments, parse
from benchmarks.support.rounds import ratio, timed
from benchmarks.support.sessions import (
    ANY_SIZE,
    JAVA_OPTIONS,
    RECOMMENDED,
    UNIX_SOCKETS,
    in_new_process,
    local_session,
)
from benchmarks.support.shapes import BATCH, STEADY, Shape
from benchmarks.support.speeds import OURS, STUB

DEFAULTS: Final = "Spark's defaults"
WITHOUT_CHECKS: Final = {
    JAVA_OPTIONS: "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
}
SETTINGS: Final[Mapping[str, Mapping[str, str]]] = {
    DEFAULTS: {},
    "Unix sockets": UNIX_SOCKETS,
    "Arrow without checks": WITHOUT_CHECKS,
    "Arrow batches of any size": ANY_SIZE,
    "recommended": RECOMMENDED,
    "recommended, Arrow without checks": {**RECOMMENDED, **WITHOUT_CHECKS},
}
READ, WRITE = "read", "write"
ROWS: Final = {READ: {100: 4_000_000, 1_000: 1_000_000}, WRITE: {100: 2_000_000, 1_000: 500_000}}
MICRO_BATCH_ROWS: Final = 200
RUNS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What is measured; pickled to the process of a new session."""

    verb: str
    mode: str
    connector: str
    shape: Shape

    @property
    def name(self) -> str:
        """As the table has it."""
        what = f"{self.shape.value_bytes:,} B" if self.mode == BATCH else "micro-batches"
        return f"{self.verb} {what}, {self.connector}"

    def in_unit(self, seconds: float) -> str:
        """Of all rows: rows a second of a batch, the time of each micro-batch of a stream."""
        if self.mode == BATCH:
            return f"{self.shape.count / seconds / 1e6:.3g} M rows/s"
        return f"{seconds / source.MICRO_BATCHES * 1000:.0f} ms"


def queries(scale: float) -> Iterator[Query]:
    """All of them; ``scale`` is for the rows of batches."""
    few = Shape(value_bytes=100, count=MICRO_BATCH_ROWS * source.MICRO_BATCHES)
    for connector in (OURS, STUB):
        for verb, counts in ROWS.items():
            for size, rows in counts.items():
                shape = Shape(value_bytes=size, count=round(rows * scale) // 4 * 4)
                yield Query(verb=verb, mode=BATCH, connector=connector, shape=shape)
        yield Query(verb=READ, mode=STEADY, connector=connector, shape=few)


def seconds_in_session(settings: Mapping[str, str], asked: Sequence[Query], running: Running) -> dict[str, list[float]]:
    """Seconds of each query's runs in a new Spark session; runs in a process of its own."""
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        spark = local_session("settings", Path(temporary), settings=settings)
        stack.callback(spark.stop)
        meter = CpuMeter.beside(running.pid)
        cluster = stack.enter_context(running.cluster())
        opened = {verb: module.Bench(spark, running, cluster, Path(temporary)) for verb, module in _BENCHES.items()}
        for query in asked:
            bench = opened[query.verb]
            with bench.prepared(query.shape):
                case = bench.case(query.mode, query.connector, query.shape, meter)
                case()
                found[query.name] = [timed(case) for _ in range(RUNS)]
    return found


_BENCHES: Final = {READ: source, WRITE: sink}


def main() -> None:
    """Measure every setting, and report."""
    parser = arguments(__doc__, rounds=3)
    parser.add_argument("--bundled", action="store_true", help="the bundled broker instead of Apache Kafka")
    parser.add_argument("--scale", type=float, default=1.0, help="times the usual number of rows (%(default)s)")
    options = parse(parser, scale=0.002)
    report = Report("settings", "Spark's settings for a source and a sink in Python", options)
    asked = list(queries(options.scale))
    found: dict[str, dict[str, list[float]]] = {name: {query.name: [] for query in asked} for name in SETTINGS}
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        running = stack.enter_context(apache_kafka_or_bundled(directory, bundled_wanted=options.bundled))
        report.note(f"The broker is {running.name}.")
        names = list(SETTINGS)
        for turn in range(options.rounds):
            for name in names if turn % 2 else reversed(names):
                seconds = in_new_process(seconds_in_session, SETTINGS[name], asked, running)
                for query, took in seconds.items():
                    found[name][query] += took
    _tell(report, asked, found)
    report.keep(found).save()


def _tell(report: Report, asked: Sequence[Query], found: Mapping[str, Mapping[str, Sequence[float]]]) -> None:
    others = [name for name in SETTINGS if name != DEFAULTS]
    rows: list[list[Cell]] = []
    for query in asked:
        usual = found[DEFAULTS][query.name]
        times = (ratio(found[name][query.name], usual) for name in others)
        rows.append([query.name, query.in_unit(statistics.median(usual)), *times])
    report.table(["query", DEFAULTS, *(f"{name}, times as fast" for name in others)], rows)


if __name__ == "__main__":
    main()
