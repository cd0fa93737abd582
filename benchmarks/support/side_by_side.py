"""What the benchmarks of source and sink have in common: connectors of Spark take turns, shape by shape."""

import argparse
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from pyspark.sql import SparkSession

from benchmarks.support.brokers import Running, apache_kafka_or_bundled
from benchmarks.support.cpu import COLUMNS as CPU_COLUMNS
from benchmarks.support.cpu import SPARK, CpuMeter
from benchmarks.support.report import Cell, Report, arguments, parse
from benchmarks.support.rounds import Case, measure, ratio
from benchmarks.support.sessions import jars_of_connector, local_session
from benchmarks.support.shapes import QUICK_SCALE, STEADY, USUAL_TASKS, Shape, add_axes, shapes
from benchmarks.support.speeds import (
    FIT_COLUMNS,
    OURS,
    RIVALS,
    STUB,
    TUNED_OTHER,
    ByShape,
    Found,
    beside,
    columns,
    fits,
    lines,
    rival,
)
from spark_kafka_native._client.cluster.cluster import Cluster

VARIED_ROUNDS: Final = 3
"""That count at most, of shapes that are neither usual nor for the fit."""
WANTED_CPU: Final = 1.0
FASTEST: Final = "the fastest JVM connector"
FIRST_WARMUPS: Final = 5
"""Rounds that do not count of the first shape. Spark and the broker are compiled at run time, for half a minute."""


class Bench(Protocol):
    """The connectors, in one session on one broker."""

    def prepared(self, shape: Shape) -> AbstractContextManager[None]:
        """What all cases of a shape need."""

    def case(self, mode: str, connector: str, shape: Shape, meter: CpuMeter) -> Case:
        """A query that measures itself by ``meter``; its seconds."""


Opened = Callable[[SparkSession, Running, Cluster, Path], Bench]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A benchmark: its module's name and docstring, and what differs between source and sink."""

    name: str
    title: str
    description: str | None
    verb: str
    counts: Mapping[int, int]
    """Of rows, by the size of their values."""
    wanted: Mapping[str, Mapping[int, float]]
    """Times the fastest JVM connector, by mode and size."""
    opened: Opened
    packed: str | None = None
    """A connector that takes part where there are more partitions than `USUAL_TASKS`."""
    reading: bool = False
    """Whether it is a source."""
    wanted_columns: float | None = None
    """The same of a schema of one's own."""

    def main(self) -> None:
        """Measure every shape in its modes, and report."""
        parser = arguments(self.description)
        add_axes(parser)
        parser.add_argument("--bundled", action="store_true", help="the bundled broker instead of Apache Kafka")
        options = parse(parser, scale=QUICK_SCALE, bytes=[100])
        report = Report(self.name, self.title, options)
        found: dict[str, dict[Shape, Found]] = {mode: {} for mode in options.modes}
        cpu: list[list[Cell]] = []
        with ExitStack() as stack:
            self._measure(stack, report, options, found, cpu)
        self._tell(report, found)
        report.table(("", "by", *CPU_COLUMNS), cpu, "CPU of both cores, usual rows")
        report.save()

    def _measure(
        self,
        stack: ExitStack,
        report: Report,
        options: argparse.Namespace,
        found: Mapping[str, dict[Shape, Found]],
        cpu: list[list[Cell]],
    ) -> None:
        jars = jars_of_connector(report)
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker = apache_kafka_or_bundled(directory / "broker", bundled_wanted=options.bundled)
        running = stack.enter_context(broker)
        report.note(f"Broker: {running.name}.")
        cluster = stack.enter_context(running.cluster())
        spark = local_session(self.name, directory, jars=jars, memory="4g")
        stack.callback(spark.stop)
        bench = self.opened(spark, running, cluster, directory)
        chosen = shapes(options, self.counts, reading=self.reading)
        for number, (shape, modes) in enumerate(chosen):
            warmups = 1 if number or options.quick else FIRST_WARMUPS
            rounds = options.rounds if shape.is_usual or shape.is_part else min(options.rounds, VARIED_ROUNDS)
            with bench.prepared(shape):
                for mode in modes:
                    meter = CpuMeter.beside(running.pid)
                    cases = {
                        name: meter.metered(name, bench.case(mode, name, shape, meter))
                        for name in self._connectors(mode, shape, jvm=bool(jars))
                    }
                    found[mode][shape] = measure(cases, rounds, warmups, title=f"{shape}, {mode}")
                    if shape.is_usual and mode != STEADY:
                        what = f"{mode}, {shape.value_bytes:,} B"
                        cpu += meter.lines(shape.count, rounds, what)
                        _tell_cpu(report, meter, what, shape, rounds, found[mode][shape])

    def _connectors(self, mode: str, shape: Shape, *, jvm: bool) -> Sequence[str]:
        """The connectors that take part; the JVM connector's other API only with the usual rows and some columns."""
        packed = [self.packed] if self.packed and shape.tasks > USUAL_TASKS and not shape.is_part else []
        every = (shape.is_usual or shape.columns) and mode != STEADY
        theirs = RIVALS if every else tuple(name for name in RIVALS if name != TUNED_OTHER)
        return [OURS, *packed, *(theirs if jvm else ()), STUB]

    def _tell(self, report: Report, found: Mapping[str, ByShape]) -> None:
        for mode, by_shape in found.items():
            names = [*([self.packed] if self.packed else []), *RIVALS, STUB]
            others = [name for name in names if any(name in seconds for seconds in by_shape.values())]
            report.table(columns(others), list(lines(by_shape, others)), mode)
            for shape, seconds in by_shape.items():
                if not (shape.is_usual or shape.columns) or (theirs := rival(seconds)) is None:
                    continue
                usual = self.wanted.get(mode, {}).get(shape.value_bytes)
                wanted = self.wanted_columns if shape.columns else usual
                if wanted is not None:
                    what = f"{mode}, {shape.value_bytes:,} B, {shape.rows}: times {FASTEST}"
                    report.target(what, wanted, ratio(seconds[OURS], seconds[theirs]))
                if shape.is_usual:
                    what = "stream, steady state" if mode == STEADY else mode
                    beside(report, f"{self.verb} a {what}", shape, seconds)
        rows = [row for mode, by_shape in found.items() if mode != STEADY for row in fits(mode, by_shape)]
        if rows:
            report.table(FIT_COLUMNS, rows, "What a query, a task and a row take, by least squares")
        report.keep(
            {mode: {str(shape): seconds for shape, seconds in by_shape.items()} for mode, by_shape in found.items()}
        )


def _tell_cpu(report: Report, meter: CpuMeter, what: str, shape: Shape, rounds: int, seconds: Found) -> None:
    if (theirs := rival(seconds)) is not None:
        mine, others = (meter.row_us(name, shape.count, rounds)[SPARK] for name in (OURS, theirs))
        report.target(f"{what}: CPU of all but the broker, times {FASTEST}'s", WANTED_CPU, mine / others, at_most=True)
