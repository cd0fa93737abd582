import gc
import subprocess
import sys

import pytest

from spark_kafka_native._spark.garbage_collection import MANY_OBJECTS, collection_paused

TASKS = """
import gc
from pyspark import TaskContext
from spark_kafka_native._spark.garbage_collection import task_begins

at_start = gc.get_freeze_count()  # Python 3.12 has some
TaskContext._taskContext = TaskContext() if {in_worker} else None
for _ in range({tasks}):
    task_begins()
    gc.collect()
print(gc.get_freeze_count() - at_start)
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


def test_paused_collection_is_enabled_again_after_an_error() -> None:
    def fail() -> None:
        with collection_paused():
            assert not gc.isenabled()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert gc.isenabled()


def test_collection_is_enabled_after_the_last_of_several_pauses() -> None:
    first, second = collection_paused(), collection_paused()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not gc.isenabled()
    second.__exit__(None, None, None)
    assert gc.isenabled()


def test_disabled_collection_stays_disabled() -> None:
    gc.disable()
    try:
        with collection_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_objects_of_a_plan_are_old_when_collection_begins_again() -> None:
    with collection_paused():
        plan = [["a range"] for _ in range(MANY_OBJECTS)]
        assert not any(each is plan for each in gc.get_objects(generation=2))
    assert any(each is plan for each in gc.get_objects(generation=2))
    assert gc.get_freeze_count() == 0


def test_frozen_objects_stay_frozen_after_a_small_plan() -> None:
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        with collection_paused():
            pass
        assert gc.get_freeze_count() == pytest.approx(frozen, rel=0.1)  # some were freed meanwhile
    finally:
        gc.unfreeze()
