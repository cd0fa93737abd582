"""Garbage collection in Spark's Python processes: the workers, which run one task after the other, and the planners."""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import TaskContext

MANY_OBJECTS = 10_000
"""New objects of a plan. With fewer, a collection takes less than a millisecond."""
_tasks = 0
_pauses = 0
_enabled_before = True
_lock = threading.Lock()
"""Guards the number of pauses, because threads may plan at the same time."""


def task_begins() -> None:
    """Exclude the objects of a worker's first task from garbage collection; called at the start of every task.

    Spark runs a garbage collection after each task (pyspark/daemon.py). With pandas, pyarrow and this package imported
    it takes some 50 ms, more than a small micro-batch. Objects that exist when the second task with this package
    begins are mostly modules, which are never freed. Others of them in a reference cycle are not freed any more.
    """
    global _tasks  # noqa: PLW0603  # the process has one collector
    _tasks += 1
    if _tasks == 2 and TaskContext.get() is not None:
        gc.freeze()


@contextmanager
def collection_paused() -> Iterator[None]:
    """Plan without garbage collection, also while the plan waits for brokers.

    The plan of 100,000 partitions has a million objects without reference cycles. Every collection would traverse them.
    Spark pickles the tasks afterwards, so the objects are moved to the oldest generation, without a collection.
    """
    global _pauses, _enabled_before  # noqa: PLW0603  # the process has one collector
    with _lock:
        if not _pauses:
            _enabled_before = gc.isenabled()
            gc.disable()
        _pauses += 1
    try:
        yield
    finally:
        with _lock:
            _pauses -= 1
            if not _pauses and _enabled_before:
                if gc.get_count()[0] >= MANY_OBJECTS:
                    gc.freeze()
                    gc.unfreeze()  # which moves all into the oldest generation, also objects that were frozen before
                gc.enable()
