"""What a worker does between tasks: its collector passes over what is there for good, and over nothing else."""

import subprocess
import sys

TASKS = """
import gc
from pyspark import TaskContext
from spark_kafka_native.spark.workers import task_begins

TaskContext._taskContext = TaskContext() if {in_worker} else None
for _ in range({tasks}):
    task_begins()
    gc.collect()
print(gc.get_freeze_count())
"""


def frozen_after(tasks: int, *, in_worker: bool = True) -> int:
    program = TASKS.format(tasks=tasks, in_worker=in_worker)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    return int(done.stdout)


def test_the_collector_looks_at_everything_after_the_first_task() -> None:
    assert frozen_after(1) == 0


def test_from_the_second_on_it_passes_over_what_was_imported() -> None:
    assert frozen_after(2) > 10_000


def test_nothing_is_kept_of_what_later_tasks_leave() -> None:
    assert frozen_after(50) - frozen_after(2) < 1_000


def test_a_process_that_is_no_worker_is_left_alone() -> None:
    assert frozen_after(3, in_worker=False) == 0
