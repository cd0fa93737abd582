import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
import pytest

from broker_embedded._platform.child_process import ChildProcess
from tests.support.waiting import eventually

OWN = os.getpid()
OWNER = """
import os, signal, sys
from broker_embedded._platform.child_process import ChildProcess
child = ChildProcess(["sleep", sys.argv[1]])
print(child.pid, flush=True)
"""
FORKED = """
if not os.fork():
    print(os.getpid(), flush=True)
    signal.pause()
"""


@pytest.fixture
def marker() -> Iterator[str]:
    """An argument of ``sleep`` that is in the command lines of the program and of its watcher alone."""
    yield (marker := f"1000.{OWN}{time.monotonic_ns():020}")
    for process in running(marker):
        process.kill()


def running(marker: str) -> list[psutil.Process]:
    """The processes with an argument. Those that have ended have no arguments, even if nothing waits for them."""
    found = psutil.process_iter(["cmdline"])
    return [process for process in found if marker in (process.info["cmdline"] or ()) and process.pid != OWN]


def test_the_program_and_its_watcher_end_together(marker: str) -> None:
    child = ChildProcess(["sleep", marker])
    eventually(lambda: sorted(len(process.cmdline()) for process in running(marker)), [2, 6])
    assert child.status() is None
    child.send_signal(signal.SIGTERM)
    assert child.wait(60) == child.status() == -signal.SIGTERM
    child.send_signal(signal.SIGTERM)  # has no effect
    eventually(lambda: running(marker), [])


def test_output_is_kept_after_the_end() -> None:
    child = ChildProcess(["sh", "-c", "cat; echo out; echo err >&2; exit 3"])
    assert (child.wait(60), child.output) == (3, "out\nerr\n")
    child = ChildProcess(["sh", "-c", "echo out; echo err >&2; exit 3"], reads_stdout=True)
    assert child.stdout.read() == b"out\n"
    assert (child.wait(60), child.output) == (3, "err\n")


def test_a_program_that_does_not_exist_ends_with_the_reason() -> None:
    child = ChildProcess(["/no/such/program"])
    assert child.wait(60) == 127
    assert "/no/such/program" in child.output


def test_waiting_for_a_stopped_program(marker: str) -> None:
    child = ChildProcess(["sleep", marker])
    child.send_signal(signal.SIGSTOP)
    for _ in range(2):
        child.wait_until_stopped()
    assert child.status() is None
    if sys.platform == "linux":
        assert psutil.Process(child.pid).status() == psutil.STATUS_STOPPED
    child.send_signal(signal.SIGKILL)
    child.wait_until_stopped()  # it has ended
    assert child.wait(60) == -signal.SIGKILL


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), signal.SIGKILL)", "os._exit(0)"])
@pytest.mark.parametrize("fork", ["", FORKED], ids=["alone", "with a forked process"])
def test_the_program_ends_when_its_owner_ends(marker: str, fork: str, end: str) -> None:
    """A forked process of the owner that continues to run has a copy of the pipe, which it closes."""
    with subprocess.Popen([sys.executable, "-c", OWNER + fork + end, marker], stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        assert int(owner.stdout.readline()) > 0
        forked = psutil.Process(int(owner.stdout.readline())) if fork else None
        owner.wait(60)
        # The forked process has the owner's command line.
        eventually(lambda: [process.pid for process in running(marker)], [forked.pid] if forked else [])
        if forked:
            forked.kill()


@pytest.mark.filterwarnings("ignore:subprocess [0-9]+ is still running:ResourceWarning")
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_a_program_whose_object_is_dropped_ends(marker: str) -> None:
    child = ChildProcess(["sleep", marker])
    eventually(lambda: len(running(marker)), 2)
    del child
    gc.collect()
    eventually(lambda: running(marker), [])


def test_an_interrupt_during_the_start_leaves_no_program(marker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def interrupted(*arguments: object, **options: object) -> None:
        begun.append(popen(*arguments, **options))  # type: ignore[call-overload]  # those of the caller
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ChildProcess(["sleep", marker])
    assert begun[0].wait(60) == -signal.SIGKILL
    eventually(lambda: running(marker), [])
