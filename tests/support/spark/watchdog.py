"""Ends what a test waits for in Spark, when that takes too long.

pytest-timeout cannot: its signal interrupts the call, but pyspark then makes another one on the same busy connection
and blocks for good. A thread has a connection of its own.
"""

import threading
import time
from contextlib import suppress
from typing import Any, Final

import psutil
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

GRACE_S: Final = 60
"""How long before pytest's own limit the watchdog bites."""
CANCEL_EVERY_S: Final = 0.5
KILL_EVERY_S: Final = 5
STOP_S: Final = 5
"""How long a query may take to stop, once its test has ended, before its Python processes are killed."""


class SparkWatchdog:
    """Stops all queries and jobs of a session ``limit_s`` after it was entered, and what is left of them at exit.

    Jobs are cancelled again and again, because a job that is still being planned cannot be. What does not end all the
    same is in a Python worker that hangs: every five seconds Spark's Python workers are killed. Their daemons are not:
    Spark forks new workers from them, while the first call that needs a daemon which was killed fails.
    """

    def __init__(self, spark: SparkSession, limit_s: float) -> None:
        self.has_bitten = False
        self._spark = spark
        self._limit_s = limit_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="spark-watchdog", daemon=True)

    def __enter__(self) -> "SparkWatchdog":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        if not self._over.wait(self._limit_s):
            self.has_bitten = True
            self._stop_queries()
            self._cancel_jobs_until_over()
        left = self._stop_queries()
        for stopping in left:
            stopping.join(STOP_S)
        if any(stopping.is_alive() for stopping in left):
            self._kill_workers()

    def _cancel_jobs_until_over(self) -> None:
        kill_at = time.monotonic() + KILL_EVERY_S
        self._cancel_jobs()
        while not self._over.wait(CANCEL_EVERY_S):
            if time.monotonic() >= kill_at:
                self._kill_workers()
                kill_at += KILL_EVERY_S
            self._cancel_jobs()

    def _stop_queries(self) -> list[threading.Thread]:
        """Begin to stop every query, each on a thread of its own: stopping one may take for ever."""
        threads = [threading.Thread(target=_stop, args=(query,), daemon=True) for query in self._spark.streams.active]
        for thread in threads:
            thread.start()
        return threads

    def _cancel_jobs(self) -> None:
        if is_remote():
            self._spark.interruptAll()
        else:
            self._spark.sparkContext.cancelAllJobs()

    def _kill_workers(self) -> None:
        if is_remote():
            return  # they are the server's, wherever that is
        gateway = self._spark.sparkContext._gateway
        assert gateway is not None
        for daemon in psutil.Process(gateway.proc.pid).children():
            with suppress(psutil.NoSuchProcess):
                for worker in daemon.children():
                    worker.kill()


def _stop(query: Any) -> None:
    try:
        query.stop()
    except Exception as error:
        print(f"{query.name or query.id} did not stop in order: {error}")
