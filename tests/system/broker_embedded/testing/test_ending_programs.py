"""Programs that end, are interrupted or fork while they have brokers."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TypeAlias

import psutil
import pytest

from broker_embedded.testing import BrokerProcess, EmbeddedBroker
from tests.support.waiting import eventually

TestBroker: TypeAlias = EmbeddedBroker | BrokerProcess
either_kind = pytest.mark.parametrize("kind", [EmbeddedBroker, BrokerProcess], ids=["thread", "process"])


def leaves_nothing(code: str, directory: Path) -> str:
    """What a program prints, whose brokers must have ended and left no file. The last line is a broker's pid or 0."""
    environment = {**os.environ, "TMPDIR": str(directory)}
    # From 3.12 on, Python warns of a fork beside a broker's thread.
    command = [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    printed, _, pid = done.stdout.rstrip("\n").rpartition("\n")
    assert os.listdir(directory) == []
    assert not int(pid) or not psutil.pid_exists(int(pid))
    return printed


@either_kind
def test_a_program_that_does_not_stop_its_brokers_leaves_nothing(kind: type[TestBroker], tmp_path: Path) -> None:
    """Nor do brokers that were not started, or whose settings were refused. A forked process removes nothing."""
    code = f"""
import os, sys
from broker_embedded.testing import SettingError, {kind.__name__} as Broker
unused = Broker()
try:
    Broker(control="0.0.0.0:0")
except SettingError:
    pass
broker = Broker(topics={{'t': 1}})
broker.start()
if not (child := os.fork()):
    sys.exit()
os.waitpid(child, 0)
assert broker.log_directory.parent == unused.log_directory.parent
print(len(os.listdir(broker.log_directory.parent)))
print(getattr(broker, "pid", 0))
"""
    assert leaves_nothing(code, tmp_path) == "2"


def test_a_broker_in_a_thread_is_stopped_before_the_callbacks_at_exit() -> None:
    """A callback may stop it, too, which has no effect. Its clients cannot connect any more, and do not wait."""
    code = """
import atexit, contextlib, socket
from broker_embedded.testing import EmbeddedBroker
stack = contextlib.ExitStack()
def connect():
    try:
        socket.create_connection(("127.0.0.1", int(broker.bootstrap_servers.partition(":")[2])))
    except ConnectionRefusedError:
        print("refused")
atexit.register(stack.close)
broker = stack.enter_context(EmbeddedBroker(topics={"t": 1}))
atexit.register(broker.stop)
atexit.register(connect)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("refused\n", "")


def test_a_broker_in_a_process_ends_with_a_program_that_is_killed() -> None:
    code = """
import os, signal
from broker_embedded.testing import BrokerProcess
broker = BrokerProcess()
broker.start()
print(broker.log_directory)
print(broker.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    killed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    directory, pid = killed.stdout.splitlines()
    eventually(lambda: has_ended(int(pid)), True)
    shutil.rmtree(directory)


def has_ended(pid: int) -> bool:
    """Whether a process has ended, even if its parent has not waited for it."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@either_kind
def test_a_broker_that_was_restarted_is_stopped_once_at_the_end(kind: type[TestBroker]) -> None:
    code = f"""
from broker_embedded.testing import {kind.__name__}
class Broker({kind.__name__}):
    def _stop(self):
        print("stopped")
        super()._stop()
broker = Broker()
broker.start()
broker.restart()
print("restarted")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("stopped\nrestarted\nstopped\n", "")


INTERRUPTED = """
import asyncio, os, signal, subprocess, threading
from broker_embedded._testing import process
from broker_embedded.testing import BrokerProcess, EmbeddedBroker
interrupt = lambda: os.kill(os.getpid(), signal.SIGINT)
caught = threading.Event()
"""
AT_STOP = {
    EmbeddedBroker: """
broker = EmbeddedBroker(topics={"t": 1})
stop = broker._broker.stop
async def slow():
    broker._broker.stop = stop
    interrupt()
    await asyncio.to_thread(caught.wait)
    assert broker.log_directory.exists()
    await stop()
broker._broker.stop = slow
""",
    BrokerProcess: """
broker = BrokerProcess(topics={"t": 1})
send_signal = subprocess.Popen.send_signal
def slow(self, number):
    subprocess.Popen.send_signal = send_signal
    interrupt()
subprocess.Popen.send_signal = slow
""",
}
IN_CREATE_TOPIC = """
broker = {kind}(topics={{"t": 1}})
create = broker.create_topic
def interrupted(*arguments):
    broker.create_topic = create
    create(*arguments)
    interrupt()
broker.create_topic = interrupted
"""
AT_START = {
    "thread": """
broker = EmbeddedBroker(topics={"t": 1})
start = broker._broker.start
async def slow():
    broker._broker.start = start
    interrupt()
    await start()
broker._broker.start = slow
""",
    "thread that has not begun": """
broker = EmbeddedBroker(topics={"t": 1})
start = threading.Thread.start
def interrupted(_):
    threading.Thread.start = start
    raise KeyboardInterrupt
threading.Thread.start = interrupted
""",
    "process": """
broker = BrokerProcess(topics={"t": 1})
first_lines = process._first_lines
def slow(*_):
    process._first_lines = first_lines
    interrupt()
process._first_lines = slow
""",
    "thread, with its topic": IN_CREATE_TOPIC.format(kind="EmbeddedBroker"),
    "process, with its topic": IN_CREATE_TOPIC.format(kind="BrokerProcess"),
}
interrupted_start = pytest.mark.parametrize("start", AT_START.values(), ids=AT_START.keys())


@pytest.mark.parametrize("again", ["", "broker.stop()", "broker.start()", "broker.restart()"])
@either_kind
def test_a_broker_whose_stop_was_interrupted_is_stopped_later(
    kind: type[TestBroker], tmp_path: Path, again: str
) -> None:
    code = f"""
broker.start()
pid = getattr(broker, "pid", 0)
try:
    broker.stop()
except KeyboardInterrupt:
    print("interrupted", broker.log_directory.exists())
    caught.set()
{again}
print(pid)
"""
    assert leaves_nothing(INTERRUPTED + AT_STOP[kind] + code, tmp_path) == "interrupted True"


@either_kind
def test_a_handler_of_a_signal_can_stop_a_broker_that_is_stopping(kind: type[TestBroker], tmp_path: Path) -> None:
    code = """
def stop_again(*_):
    caught.set()
    broker.stop()
signal.signal(signal.SIGINT, stop_again)
broker.start()
pid = getattr(broker, "pid", 0)
broker.stop()
print(caught.is_set())
print(pid)
"""
    assert leaves_nothing(INTERRUPTED + AT_STOP[kind] + code, tmp_path) == "True"


def test_at_the_end_of_a_program_a_broker_that_cannot_be_stopped_does_not_keep_others_from_it() -> None:
    code = """
from broker_embedded.testing import EmbeddedBroker
class Broker(EmbeddedBroker):
    def _stop(self):
        super()._stop()
        print("stopped")
        raise SystemExit
for _ in range(2):
    Broker().start()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "stopped\nstopped\n"
    assert done.stderr.count("has not stopped, and ends with the process: SystemExit()") == 2


@interrupted_start
def test_after_an_interrupted_start_a_broker_can_be_started(start: str, tmp_path: Path) -> None:
    code = """
try:
    broker.start()
except KeyboardInterrupt:
    print("interrupted")
broker.start()
print(broker.topics())
print(getattr(broker, "pid", 0))
"""
    assert leaves_nothing(INTERRUPTED + start + code, tmp_path) == "interrupted\n{'t': 1}"


@interrupted_start
def test_after_an_interrupted_start_no_broker_is_left(start: str, tmp_path: Path) -> None:
    code = """
try:
    with broker:
        pass
except KeyboardInterrupt:
    print("interrupted")
print(0)
"""
    assert leaves_nothing(INTERRUPTED + start + code, tmp_path) == "interrupted"


@either_kind
def test_a_forked_process_does_not_stop_the_broker(kind: type[TestBroker], tmp_path: Path) -> None:
    code = f"""
import os, sys
from broker_embedded.testing import {kind.__name__}
with {kind.__name__}(topics={{"t": 1}}) as broker:
    if not (child := os.fork()):
        for refused in broker.start, broker.restart:
            try:
                refused()
            except RuntimeError as error:
                assert "which has forked this one" in str(error)
            else:
                os._exit(1)
        sys.exit()
    assert os.waitpid(child, 0)[1] == 0
    broker.create_topic("u")
    print(broker.topics())
    print(getattr(broker, "pid", 0))
"""
    assert leaves_nothing(code, tmp_path) == "{'t': 1, 'u': 1}"
