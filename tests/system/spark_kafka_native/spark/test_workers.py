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


def test_first_task_freezes_no_objects() -> None:
    assert frozen_after(1) == 0


def test_second_task_freezes_imported_objects() -> None:
    assert frozen_after(2) > 10_000


def test_objects_of_later_tasks_are_collected() -> None:
    assert frozen_after(50) - frozen_after(2) < 1_000


def test_process_other_than_a_worker_freezes_nothing() -> None:
    assert frozen_after(3, in_worker=False) == 0
