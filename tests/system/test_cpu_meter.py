import subprocess
import sys
from collections.abc import Iterator

import pytest

from benchmarks.support.cpu import BROKER, JVM, WORKERS, CpuMeter

BURNT_S = 0.3
TICK_S = 0.05
"""More than the times of a process are rounded by."""
START_S = 0.5
"""More than a process takes to start and end."""
PARENT = f"""
import os, signal, sys, time

def burn():
    while time.process_time() < {BURNT_S + TICK_S}:
        pass

def say(word):
    os.write(1, word + b"\\n")

def daemon(orders):
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # as PySpark's daemon does
    while order := os.read(orders, 1):
        if order == b"w":
            wait, end = os.pipe()
            worker = os.fork()
            if not worker:
                os.close(end)
                burn()
                say(b"burnt")
                os.read(wait, 1)
                os._exit(0)
            os.close(wait)
        else:
            os.close(end)
            try:
                os.waitpid(worker, 0)
            except ChildProcessError:
                pass
            say(b"ended")
    os._exit(0)

orders, give = os.pipe()
if not os.fork():
    os.close(give)
    daemon(orders)
say(b"ready")
for line in sys.stdin:
    if line == "child\\n":
        if not (child := os.fork()):
            burn()
            os._exit(0)
        os.waitpid(child, 0)
        say(b"ended")
    else:
        os.write(give, line[:1].encode())
"""


class Parent:
    """A process and a meter for it. `ask` returns when the request is done."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.meter = CpuMeter(process.pid, process.pid)

    def ask(self, order: str) -> None:
        assert self._process.stdin is not None
        print(order, file=self._process.stdin, flush=True)
        self.read()

    def read(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline()

    def worker_seconds(self, order: str) -> float:
        """CPU seconds of workers during the order."""

        def case() -> float:
            with self.meter.interval():
                self.ask(order)
            return self.meter.wall

        self.meter.metered(order, case)()
        return self.meter.taken[order][WORKERS][-1]


@pytest.fixture
def parent() -> Iterator[Parent]:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        started = Parent(process)
        started.read()
        yield started
        process.communicate()


def test_the_cpu_of_a_worker_counts_once_and_is_not_lost_when_it_ends(parent: Parent) -> None:
    assert BURNT_S <= parent.worker_seconds("worker") < BURNT_S + START_S
    assert 0 <= parent.worker_seconds("end") < START_S, "its CPU is in no process's times any more"


def test_a_child_that_ended_counts_by_the_times_of_its_parent(parent: Parent) -> None:
    assert BURNT_S <= parent.worker_seconds("child") < BURNT_S + START_S
    assert parent.meter.taken["child"][JVM][-1] == parent.meter.taken["child"][BROKER][-1] < START_S
