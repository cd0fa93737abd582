"""Spark's Python workers, which run one task after the other, and what they do between them."""

import gc

from pyspark import TaskContext

_tasks = 0


def task_begins() -> None:
    """Called by every task; from a worker's second one on garbage collections pass over what the first has left.

    Spark has a worker collect garbage after each task (pyspark/daemon.py), and with pandas, pyarrow and this package
    imported that takes it some 50 ms: more than a small micro-batch. What is there when the second task begins has just
    been through that, and is there for good, save a little. Of that little what refers to itself is never let go.
    """
    global _tasks  # noqa: PLW0603  # the process has one collector
    _tasks += 1
    if _tasks == 2 and TaskContext.get() is not None:
        gc.freeze()
