"""DataFrames on the topics of a cluster, and streaming queries whose batches a test can look at, in a line each."""

import itertools
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import pytest
from dirty_equals import IsInt
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery

from tests.support.waiting import eventually

PATIENCE_S = 90
AVAILABLE_NOW: dict[str, Any] = {"availableNow": True}
ONCE: dict[str, Any] = {"once": True}


@dataclass(frozen=True)
class KafkaFrames:
    """DataFrames on the cluster at ``servers``. Options are keywords with ``__`` for ``.``."""

    spark: SparkSession
    servers: str

    def read(self, *, schema: str | None = None, **options: object) -> DataFrame:
        """A batch."""
        reader = self.spark.read.format("pykafka").options(**self._named(options))
        return (reader.schema(schema) if schema else reader).load()

    def stream(self, *, schema: str | None = None, **options: object) -> DataFrame:
        """A stream; its column ``value`` alone, as a string, unless there is another schema."""
        reader = self.spark.readStream.format("pykafka").options(**self._named(options))
        return (reader.schema(schema or "value string")).load()

    def write(self, query: DataFrame | str, *, mode: str = "append", **options: object) -> None:
        """Append the rows of a DataFrame, or of a SELECT."""
        rows = self.spark.sql(query) if isinstance(query, str) else query
        rows.write.format("pykafka").mode(mode).options(**self._named(options)).save()

    def write_stream(
        self,
        df: DataFrame,
        checkpoint: Path,
        *,
        trigger: dict[str, Any] | None = None,
        mode: str = "append",
        **options: object,
    ) -> StreamingQuery:
        """Write a stream to topics; Trigger.AvailableNow unless there is another."""
        writer = df.writeStream.format("pykafka").outputMode(mode).options(**self._named(options))
        return writer.option("checkpointLocation", str(checkpoint)).trigger(**(trigger or AVAILABLE_NOW)).start()

    def _named(self, options: dict[str, object]) -> dict[str, str]:
        named = {name.replace("__", "."): str(value) for name, value in options.items()}
        return {"kafka.bootstrap.servers": self.servers} | named


@dataclass
class Batches:
    """The micro-batches of a query over all its runs from one checkpoint: what each one held, by its number."""

    checkpoint: Path
    found: dict[int, list[Any]] = field(default_factory=dict)

    @contextmanager
    def running(self, df: DataFrame, **trigger: Any) -> Iterator[StreamingQuery]:
        """Run a query over a DataFrame of one column, and stop it at the end."""
        query = self.start(df, **trigger)
        try:
            yield query
        finally:
            query.stop()

    def start(self, df: DataFrame, **trigger: Any) -> StreamingQuery:
        """Start a query over a DataFrame of one column."""
        writer = df.writeStream.foreachBatch(self._keep).option("checkpointLocation", str(self.checkpoint))
        return (writer.trigger(**trigger) if trigger else writer).start()

    def finish(self, df: DataFrame, **trigger: Any) -> list[list[Any]]:
        """Run a query that ends by itself, with Trigger.AvailableNow; the batches with rows that this run had."""
        before = set(self.found)
        finish(self.start(df, **(trigger or AVAILABLE_NOW)))
        return [values for number, values in sorted(self.found.items()) if number not in before and values]

    @property
    def rows(self) -> list[Any]:
        """All rows so far, sorted by their text."""
        return sorted(itertools.chain.from_iterable(self.found.values()), key=str)

    @property
    def sizes(self) -> list[int]:
        """Rows of each batch that had any, in order."""
        return [len(values) for _, values in sorted(self.found.items()) if values]

    def wait_for(self, rows: list[Any], query: StreamingQuery) -> None:
        """Return when exactly these rows have come, in any order; those that come later are not waited for."""
        wait_for(lambda: len(self.rows), IsInt(ge=len(rows)), query)
        assert self.rows == sorted(rows, key=str)

    def offsets(self, batch: int) -> str:
        """The offset that Spark keeps for a batch: the last line of its file."""
        return (self.checkpoint / "offsets" / str(batch)).read_text().splitlines()[-1]

    @property
    def numbers(self) -> list[int]:
        """The batches that Spark has planned."""
        return self._numbers("offsets")

    @property
    def committed(self) -> list[int]:
        """The batches that Spark has finished."""
        return self._numbers("commits")

    def _numbers(self, directory: str) -> list[int]:
        return sorted(int(path.name) for path in (self.checkpoint / directory).glob("[0-9]*"))

    def _keep(self, df: DataFrame, batch: int) -> None:
        self.found[batch] = [row[0] for row in df.collect()]


class Looks(StreamingQueryListener):
    """Counts how often queries have looked for records and found none to read."""

    EVERY_MS: Final = 50
    """Spark tells no more often than this; by default, every ten seconds."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    @classmethod
    @contextmanager
    def of(cls, spark: SparkSession) -> Iterator[Self]:
        """Those of queries that are started from now on."""
        looks = cls()
        spark.conf.set("spark.sql.streaming.noDataProgressEventInterval", cls.EVERY_MS)
        spark.streams.addListener(looks)
        try:
            yield looks
        finally:
            spark.streams.removeListener(looks)
            spark.conf.unset("spark.sql.streaming.noDataProgressEventInterval")

    def wait(self, query: StreamingQuery) -> None:
        """Return once a look that began after now has ended: the first to end may have begun before."""
        run, before = str(query.runId), self._counts[str(query.runId)]
        wait_for(lambda: self._counts[run], IsInt(ge=before + 2), query)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802  # Spark's name
        self._counts[str(event.runId)] += 1

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  # Spark's name
        """Nothing to count."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802  # Spark's name
        """Nothing to count: something was read."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802  # Spark's name
        """Nothing to count."""


def values(df: DataFrame) -> list[str | None]:
    """The column value as text, sorted, nulls first."""
    rows = df.select(F.col("value").cast("string")).collect()
    return sorted((row[0] for row in rows), key=lambda value: (value is not None, value or ""))


def numbers(df: DataFrame) -> list[int]:
    """The column value as numbers, sorted."""
    return sorted(int(row[0]) for row in df.select(F.col("value").cast("string")).collect())


def error_text(action: Callable[[], object]) -> str:
    """The whole text of the error that ``action`` fails with."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 -- Spark wraps ours in one of several classes
        action()
    return str(caught.value)


def failure(start: Callable[[], StreamingQuery], within_s: int = PATIENCE_S) -> str:
    """The text that a query fails with."""
    with pytest.raises(StreamingQueryException) as caught:
        start().awaitTermination(within_s)
    return str(caught.value)


def finish(query: StreamingQuery, within_s: int = PATIENCE_S) -> StreamingQuery:
    """A query that ends by itself, ended. Raises TimeoutError."""
    if not query.awaitTermination(within_s):
        raise TimeoutError(f"not ended in {within_s} s: {query.lastProgress}")
    return query


def wait_for(read: Callable[[], object], expected: object, query: StreamingQuery, within_s: int = PATIENCE_S) -> None:
    """As `eventually`; fails with the query's own error if the query ends first."""

    def read_while_it_runs() -> object:
        found = read()
        if found != expected and query.exception() is not None:
            raise AssertionError(str(query.exception()))
        return found

    try:
        eventually(read_while_it_runs, expected, within_s=within_s)
    except AssertionError as error:
        error.add_note(f"last progress: {query.lastProgress}")
        raise


def unique(prefix: str) -> str:
    """A unique name."""
    return f"{prefix}-{uuid.uuid4().hex[:8]}"
