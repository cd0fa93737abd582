"""Tasks on Spark: one per item, in the order of the items, watched while they run.

``parallelize`` with as many slices as items gives each task only its own pickled item. An Arrow UDF, which unlike
``mapInArrow`` needs no pandas, runs the task. Each task has one result, also after retries and speculative execution.
"""

import pickle
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any, Final, Protocol, get_type_hints

import pyarrow as pa
from pyspark import InheritableThread
from pyspark.sql import SparkSession
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]  # missing in its stub

from spark_kafka_native._jobs.interrupts import stop_interrupted

_POLL_S: Final = 0.2
_TYPES: Final[Mapping[type, tuple[str, pa.DataType]]] = {str: ("string", pa.string()), int: ("bigint", pa.int64())}
"""Types of results, in Spark and in Arrow."""

Watch = Callable[[int], None]
"""Called repeatedly with the number of tasks that have ended."""


class Runner(Protocol):
    """Runs one task per item."""

    def __call__(self, task: Callable[[Any], Any], items: Sequence[Any], result: type[Any], watch: Watch) -> list[Any]:
        """The results, in any order; ``result`` is their dataclass, of strings and integers."""
        ...


class SparkRunner:
    """Runs tasks on the executors of a session."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        """``name`` is shown in Spark's UI."""
        self._spark = spark
        self._name = name

    def __call__(self, task: Callable[[Any], Any], items: Sequence[Any], result: type[Any], watch: Watch) -> list[Any]:
        """Raises PySparkException if a task has failed, and what ``watch`` raises."""
        if not items:
            return []
        kinds = get_type_hints(result)
        columns = [(field.name, *_TYPES[kinds[field.name]]) for field in fields(result)]
        in_spark = f"struct<{', '.join(f'{name}: {kind}' for name, kind, _ in columns)}>"
        in_arrow = pa.struct([(name, kind) for name, _, kind in columns])

        def run(given: pa.Array) -> pa.Array:  # type: ignore[type-arg]  # PySpark reads the hint, and knows it bare
            mine: list[bytes] = given.to_pylist()  # type: ignore[assignment]  # the column has no nulls
            return pa.array([asdict(task(pickle.loads(item))) for item in mine], in_arrow)  # noqa: S301  # made below

        pickled = [(pickle.dumps(item),) for item in items]
        rows = self._spark.sparkContext.parallelize(pickled, len(pickled))
        frame = self._spark.createDataFrame(rows, "item binary").select(arrow_udf(run, in_spark)("item"))
        return [result(**row.asDict()) for (row,) in self.watched(frame.collect, watch)]

    def watched(self, action: Callable[[], Any], watch: Watch) -> Any:
        """The result of ``action``, a Spark job; calls ``watch`` until then, and cancels the job if that raises."""
        context = self._spark.sparkContext
        group = f"batch-reload-{secrets.token_hex(4)}"
        results: list[Any] = []
        errors: list[BaseException] = []

        def work() -> None:
            context.setJobGroup(group, self._name, interruptOnCancel=True)
            try:
                results.append(action())
            except BaseException as error:  # raised again in the waiting thread
                errors.append(error)

        thread = InheritableThread(target=work, name=self._name, daemon=True)
        try:
            thread.start()
            while thread.is_alive():
                thread.join(_POLL_S)
                watch(_completed(context, group))
        except BaseException:
            # Also cancel later jobs: the action may be about to start its first one, or the next one.
            jsc = context._jsc  # noqa: SLF001  # PySpark's own cancelJobGroup cancels running jobs only
            stop_interrupted(lambda: jsc.sc().cancelJobGroupAndFutureJobs(group))
            raise
        if errors:
            raise errors[0]
        return results[0]


def _completed(context: Any, group: str) -> int:
    tracker = context.statusTracker()
    stages = {
        stage
        for job in tracker.getJobIdsForGroup(group)
        if (info := tracker.getJobInfo(job))
        for stage in info.stageIds
    }
    return sum(info.numCompletedTasks for stage in stages if (info := tracker.getStageInfo(stage)))
