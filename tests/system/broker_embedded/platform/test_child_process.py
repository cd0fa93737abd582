import gc
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

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
AT_LINE = """
import itertools, sys
from broker_embedded._platform.child_process import ChildProcess
def start_with(action, number, command):
    lines = itertools.count()
    def trace(frame, event, _):
        if frame.f_code is not ChildProcess.__init__.__code__:
            return None
        if event == "line" and next(lines) == number:
            action()
        return trace
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        return ChildProcess(command)
    finally:
        sys.settrace(before)
"""
KILLED_OWNERS = """
import os, signal
def kill():
    os.kill(os.getpid(), signal.SIGKILL)
def fork():
    if not os.fork():
        os.read(0, 1)  # until the test closes the pipe
        os._exit(0)
    if sys.argv[1] == "at the fork":
        kill()
    forked.append(True)
forked = []
for number in itertools.count():
    if not (owner := os.fork()):
        child = start_with(fork, number, ["sleep", os.environ["MARKER"]])
        if forked:
            kill()
        child.send_signal(signal.SIGKILL)
        os._exit(child.wait() + signal.SIGKILL)
    if not os.waitpid(owner, 0)[1]:
        break
print(number, flush=True)
"""
ZOMBIES = """
import ctypes, psutil, signal
from broker_embedded._platform.child_process import ChildProcess
assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0  # PR_SET_CHILD_SUBREAPER
for command in ["sleep", "1000"], ["true"], ["/no/such/program"]:
    for _ in range(3):
        child = ChildProcess(command)
        child.send_signal(signal.SIGTERM)
        child.wait()
        child = ChildProcess(command)
        child.send_signal(signal.SIGKILL)
        while child.status() is None:
            pass
print(psutil.Process().children())
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


def sleeping(marker: str) -> ChildProcess:
    """A program that has replaced its shell, and its watcher."""
    child = ChildProcess(["sleep", marker])
    eventually(lambda: sorted(len(process.cmdline()) for process in running(marker)), [2, 6])
    return child


def test_the_program_and_its_watcher_end_together(marker: str) -> None:
    child = sleeping(marker)
    assert child.status() is None
    child.send_signal(signal.SIGTERM)
    assert child.wait(60) == child.status() == -signal.SIGTERM
    child.send_signal(signal.SIGTERM)  # has no effect
    eventually(lambda: running(marker), [])


def test_a_signal_to_a_program_that_has_ended_ends_the_watcher(marker: str) -> None:
    """The watcher would send SIGKILL to the program's process id, which another process may have by then."""
    child = sleeping(marker)
    os.kill(child.pid, signal.SIGKILL)
    eventually(psutil.Process(child.pid).status, psutil.STATUS_ZOMBIE)
    child.send_signal(signal.SIGCONT)
    assert running(marker) == []
    assert child.status() == -signal.SIGKILL


def test_a_signal_to_a_program_that_ends_meanwhile_ends_the_watcher(
    marker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = sleeping(marker)
    send_signal = subprocess.Popen.send_signal

    def killed_before(process: subprocess.Popen[bytes], number: int) -> None:
        os.kill(process.pid, signal.SIGKILL)
        eventually(psutil.Process(process.pid).status, psutil.STATUS_ZOMBIE)
        send_signal(process, number)

    monkeypatch.setattr(subprocess.Popen, "send_signal", killed_before)
    child.send_signal(signal.SIGCONT)
    assert running(marker) == []
    assert child.status() == -signal.SIGKILL


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
    child.wait_until_stopped()  # also after the wait for its end


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


@pytest.mark.parametrize("interrupted", [1, 2], ids=["watcher", "program"])
def test_an_interrupt_before_a_process_is_known_leaves_no_program(
    marker: str, monkeypatch: pytest.MonkeyPatch, interrupted: int
) -> None:
    begun: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def start(*arguments: object, **options: object) -> subprocess.Popen[bytes]:
        begun.append(popen(*arguments, **options))  # type: ignore[call-overload]  # those of the caller
        if len(begun) == interrupted:
            raise KeyboardInterrupt
        return begun[-1]

    monkeypatch.setattr(subprocess, "Popen", start)
    with pytest.raises(KeyboardInterrupt):
        ChildProcess(["sleep", marker])
    assert [process.returncode for process in begun[:-1]] == [-signal.SIGKILL] * (interrupted - 1)
    assert begun[-1].wait(60) == 1
    assert running(marker) == []


@pytest.mark.filterwarnings("ignore:subprocess [0-9]+ is still running:ResourceWarning")
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_an_interrupt_at_any_line_of_the_start_leaves_no_program(marker: str) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    namespace: dict[str, Any] = {}
    exec(AT_LINE, namespace)
    for number in itertools.count():
        child = None
        with suppress(KeyboardInterrupt):
            child = namespace["start_with"](interrupt, number, ["sleep", marker])
        if child is not None:
            child.send_signal(signal.SIGKILL)
            assert child.wait(60) == -signal.SIGKILL
            break
        eventually(lambda: running(marker), [])
    assert number > 10


@pytest.mark.parametrize("killed", ["at the fork", "after the start"])
def test_an_owner_that_is_killed_at_any_line_of_the_start_leaves_no_program(marker: str, killed: str) -> None:
    """Also if it has forked a process at that line, which continues to run."""
    command = [sys.executable, "-c", AT_LINE + KILLED_OWNERS, killed]
    environment = {**os.environ, "MARKER": marker}
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owners:
        assert owners.stdout is not None
        assert int(owners.stdout.readline()) > 10
        eventually(lambda: running(marker), [])


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has PR_SET_CHILD_SUBREAPER")
def test_no_zombie_is_left_after_starts_and_stops() -> None:
    """Orphans become children of the process that has started them, which does not wait for those it does not know."""
    done = subprocess.run([sys.executable, "-c", ZOMBIES], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_signal_handler_can_ask_for_the_status_while_the_watcher_is_waited_for(
    marker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = ChildProcess(["sleep", marker])
    waitpid = os.waitpid
    statuses: list[int | None] = []

    def interrupted(pid: int, options: int) -> tuple[int, int]:
        if pid != child.pid:
            statuses.append(child.status())
        return waitpid(pid, options)

    monkeypatch.setattr(os, "waitpid", interrupted)
    child.send_signal(signal.SIGTERM)
    assert child.wait() == -signal.SIGTERM
    assert statuses == [-signal.SIGTERM]
    assert running(marker) == []
