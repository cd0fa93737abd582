"""Clock and CPU of one interval: what a broker, Spark's JVM and its Python workers take for a case."""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import psutil

from benchmarks.support.report import Cell
from benchmarks.support.rounds import Case

BROKER, JVM, WORKERS = "broker", "Spark's JVM", "Python workers"
SPARK: Final = "Spark's JVM and workers"
COLUMNS: Final = (f"{BROKER} µs/row", f"{JVM} µs/row", f"{WORKERS} µs/row", f"{SPARK} µs/row")


@dataclass(slots=True)
class CpuMeter:
    """CPU seconds of every run of a case, by the case's name and then by process.

    A case encloses in `interval` what it measures, so that the clock and the CPU are those of the same interval.
    """

    broker_pid: int
    jvm_pid: int
    taken: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    wall: float = 0.0
    """Seconds of the last interval."""
    _last: dict[str, float] = field(default_factory=dict)

    @classmethod
    def beside(cls, broker_pid: int) -> "CpuMeter":
        """For the Spark session of this process."""
        children = psutil.Process().children()
        (jvm_pid,) = (child.pid for child in children if child.name() == "java" and child.pid != broker_pid)
        return cls(broker_pid, jvm_pid)

    @contextmanager
    def interval(self) -> Iterator[None]:
        """Measure clock and CPU while the context lasts."""
        before, started = self._now(), time.perf_counter()
        yield
        self.wall = time.perf_counter() - started
        self._last = {who: seconds - before[who] for who, seconds in self._now().items()}

    def metered(self, name: str, case: Case) -> Callable[[], float | None]:
        """The case, whose intervals count for ``name``."""
        taken = self.taken.setdefault(name, {BROKER: [], JVM: [], WORKERS: []})

        def run() -> float | None:
            seconds = case()
            for who, each in self._last.items():
                taken[who].append(each)
            return seconds

        return run

    def _now(self) -> Mapping[str, float]:
        """CPU seconds since the processes started; of workers, those that have ended included."""
        jvm = psutil.Process(self.jvm_pid)
        workers = [times for child in jvm.children(recursive=True) if (times := _times(child)) is not None]
        own = jvm.cpu_times()
        broker = psutil.Process(self.broker_pid).cpu_times()
        return {
            BROKER: broker.user + broker.system,
            JVM: own.user + own.system,
            WORKERS: sum(map(sum, workers)) + own.children_user + own.children_system,
        }

    def row_us(self, name: str, rows: int, rounds: int) -> dict[str, float]:
        """Microseconds for a row by process, medians of the last ``rounds`` runs; ``SPARK`` is all but the broker."""
        taken = {who: [each / rows * 1e6 for each in seconds[-rounds:]] for who, seconds in self.taken[name].items()}
        spark = [sum(each) for each in zip(taken[JVM], taken[WORKERS], strict=True)]
        return {who: statistics.median(each) for who, each in (taken | {SPARK: spark}).items()}

    def lines(self, rows: int, rounds: int, what: str) -> list[list[Cell]]:
        """A line for each case."""
        return [[what, name, *self.row_us(name, rows, rounds).values()] for name in self.taken]


def _times(process: psutil.Process) -> tuple[float, ...] | None:
    """User and system time, of the children that have ended, too."""
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return None
    return times.user, times.system, times.children_user, times.children_system
