"""Tasks on Spark: one per item, in the order of the items, watched while they run.

``parallelize`` in as many slices as items gives each task its own pickled item and no other. An Arrow UDF, which needs
no pandas as ``mapInArrow`` does, makes its answer of it. What a task returns counts once, however often Spark has tried
it or had it run twice at a time.
"""

import pickle
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any, Final, Protocol, get_type_hints

import pyarrow as pa
from pyspark import InheritableThread
from pyspark.sql import SparkSession
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]  # its stub lags behind

from spark_kafka_native.jobs.interrupts import stop_interrupted

_POLL_S: Final = 0.2
_TYPES: Final[Mapping[type, tuple[str, pa.DataType]]] = {str: ("string", pa.string()), int: ("bigint", pa.int64())}
"""Of answers, in Spark and in Arrow."""

Watch = Callable[[int], None]
"""Called again and again with the number of tasks that have ended."""


class Runner(Protocol):
    """Runs one task per item somewhere."""

    def __call__(self, task: Callable[[Any], Any], items: Sequence[Any], result: type[Any], watch: Watch) -> list[Any]:
        """The results, in any order; ``result`` is their dataclass, of strings and integers."""
        ...


class SparkRunner:
    """Runs tasks on the executors of a session."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        """``name`` is what Spark's UI calls the work."""
        self._spark = spark
        self._name = name

    def __call__(self, task: Callable[[Any], Any], items: Sequence[Any], result: type[Any], watch: Watch) -> list[Any]:
        """Raises PySparkException when a task has failed for good, and what ``watch`` raises."""
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
        answers = self._spark.createDataFrame(rows, "item binary").select(arrow_udf(run, in_spark)("item"))
        return [result(**answer.asDict()) for (answer,) in self.watched(answers.collect, watch)]

    def watched(self, action: Callable[[], Any], watch: Watch) -> Any:
        """What ``action``, a Spark job, returns; ``watch`` is called until then. Cancels the job if that raises."""
        context = self._spark.sparkContext
        group = f"batch-reload-{secrets.token_hex(4)}"
        answers: list[Any] = []
        trouble: list[BaseException] = []

        def work() -> None:
            context.setJobGroup(group, self._name, interruptOnCancel=True)
            try:
                answers.append(action())
            except BaseException as error:  # raised again where it is waited for
                trouble.append(error)

        thread = InheritableThread(target=work, name=self._name, daemon=True)
        try:
            thread.start()
            while thread.is_alive():
                thread.join(_POLL_S)
                watch(_completed(context, group))
        except BaseException:
            # With its later jobs: the action may be about to start its first one, or be between two.
            jsc = context._jsc  # noqa: SLF001  # PySpark's own cancelJobGroup cancels running jobs only
            stop_interrupted(lambda: jsc.sc().cancelJobGroupAndFutureJobs(group))
            raise
        if trouble:
            raise trouble[0]
        return answers[0]


def _completed(context: Any, group: str) -> int:
    """Tasks of a job group that have ended well."""
    tracker = context.statusTracker()
    stages = {
        stage
        for job in tracker.getJobIdsForGroup(group)
        if (info := tracker.getJobInfo(job))
        for stage in info.stageIds
    }
    return sum(info.numCompletedTasks for stage in stages if (info := tracker.getStageInfo(stage)))
