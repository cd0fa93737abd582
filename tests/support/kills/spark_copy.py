"""A streaming copy on a small Spark cluster of processes, whose parts a test kills one by one or all at once.

Also the records to copy, and waiting for the copy of them.
"""

import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Self, TypeVar

import pyarrow as pa
import pyspark
from dirty_equals import IsInt

from spark_kafka_native._client.producer.producer import Producer
from spark_kafka_native._java import ensure_java
from spark_kafka_native._spark.worker_python import PYTHON_VARIABLES, worker_python
from tests.support.clients.native import config_of
from tests.support.clients.topics import Topics
from tests.support.clients.writers import Writer
from tests.support.kills.sink import DOOM, STRAGGLERS, Doom
from tests.support.process_tree import Process, descendants, kill_all, still_there
from tests.support.waiting import eventually

REPOSITORY = Path(__file__).parents[3]
MASTER = "local-cluster[2,1,1024]"

PARTS = {
    "executor": "CoarseGrainedExecutorBackend",
    "worker": "pyspark.daemon pyspark.worker",
    "planner": "pyspark.daemon pyspark.sql",
    "source": "python_streaming_source_runner",
}
"""Parts of a running query, and what their command lines hold."""

SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.efficiency.enabled": "false",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.quantile": "0.4",
    "spark.speculation.minTaskRuntime": "500ms",
    "spark.python.task.killTimeout": "500ms",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
}
"""A second attempt at a task that takes long when others are done, and a log of events that tells so."""
_STRAGGLING_S = "4"

_OWN_HOSTS = """#!/bin/sh
# Spark starts a speculative attempt on another host only. Every executor gets an address of its own on this machine.
for argument do
  shift
  case "$before" in
    --executor-id) id=$argument ;;
    --hostname) argument=127.0.0.$((2 + id % 250)) ;;
  esac
  before=$argument
  set -- "$@" "$argument"
done
exec {java} "$@"
"""


class SparkCopy:
    """A query that copies one topic to another; started again and again from one checkpoint. A context manager.

    Its sink can be made to wait at a step (``doom``). With the options `SPECULATION` some tasks take so long that Spark
    starts another attempt beside them.
    """

    def __init__(self, directory: Path, servers: str, source: str, target: str, **options: str) -> None:
        self.checkpoint = directory / "checkpoint"
        self.target = target
        self.starts = 0
        self.doom = Doom(directory / "doom")
        self._directory = directory
        self._speculation = options.items() >= SPECULATION.items()
        if self._speculation:
            self._events.mkdir()
            options["spark.eventLog.dir"] = self._events.as_uri()
        self._arguments = [MASTER, servers, source, target, str(self.checkpoint)]
        self._arguments += [f"{name}={value}" for name, value in options.items()]
        self._process: subprocess.Popen[bytes] | None = None
        self._output = directory / "driver.log"
        self._seen: dict[int, Process] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        kill_all(still_there(self._seen.values()))
        self.doom.clear()

    @property
    def output(self) -> str:
        """What the drivers have printed last."""
        return self.whole_output[-6000:]

    @property
    def whole_output(self) -> str:
        """What all drivers have printed."""
        return self._output.read_text(errors="replace") if self._output.exists() else ""

    @property
    def speculative_losers(self) -> int:
        """How many attempts were killed because a speculative one, or the one it stood by, was there first.

        As Spark's logs of events say.
        """
        return sum(_losers(attempts) for attempts in self._attempts())

    @property
    def batches(self) -> int:
        """How many micro-batches Spark has written down as committed."""
        numbers = [int(file.name) for file in (self.checkpoint / "commits").glob("[0-9]*")]
        return max(numbers, default=-1) + 1

    @property
    def is_running(self) -> bool:
        """Whether there is a driver. One whose query has failed ends."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start a driver unless one runs."""
        if self.is_running:
            return
        self._wait()
        self.starts += 1
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.kills.copy_driver", *self._arguments],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                cwd=self._directory,
                env=self._environment(),
            )

    def kill(self) -> bool:
        """End driver, executors and all their Python processes at once, as if the machine had lost its power.

        False: there was no driver, or it was about to end by itself.
        """
        if self._process is None:
            return False
        processes = self._look()
        self._process.kill()
        kill_all(processes)
        return self._wait() == -signal.SIGKILL

    def kill_driver(self) -> bool:
        """End the driver alone; the executors find out by themselves, and may still be writing. False: as `kill`."""
        if self._process is None:
            return False
        gateways = [process for process in self._look() if process.parent == self._process.pid]
        self._process.kill()
        kill_all(gateways)
        return self._wait() == -signal.SIGKILL

    def kill_one(self, part: str, number: int) -> bool:
        """End one process of a part of the query (see `PARTS`); False if there is none at the moment."""
        candidates = [process for process in self._look() if PARTS[part] in process.command]
        if candidates:
            candidates[number % len(candidates)].kill()
        return bool(candidates)

    def _look(self) -> list[Process]:
        found = descendants(self._process.pid) if self._process is not None and self.is_running else []
        self._seen |= {process.pid: process for process in found}
        return found

    def _wait(self) -> int | None:
        """Until a driver that is dying is gone, if there is one -> how it has ended."""
        if self._process is None:
            return None
        status = self._process.wait(30)
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process = None
        return status

    @property
    def _events(self) -> Path:
        return self._directory / "events"

    def _attempts(self) -> Iterable[list[dict[str, Any]]]:
        """The attempts that have ended, task by task."""
        found: dict[tuple[str, int, int, int], list[dict[str, Any]]] = defaultdict(list)
        for file in self._events.iterdir():
            for line in file.read_text().splitlines():
                # The last line of a driver that was killed, or is writing, may be half a line.
                if line.startswith('{"Event":"SparkListenerTaskEnd"') and line.endswith("}"):
                    event = json.loads(line)
                    task = (file.name, event["Stage ID"], event["Stage Attempt ID"], event["Task Info"]["Index"])
                    found[task].append(event)
        return found.values()

    def _environment(self) -> dict[str, str]:
        common = cluster_environment(self._directory)
        more = {"JAVA_HOME": str(self._java_home()), STRAGGLERS: _STRAGGLING_S} if self._speculation else {}
        return {**common, **more, DOOM: str(self.doom.file)}

    def _java_home(self) -> Path:
        """A script that runs the same Java and gives every executor a host of its own."""
        home = self._directory / "java-home"
        script = home / "bin" / "java"
        if not script.exists():
            found = os.environ.get("JAVA_HOME")
            java = str(Path(found, "bin", "java")) if found else shutil.which("java")
            assert java is not None
            script.parent.mkdir(parents=True)
            script.write_text(_OWN_HOSTS.replace("{java}", shlex.quote(java)))
            script.chmod(0o755)
        return home


