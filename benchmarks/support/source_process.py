"""Our source in a process of its own, as Spark has it: what planning or a task takes, and how much memory at most."""

import functools
import json
import multiprocessing
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from pyspark.serializers import CPickleSerializer
from pyspark.sql.datasource import InputPartition

from spark_kafka_native._spark.datasource import PyKafkaDataSource
from spark_kafka_native._spark.offsets import OffsetJson
from spark_kafka_native._spark.planning.latest import PARTITIONS_EVERY_MS
from spark_kafka_native._spark.source.batch_reader import PyKafkaReader
from spark_kafka_native._spark.source.schema import source_schema
from spark_kafka_native._spark.source.stream_reader import PyKafkaStreamReader

BATCH: Final = "batch"
FIRST_TRIGGER: Final = "first trigger"
NEXT_TRIGGER: Final = "next trigger"
PLANNING: Final = (BATCH, FIRST_TRIGGER, NEXT_TRIGGER)
TASK: Final = "task"
"""Reads what a batch query has, in one task after the other."""
Options = dict[str, str]
QUIET_S: Final = PARTITIONS_EVERY_MS / 1000 + 0.1
"""After so long a running stream asks for the list of partitions again, and not only where they end."""
_RESET_PEAK: Final = "5"


@dataclass(frozen=True, slots=True, kw_only=True)
class Took:
    """What one planning, or the tasks of a batch, took."""

    seconds: float
    cpu_seconds: float
    count: int
    """Of tasks that were planned, or of rows that were read."""
    peak_bytes: int
    """Memory of the process at most, beyond what it had at its start."""
    pickling_seconds: float = 0.0
    """Of ``cpu_seconds``: the tasks, as Spark pickles them."""


Action = Callable[[Options], tuple[int, float]]
"""Returns the number of tasks or rows, and the CPU seconds of pickling the tasks."""


@contextmanager
def source_process(what: str, options: Options) -> Iterator[Callable[[], Took]]:
    """A process that does the same thing whenever it is asked to: one of `PLANNING`, or `TASK`."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there, what, options), daemon=True)
    process.start()
    there.close()

    def run() -> Took:
        here.send(None)
        response = here.recv()
        if isinstance(response, Exception):
            raise response
        assert isinstance(response, Took)
        return response

    try:
        yield run
    finally:
        here.close()
        process.join(10)
        if process.is_alive():
            process.kill()
            process.join()


def _serve(pipe: Connection, what: str, options: Options) -> None:
    actions: dict[str, Action] = {
        BATCH: _batch,
        FIRST_TRIGGER: _first_trigger,
        NEXT_TRIGGER: _RunningStream(),
        TASK: _Tasks(),
    }
    before = _memory("VmRSS")
    while True:
        try:
            pipe.recv()
        except (EOFError, OSError):
            return
        try:
            if what == NEXT_TRIGGER:
                time.sleep(QUIET_S)
            pipe.send(_timed(functools.partial(actions[what], options), before))
        except Exception as error:  # the benchmark's process raises it
            pipe.send(RuntimeError(f"{type(error).__name__}: {error}"))


def _timed(action: Callable[[], tuple[int, float]], before: int) -> Took:
    reset = Path("/proc/self/clear_refs")
    if reset.exists():
        reset.write_text(_RESET_PEAK)
    started, cpu_started = time.perf_counter(), time.process_time()
    count, pickling_seconds = action()
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_started
    peak = max(0, _memory("VmHWM") - before)
    return Took(
        seconds=seconds,
        cpu_seconds=cpu_seconds,
        count=count,
        peak_bytes=peak,
        pickling_seconds=pickling_seconds,
    )


def _memory(name: str) -> int:
    """A number that Linux tells about this process; 0 elsewhere."""
    status = Path("/proc/self/status")
    found = re.search(rf"^{name}:\s+(\d+) kB", status.read_text(), re.MULTILINE) if status.exists() else None
    return int(found[1]) * 1024 if found else 0


def _batch(options: Options) -> tuple[int, float]:
    """A batch query from earliest to latest, its tasks pickled."""
    reader = PyKafkaDataSource(options).reader(source_schema(include_headers=False))
    return _sent(reader.partitions())


def _first_trigger(options: Options) -> tuple[int, float]:
    """The first trigger of a stream."""
    reader = _stream(options)
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    json.dumps(end)
    return _sent(reader.partitions(start, end))


class _RunningStream:
    """Triggers of a stream that runs and finds nothing new, after a pause: each asks what there is."""

    def __init__(self) -> None:
        self._running: tuple[PyKafkaStreamReader, OffsetJson] | None = None

    def __call__(self, options: Options) -> tuple[int, float]:
        if self._running is None:
            reader = _stream(options)
            self._running = reader, reader.initialOffset()
        reader, start = self._running
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        json.dumps(end)
        return _sent(reader.partitions(start, end))


class _Tasks:
    """All tasks of a batch, planned once."""

    def __init__(self) -> None:
        self._planned: tuple[PyKafkaReader, Sequence[InputPartition]] | None = None

    def __call__(self, options: Options) -> tuple[int, float]:
        if self._planned is None:
            reader = PyKafkaDataSource(options).reader(source_schema(include_headers=False))
            self._planned = reader, reader.partitions()
        reader, tasks = self._planned
        return sum(batch.num_rows for task in tasks for batch in reader.read(task)), 0.0


def _stream(options: Options) -> PyKafkaStreamReader:
    return PyKafkaDataSource(options).streamReader(source_schema(include_headers=False))


def _sent(tasks: Sequence[InputPartition]) -> tuple[int, float]:
    """The tasks, pickled as Spark does."""
    serializer: Any = CPickleSerializer()  # without types
    started = time.process_time()
    for task in tasks:
        serializer.dumps(task)
    return len(tasks), time.process_time() - started
