"""Programs that end, are interrupted or fork while they have brokers."""

import os
import subprocess
import sys
from pathlib import Path
from typing import TypeAlias

import psutil
import pytest

from broker_embedded.testing import BrokerProcess, EmbeddedBroker

TestBroker: TypeAlias = EmbeddedBroker | BrokerProcess
either_kind = pytest.mark.parametrize("kind", [EmbeddedBroker, BrokerProcess], ids=["thread", "process"])


def leaves_nothing(code: str, directory: Path) -> str:
    """What a program prints, whose brokers must have ended and left no file. The last line is a broker's pid or 0."""
    environment = {**os.environ, "TMPDIR": str(directory)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
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
from broker_embedded.config.settings import SettingError
from broker_embedded.testing import {kind.__name__} as Broker
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
from broker_embedded.testing import BrokerProcess, EmbeddedBroker, process
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
AT_START = {
    EmbeddedBroker: """
broker = EmbeddedBroker(topics={"t": 1})
start = broker._broker.start
def slow():
    broker._broker.start = start
    interrupt()
    start()
broker._broker.start = slow
""",
    BrokerProcess: """
broker = BrokerProcess(topics={"t": 1})
first_lines = process._first_lines
def slow(*_):
    process._first_lines = first_lines
    interrupt()
process._first_lines = slow
""",
}


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
def test_after_an_interrupted_start_a_broker_can_be_started(kind: type[TestBroker], tmp_path: Path) -> None:
    code = """
try:
    broker.start()
except KeyboardInterrupt:
    print("interrupted")
broker.start()
print(broker.topics())
print(getattr(broker, "pid", 0))
"""
    assert leaves_nothing(INTERRUPTED + AT_START[kind] + code, tmp_path) == "interrupted\n{'t': 1}"


@either_kind
def test_after_an_interrupted_start_no_broker_is_left(kind: type[TestBroker], tmp_path: Path) -> None:
    code = """
try:
    with broker:
        pass
except KeyboardInterrupt:
    print("interrupted")
print(0)
"""
    assert leaves_nothing(INTERRUPTED + AT_START[kind] + code, tmp_path) == "interrupted"


@either_kind
def test_a_forked_process_does_not_stop_the_broker(kind: type[TestBroker], tmp_path: Path) -> None:
    code = f"""
import os, sys
from broker_embedded.testing import {kind.__name__}
with {kind.__name__}(topics={{"t": 1}}) as broker:
    if not (child := os.fork()):
        sys.exit()
    os.waitpid(child, 0)
    broker.create_topic("u")
    print(broker.topics())
    print(getattr(broker, "pid", 0))
"""
    assert leaves_nothing(code, tmp_path) == "{'t': 1, 'u': 1}"
