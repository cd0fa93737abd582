"""Where the time of two cores goes: the CPU that a broker, Spark's JVM and its Python workers take for a case."""

import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import psutil

from benchmarks.support.report import Cell
from benchmarks.support.rounds import Case, timed

BROKER, JVM, WORKERS = "broker", "Spark's JVM", "Python workers"
COLUMNS: Final = (f"{BROKER} us/row", f"{JVM} us/row", f"{WORKERS} us/row", "all us/row")


@dataclass(slots=True)
class CpuMeter:
    """CPU seconds of every run of a case, by the case's name and then by who took them."""

    broker_pid: int
    jvm_pid: int
    seconds: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    @classmethod
    def beside(cls, broker_pid: int) -> "CpuMeter":
        """For the Spark session of this process."""
        children = psutil.Process().children()
        (jvm_pid,) = (child.pid for child in children if child.name() == "java" and child.pid != broker_pid)
        return cls(broker_pid, jvm_pid)

    def metered(self, name: str, case: Case) -> Callable[[], float]:
        """The case, whose runs are counted under ``name``."""
        taken = self.seconds.setdefault(name, {BROKER: [], JVM: [], WORKERS: []})

        def run() -> float:
            before = self._now()
            seconds = timed(case)
            for who, now in self._now().items():
                taken[who].append(now - before[who])
            return seconds

        return run

    def _now(self) -> Mapping[str, float]:
        """CPU seconds of the processes that are alive; workers are used again, and live on."""
        jvm = psutil.Process(self.jvm_pid)
        return {
            BROKER: _seconds(psutil.Process(self.broker_pid)),
            JVM: _seconds(jvm),
            WORKERS: sum(_seconds(child) for child in jvm.children(recursive=True)),
        }

    def lines(self, rows: int, rounds: int, what: str) -> Iterator[list[Cell]]:
        """A line for each case: microseconds a row, medians of the last ``rounds`` runs."""
        for name, taken in self.seconds.items():
            each = {who: statistics.median(seconds[-rounds:]) / rows * 1e6 for who, seconds in taken.items()}
            yield [what, name, *each.values(), sum(each.values())]


def _seconds(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)
