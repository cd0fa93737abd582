"""Batch jobs that lose an executor at a chosen moment: ``python -m tests.support.kills.retried_job SERVERS``.

Each job reads a topic of its own. One of its tasks stops when all rows have arrived. Then records are appended to the
topic, the task's executor is killed, and Spark runs again what it has lost. A line of JSON says what each job has made
of the records, or how it failed.
"""

import contextlib
import json
import os
import re
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark import RDD, TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.support.clients.topics import Topics
from tests.support.java import QUICK_START
from tests.support.kills.spark_copy import MASTER, PARTS
from tests.support.process_tree import Process, descendants
from tests.support.waiting import eventually

PARTITIONS: Final = 4
RECORDS: Final = 100
LATER: Final = 5
"""Records of each partition: before the job, and appended while it runs."""
CHECKSUMS: Final = tuple(
    f"spark.sql.shuffle.orderIndependentChecksum.{name}" for name in ("enabled", "enableFullRetryOnMismatch")
)
_PATIENCE_S: Final = 120.0
_EXECUTOR_ID: Final = re.compile(r"--executor-id (\d+)")


class Hold:
    """Stops one task, once, when all of its rows have arrived; travels to the tasks."""

    def __init__(self, directory: Path, partition: int) -> None:
        self._file = directory / "held"
        self._partition = partition

    def __call__(self, partition: int, rows: Iterable[Any]) -> Iterator[Any]:
        """The rows of a task."""
        values = list(rows)
        if partition == self._partition and self._is_first():
            time.sleep(_PATIENCE_S)
            raise TimeoutError("the executor was not killed")
        return iter(values)

    def held(self) -> tuple[int, int] | None:
        """The worker whose task is stopped, and the task's stage."""
        text = self._file.read_text() if self._file.exists() else ""
        if not text.endswith("\n"):
            return None
        worker, stage = map(int, text.split())
        return worker, stage

    def _is_first(self) -> bool:
        with contextlib.suppress(FileExistsError), self._file.open("x") as file:
            task = TaskContext.get()
            assert task is not None
            file.write(f"{os.getpid()} {task.stageId()}\n")
            return True
        return False


