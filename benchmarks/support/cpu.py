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
    _forked: dict[psutil.Process, float] = field(default_factory=dict)
    """CPU seconds of each worker that a daemon has forked, as last seen."""

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
        """CPU seconds since the processes started; of workers, those that have ended included.

        PySpark's daemon ignores SIGCHLD, so that the CPU of a worker that has ended is in no process's times: it
        counts as it was last seen. Of the JVM's own children the JVM's times tell, once they have ended.
        """
        jvm = psutil.Process(self.jvm_pid)
        own = jvm.cpu_times()
        while True:
            children, before, own = self._look_at_workers(jvm), own, jvm.cpu_times()
            if (own.children_user, own.children_system) == (before.children_user, before.children_system):
                break  # no child has ended meanwhile, which would count twice or not at all
        return {
            BROKER: _seconds(psutil.Process(self.broker_pid)),
            JVM: own.user + own.system,
            WORKERS: sum(self._forked.values()) + children + own.children_user + own.children_system,
        }

    def _look_at_workers(self, jvm: psutil.Process) -> float:
        """Note the CPU seconds of all that daemons have forked; the sum of those of the JVM's own children."""
        children = 0.0
        for process in jvm.children(recursive=True):
            try:
                seconds, is_child = _seconds(process), process.ppid() == jvm.pid
            except psutil.NoSuchProcess:
                continue
            if is_child:
                children += seconds
            else:
                self._forked[process] = seconds
        return children

    def row_us(self, name: str, rows: int, rounds: int) -> dict[str, float]:
        """Microseconds for a row by process, medians of the last ``rounds`` runs; ``SPARK`` is all but the broker."""
        taken = {who: [each / rows * 1e6 for each in seconds[-rounds:]] for who, seconds in self.taken[name].items()}
        spark = [sum(each) for each in zip(taken[JVM], taken[WORKERS], strict=True)]
        return {who: statistics.median(each) for who, each in (taken | {SPARK: spark}).items()}

    def lines(self, rows: int, rounds: int, what: str) -> list[list[Cell]]:
        """A line for each case."""
        return [[what, name, *self.row_us(name, rows, rounds).values()] for name in self.taken]


def _seconds(process: psutil.Process) -> float:
    """User and system time of the process alone."""
    times = process.cpu_times()
    return times.user + times.system
