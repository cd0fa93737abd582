"""Garbage collection in Spark's Python workers, which run one task after the other."""

import gc

from pyspark import TaskContext

_tasks = 0


def task_begins() -> None:
    """Exclude the objects of a worker's first task from garbage collection; called at the start of every task.

    Spark runs a garbage collection after each task (pyspark/daemon.py). With pandas, pyarrow and this package imported
    it takes some 50 ms, more than a small micro-batch. Objects that exist when the second task begins are mostly
    modules, which are never freed. The few others that are in a reference cycle are not freed any more.
    """
    global _tasks  # noqa: PLW0603  # the process has one collector
    _tasks += 1
    if _tasks == 2 and TaskContext.get() is not None:
        gc.freeze()