class Cluster:
    """A Spark session with two executors, and the topics that its jobs read and write."""

    def __init__(self, servers: str) -> None:
        self._topics = Topics(servers, isolation="read_committed")
        self._options = {"kafka.bootstrap.servers": servers}
        self._spark = _session()

    def repartitioned(self, *, checked: bool, bind: str) -> Counter[str]:
        """What becomes of the records in a shuffle that deals rows out in turns; one of its two reducers is lost.

        ``checked``: Spark compares checksums of what the attempts of a task have written, as it does by default from
        4.3 on. ``bind`` is option ``bindOffsets``.
        """
        for setting in CHECKSUMS:
            self._spark.conf.set(setting, str(checked).lower())

        def job(rows: DataFrame, hold: Hold) -> list[str]:
            return [row.value for row in rows.repartition(2).rdd.mapPartitionsWithIndex(hold).collect()]

        return Counter(self._run(job, bind, partition=1, others=1))

    def written_exactly_once(self, *, bind: str) -> Counter[str]:
        """What becomes of the records in a copy without a shuffle, written exactly once; a task of the copy is lost."""
        target = self._topics.create()
        sink = {"topic": target, "delivery.guarantee": "exactly-once", "transactional.id.prefix": target}

        def job(rows: DataFrame, hold: Hold) -> list[str]:
            held: RDD[Any] = rows.rdd.mapPartitionsWithIndex(hold)
            copy = self._spark.createDataFrame(held, "value string")
            copy.write.format("pykafka").mode("append").options(**self._options, **sink).save()
            return [value.decode() for value in self._topics.values(target) if value is not None]

        return Counter(self._run(job, bind, partition=0, others=PARTITIONS - 1))

    def _run(self, job: Callable[[DataFrame, Hold], list[str]], bind: str, *, partition: int, others: int) -> list[str]:
        self._await_executors()
        topic = self._topics.create(PARTITIONS)
        for number in range(PARTITIONS):
            self._topics.write(topic, [f"{number}:{row}" for row in range(RECORDS)], partition=number)
        reader = self._spark.read.format("pykafka").options(**self._options, subscribe=topic, bindOffsets=bind)
        with tempfile.TemporaryDirectory(prefix="retried-job-") as directory:
            hold = Hold(Path(directory), partition)
            killer = threading.Thread(target=self._kill, args=(topic, hold, others))
            killer.start()
            try:
                values = job(reader.schema("value string").load(), hold)
            finally:
                killer.join()
        return values

    def _await_executors(self) -> None:
        """Wait until two executors run tasks, so that each has tasks of the next job's first stage.

        An executor that was killed may still be registered, and one that is registered gets no task before it has
        started. The tasks of a barrier stage start together or not at all, and each executor has one core.
        """
        eventually(lambda: (len(self._executors()), self._all_registered()), (2, True), within_s=_PATIENCE_S)
        self._spark.sparkContext.parallelize(range(2), 2).barrier().mapPartitions(list).count()

    def _kill(self, topic: str, hold: Hold, others: int) -> None:
        """Once a task is held and the ``others`` of its stage have ended: append records, and end its executor."""
        eventually(lambda: self._completed(hold), others, within_s=_PATIENCE_S)
        for number in range(PARTITIONS):
            self._topics.write(topic, [f"{number}:later {row}" for row in range(LATER)], partition=number)
        held = hold.held()
        assert held is not None
        worker, _ = held
        (executor,) = [each for each in self._executors() if worker in {below.pid for below in descendants(each.pid)}]
        executor.kill()

    def _completed(self, hold: Hold) -> int | None:
        """How many tasks of the held task's stage have ended; None before one is held.

        Other active stages do not count, because Spark's status lags and may still show an earlier one.
        """
        held = hold.held()
        if held is None:
            return None
        _, stage = held
        found = self._spark.sparkContext.statusTracker().getStageInfo(stage)
        return None if found is None else found.numCompletedTasks

    def _executors(self) -> list[Process]:
        return [each for each in descendants(os.getpid()) if PARTS["executor"] in each.command]

    def _all_registered(self) -> bool:
        """Whether Spark gives tasks to the executors that run, and to no other."""
        ids = self._spark.sparkContext._jsc.sc().getExecutorIds()
        running = {_EXECUTOR_ID.search(each.command) for each in self._executors()}
        return {ids.apply(number) for number in range(ids.size())} == {found[1] for found in running if found}


def _session() -> SparkSession:
    return (
        SparkSession.builder.master(MASTER)
        .appName("retried")
        .config("spark.executor.extraJavaOptions", " ".join(QUICK_START))
        .config("spark.driver.memory", "512m")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.scheduler.minRegisteredResourcesRatio", "1.0")
        .config("spark.scheduler.maxRegisteredResourcesWaitingTime", "120s")
        .config("spark.locality.wait", "0")
        .config("spark.shuffle.reduceLocality.enabled", "false")
        # The other executor would read the files of the killed one if it knows its directories, and nothing were lost.
        .config("spark.shuffle.readHostLocalDisk", "false")
        .config("spark.shuffle.io.maxRetries", "1")
        .config("spark.shuffle.io.retryWait", "100ms")
        .getOrCreate()
    )


def main(servers: str) -> None:
    """Run the jobs; a line of JSON for each."""
    cluster = Cluster(servers)
    jobs: dict[str, Callable[[], Counter[str]]] = {
        "shuffle": lambda: cluster.repartitioned(checked=False, bind="task"),
        "checked shuffle": lambda: cluster.repartitioned(checked=True, bind="task"),
        "bound shuffle": lambda: cluster.repartitioned(checked=True, bind="load"),
        "exactly-once write": lambda: cluster.written_exactly_once(bind="task"),
    }
    for name, job in jobs.items():
        try:
            outcome: dict[str, object] = {"values": job()}
        except (Py4JError, PySparkException) as error:
            outcome = {"error": str(error)}
        print(json.dumps({"job": name} | outcome), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
