import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType

import pytest

from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.config import ClientConfig
from spark_kafka_native._jobs.interrupts import run_interruptible, sigint_handler_kept
from tests.support.clients.topics import Topics
from tests.support.java import DRIVER_OPTIONS
from tests.support.waiting import WITHIN_S, eventually

ROOT = Path(__file__).parents[4]
PATIENCE_S = 200


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def ended(job: Callable[[], int]) -> tuple[int, list[str]]:
    said: list[str] = []
    return run_interruptible(job, lambda: said.append("interrupted")), said


def test_a_job_that_ends_prints_nothing() -> None:
    assert ended(lambda: 3) == (3, [])


def test_an_interrupted_job_has_one_line_and_its_status() -> None:
    before = signal.getsignal(signal.SIGINT)

    def job() -> int:
        interrupt()
        return 0

    assert ended(job) == (130, ["interrupted"])
    assert signal.getsignal(signal.SIGINT) is before


def test_a_handler_that_is_set_within_a_block_is_replaced() -> None:
    def job() -> int:
        with sigint_handler_kept():
            signal.signal(signal.SIGINT, lambda *_: pytest.fail("the other handler was called"))
        interrupt()
        return 0

    assert ended(job) == (130, ["interrupted"])


class Finalized:
    """Its finalizer is interrupted, and Python drops the KeyboardInterrupt."""

    def __del__(self) -> None:
        interrupt()


class Failing:
    """Its finalizer fails, and Python shows the error."""

    def __del__(self) -> None:
        raise ValueError


def wait_for_interrupt() -> int:
    eventually(lambda: None, "an interrupt")
    return 0


def test_an_interrupt_that_a_finalizer_has_dropped_comes_again() -> None:
    def job() -> int:
        Finalized()
        return wait_for_interrupt()

    assert ended(job) == (130, ["interrupted"])


def test_a_second_interrupt_does_not_lose_one_that_a_finalizer_has_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes within the hook. Python drops what a signal handler raises there, too."""
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)

    def job(at_call: int) -> int:
        calls = 0

        def profile(_frame: FrameType, event: str, function: object) -> None:
            nonlocal calls
            if event in {"call", "c_return"} and function not in {signal.raise_signal, sys.setprofile}:
                calls += 1
                if calls == at_call:
                    interrupt()

        finalized = Finalized()
        sys.setprofile(profile)
        try:
            del finalized
        finally:
            sys.setprofile(None)
        return wait_for_interrupt()

    assert [ended(partial(job, at_call)) for at_call in range(1, 9)] == [(130, ["interrupted"])] * 8


def test_an_interrupt_while_an_error_of_a_finalizer_is_shown_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def job() -> int:
        Failing()
        return wait_for_interrupt()

    monkeypatch.setattr(sys, "unraisablehook", lambda _: interrupt())
    assert ended(job) == (130, ["interrupted"])


def test_an_interrupt_ends_the_write_of_an_error_of_a_finalizer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The write blocks, as one to a pipe that nothing reads."""
    here, there = socket.socketpair()
    here.settimeout(WITHIN_S)
    raised: list[type[BaseException]] = []
    sender = threading.Thread(target=signal.pthread_kill, args=(threading.get_ident(), signal.SIGINT))

    def show(_: object) -> None:
        try:
            sender.start()
            here.recv(1)
        except BaseException as error:
            raised.append(type(error))
            raise

    def job() -> int:
        Failing()
        return wait_for_interrupt()

    monkeypatch.setattr(sys, "unraisablehook", show)
    with here, there:
        assert (ended(job), raised) == ((130, ["interrupted"]), [KeyboardInterrupt])
    sender.join()


def test_an_interrupt_that_a_finalizer_has_dropped_ends_a_system_call() -> None:
    """pytest-timeout ends this test if it does not."""
    here, there = socket.socketpair()

    def job() -> int:
        Finalized()
        here.recv(1)
        return 0

    with here, there:
        assert ended(job) == (130, ["interrupted"])


def test_an_interrupt_that_a_finalizer_has_dropped_does_not_come_after_another_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would interrupt the job's ``finally``."""
    sent: list[int] = []
    monkeypatch.setattr(signal, "pthread_kill", lambda _, number: sent.append(number))

    def job() -> int:
        Finalized()
        interrupt()
        return 0

    assert (ended(job), sent) == ((130, ["interrupted"]), [])


def test_records_of_py4j_are_dropped_once_interrupted(caplog: pytest.LogCaptureFixture) -> None:
    def log(path: str) -> None:
        root = logging.getLogger()
        root.handle(root.makeRecord("root", logging.ERROR, path, 1, path, (), None))

    def job() -> int:
        log("py4j/before.py")
        try:
            interrupt()
        finally:
            log("py4j/after.py")
            log("other/after.py")
        return 0

    ended(job)
    assert caplog.messages == ["py4j/before.py", "other/after.py"]


