"""The sink, whose processes come to rest at one step of theirs that a test names.

    commit EndTransactions 2 before   the driver's commit rests before its second EndTransactions
    task WriteRows 1 after            a task rests once its rows are written
    commit                            at-least-once: the driver's commit rests

``DOOM`` in the environment is the file that holds the step. Who comes to it first takes the file away and rests, until
it is killed or released. With ``STRAGGLERS``, a number of seconds, the first attempt at one task of every third
batch takes as much longer, so that Spark, with speculation, starts another beside it.
"""

import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._spark.datasource import PyKafkaDataSource
from spark_kafka_native._spark.exactly_once.effects import Effect, Result, Steps
from spark_kafka_native._spark.sink import exactly_once
from spark_kafka_native._spark.sink.effects import carry_out
from spark_kafka_native._spark.sink.exactly_once import BATCH_ID
from spark_kafka_native._spark.sink.writer import PyKafkaStreamWriter

DOOM: Final = "DOOM"
STRAGGLERS: Final = "STRAGGLERS"


class Doom:
    """A step, in a file: a test aims at it, the first process that comes to it rests there. Picklable."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def aim(self, step: str, *, letting_go: bool = True) -> None:
        """The next process at this step waits there. With ``letting_go``, processes that wait now continue."""
        if letting_go:
            self.clear()
        unfinished = self.file.with_name("unfinished")
        unfinished.write_text(step)
        unfinished.replace(self.file)

    def clear(self) -> None:
        """Release all processes; none waits any more."""
        self.file.unlink(missing_ok=True)
        for resting in self._resting():
            resting.unlink()

    def let_go(self, victim: int) -> None:
        """Release one process."""
        self._resting_place(victim).unlink(missing_ok=True)

    @property
    def victim(self) -> int | None:
        """The id of the process that rests at the step."""
        return next((int(file.suffix[1:]) for file in self._resting()), None)

    def reached(self, step: str) -> None:
        """Wait here if this is the step, and no process waits yet. The parent process may end meanwhile."""
        resting = self._resting_place(os.getpid())
        try:
            if self.file.read_text() != step:
                return
            self.file.rename(resting)
        except FileNotFoundError:
            return
        at_hangup = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # Spark's daemon tells its workers so that it ends
        while resting.exists():
            time.sleep(0.05)  # polls for the file that another process removes; the test ends this process otherwise
        signal.signal(signal.SIGHUP, at_hangup)

    def _resting_place(self, process: int) -> Path:
        return self.file.with_suffix(f".{process}")

    def _resting(self) -> list[Path]:
        return list(self.file.parent.glob(f"{self.file.stem}.*"))


class Rests:
    """Where and for how long processes of the sink rest. Picklable, as it travels to the tasks."""

    def __init__(self) -> None:
        """As the environment says."""
        self._doom = Doom(Path(os.environ.get(DOOM, os.devnull)))
        self._straggling_s = float(os.environ.get(STRAGGLERS, "0"))

    def reached(self, step: str) -> None:
        """Rest here if this is the step."""
        self._doom.reached(step)

    def straggle(self) -> None:
        """Be long in coming to the end of a task, if this is one that is."""
        context = TaskContext.get()
        assert context is not None
        batch_id = int(context.getLocalProperty(BATCH_ID) or "0")
        if (context.partitionId(), context.attemptNumber(), batch_id % 3) == (0, 0, 1):
            time.sleep(self._straggling_s)

    def carry_out(self, cluster: Cluster, steps: Any, **how: Any) -> Any:
        """As the sink does, but for the step."""
        return carry_out(cluster, self._watched(steps, steps.__name__), **how)

    def _watched(self, steps: Steps[Any], name: str) -> Steps[Any]:
        counts: dict[str, int] = {}
        try:
            effect: Effect = next(steps)
            while True:
                kind = type(effect).__name__
                counts[kind] = counts.get(kind, 0) + 1
                self.reached(f"{name} {kind} {counts[kind]} before")
                try:
                    result: Result = yield effect
                except Exception as error:  # noqa: BLE001, RUF100 -- the steps decide what becomes of any error
                    effect = steps.throw(error)
                else:
                    self.reached(f"{name} {kind} {counts[kind]} after")
                    effect = steps.send(result)
        except StopIteration as stop:
            return stop.value


class DoomedWriter(DataSourceStreamArrowWriter):
    """A streaming writer whose processes may rest."""

    def __init__(self, writer: PyKafkaStreamWriter) -> None:
        self._writer = writer
        self._rests = Rests()

    def __getstate__(self) -> dict[str, Any]:
        self._install()
        return vars(self)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]  # its row-wise base takes rows
        self._install()
        message = self._writer.write(iterator)
        self._rests.straggle()
        return message

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's name
        self._install()
        self._rests.reached("commit")
        self._writer.commit(messages, batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's name
        self._install()
        self._writer.abort(messages, batchId)

    def _install(self) -> None:
        vars(exactly_once)["carry_out"] = self._rests.carry_out


class DoomedSource(PyKafkaDataSource):
    """The data source, with a streaming sink whose processes may rest."""

    # Spark's name, and a writer around the one that the base makes.
    def streamWriter(self, schema: StructType, overwrite: bool) -> DoomedWriter:  # type: ignore[override]  # noqa: N802
        return DoomedWriter(super().streamWriter(schema, overwrite))