def cluster_environment(directory: Path) -> dict[str, str]:
    """The environment of a driver whose Spark cluster, a `MASTER`, works in ``directory``."""
    return {**driver_environment(), "SPARK_HOME": str(_spark_home(directory))}


def driver_environment() -> dict[str, str]:
    """The environment of a driver that finds this repository."""
    ensure_java()
    return {
        **os.environ,
        "SPARK_LOCAL_IP": "127.0.0.1",
        **dict.fromkeys(PYTHON_VARIABLES, worker_python()),
        "PYTHONPATH": os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")]),
    }


def _spark_home(directory: Path) -> Path:
    """The installed Spark under another name: executors are run in its directory ``work``."""
    home = directory / "spark-home"
    if not home.exists():
        home.mkdir()
        for entry in Path(pyspark.__file__).parent.iterdir():
            if entry.name != "work":
                (home / entry.name).symlink_to(entry)
    return home


def _losers(attempts: list[dict[str, Any]]) -> int:
    reasons = Counter(attempt["Task End Reason"]["Reason"] for attempt in attempts)
    if not reasons["Success"] or not any(attempt["Task Info"]["Speculative"] for attempt in attempts):
        return 0
    return reasons["TaskKilled"] + reasons["TaskCommitDenied"]


KEYS = 20
PATIENCE_S = 300.0


class KeyedWriter(Writer):
    """Writes ever higher numbers under a few keys, each to the partition of its key."""

    _count = 0

    @property
    def acknowledged_count(self) -> int:
        return self._count

    def _write_until_stopped(self) -> None:
        with Producer(config_of(self.servers, linger_ms=0, reconnect_backoff_max_ms=200)) as producer:
            while not self._ending.is_set():
                numbers = range(self._count, self._count + KEYS)
                keys = pa.array([f"key {n % KEYS}".encode() for n in numbers], pa.binary())
                values = pa.array([str(n).encode() for n in numbers], pa.binary())
                producer.send(self.topic, pa.RecordBatch.from_pydict({"key": keys, "value": values}))
                producer.flush()
                self._count = numbers.stop
                self._ending.wait(self.pause_s)


T = TypeVar("T")


def wait_until(read: Callable[[], T], expected: object, copy: SparkCopy, patience_s: float = PATIENCE_S) -> T:
    """As `eventually`; a driver that has given up is started again meanwhile, as a supervisor would."""

    def read_and_start() -> T:
        found = read()
        if found != expected:
            copy.start()
        return found

    try:
        return eventually(read_and_start, expected, within_s=patience_s)
    except AssertionError as error:
        error.add_note(copy.output)
        raise


def wait_for_progress(topics: Topics, copy: SparkCopy) -> None:
    """Return when the query has copied something more."""
    copy.start()
    before = sum(topics.ends(copy.target).values())
    wait_until(lambda: sum(topics.ends(copy.target).values()), IsInt(gt=before), copy)


def kill(kind: str, dice: random.Random, copy: SparkCopy) -> int:
    """kill -9 of one kind of thing: everything, driver, or one of `PARTS` -> how often that was.

    None, if a driver has given up just before, and twice, if everything is killed once more while it starts again.
    """
    match kind:
        case "everything":
            count = int(copy.kill())
            if dice.random() < 0.4:
                copy.start()
                time.sleep(dice.uniform(0, 12))
                count += copy.kill()
            return count
        case "driver":
            return int(copy.kill_driver())
        case part:
            wait_until(lambda: copy.kill_one(part, dice.randrange(100)), True, copy)
            return 1