def test_a_second_interrupt_is_ignored_once_the_job_has_ended() -> None:
    said: list[str] = []

    def say() -> None:
        interrupt()
        said.append("interrupted")

    def job() -> int:
        interrupt()
        return 0

    assert (run_interruptible(job, say), said) == (130, ["interrupted"])


def test_an_interrupt_that_a_finalizer_has_dropped_does_not_come_after_the_job() -> None:
    before = threading.enumerate()

    def job() -> int:
        Finalized()
        return 3

    assert ended(job) == (3, [])
    assert threading.enumerate() == before, "a thread is left that raises the interrupt in the caller"


def test_jobs_that_overlap_in_threads_leave_the_hooks_of_the_process() -> None:
    hook, filters = sys.unraisablehook, list(logging.getLogger().filters)
    running = [threading.Event(), threading.Event()]
    end = [threading.Event(), threading.Event()]

    def job(number: int) -> int:
        running[number].set()
        return 0 if end[number].wait(30) else 1

    threads = [threading.Thread(target=run_interruptible, args=(lambda n=n: job(n), list)) for n in (0, 1)]
    for number, thread in enumerate(threads):
        thread.start()
        assert running[number].wait(30)
    for number, thread in enumerate(threads):
        end[number].set()
        thread.join()
    assert (sys.unraisablehook, logging.getLogger().filters) == (hook, filters)


@pytest.fixture
def ignored() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ignored")
def test_a_process_that_ignores_sigint_ignores_it_in_a_job() -> None:
    def job() -> int:
        interrupt()
        with sigint_handler_kept():
            signal.signal(signal.SIGINT, signal.default_int_handler)
        interrupt()
        return 3

    assert ended(job) == (3, [])
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_a_handler_that_was_installed_from_c_is_left_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python shows it as None and cannot install it again."""
    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(signal, "getsignal", lambda _: None)

    def job() -> int:
        with sigint_handler_kept():
            return 3

    assert ended(job) == (3, [])
    monkeypatch.undo()
    assert signal.getsignal(signal.SIGINT) is before


class Terminal:
    def __init__(self, module: str, *arguments: str) -> None:
        hidden = ("PYSPARK_", "SPARK_", "JDK_JAVA_OPTIONS")
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            env={
                name: value
                for name, value in os.environ.items()
                if name == DRIVER_OPTIONS or not name.startswith(hidden)
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def press_ctrl_c(self, when: Callable[[], bool]) -> tuple[int, str]:
        try:
            eventually(lambda: self._process.poll() is not None or when(), True, within_s=PATIENCE_S)
            assert self._process.poll() is None, self._process.communicate()
            os.killpg(self._process.pid, signal.SIGINT)
            _, stderr = self._process.communicate(timeout=PATIENCE_S)
            return self._process.returncode, stderr
        finally:
            self._process.kill()
            self._process.wait()


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as made:
        yield made


@pytest.mark.spark
@pytest.mark.timeout(2 * PATIENCE_S + 30)
def test_the_quick_start_interrupted_while_a_query_runs(broker: EmbeddedBroker) -> None:
    servers = broker.bootstrap_servers
    terminal = Terminal(
        "spark_kafka_native.jobs.quickstart",
        *("--bootstrap-servers", servers, "--events", "50000", "--events-per-trigger", "100", "--partitions", "1"),
    )
    with Cluster(ClientConfig.parse({"bootstrap.servers": servers})) as cluster, Topics(servers) as topics:

        def own() -> list[str]:
            return sorted(name for name in cluster.metadata(None).topics if name.startswith("quickstart"))

        def counts_are_written() -> bool:
            (counts,) = [name for name in own() if name.endswith("-counts")] or [""]
            return bool(counts) and sum(topics.ends(counts).values()) > 0

        assert terminal.press_ctrl_c(counts_are_written) == (130, "quickstart: interrupted\n")
        assert own() == []


@pytest.mark.spark
@pytest.mark.timeout(2 * PATIENCE_S + 30)
def test_a_batch_load_interrupted_while_its_tasks_run(broker: EmbeddedBroker, tmp_path: Path) -> None:
    with Topics(broker.bootstrap_servers) as topics:
        topic = topics.create(1)
        topics.write(topic, [f"{n}" for n in range(2_000)])
        terminal = Terminal(
            "spark_kafka_native.jobs.batch_reload",
            *("--bootstrap-servers", broker.bootstrap_servers, "--topics", topic, "--target", str(tmp_path / "t")),
            *("--max-records-per-task", "1"),
        )
        assert terminal.press_ctrl_c(lambda: any(tmp_path.glob("t/_loads/*/*/*.parquet"))) == (
            130,
            "batch_reload: interrupted; nothing was published\n",
        )
        assert list(tmp_path.glob("t/_manifests/*")) == []
