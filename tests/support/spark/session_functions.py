"""What tests ask a Spark session that has both connectors: functions that run in the session's process.

Answers are plain values, so that they travel and compare. Errors are answers too: the text that a user would see.
"""

import json
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_kafka_native._java import ensure_java
from spark_kafka_native._spark.progress.report import report_of
from spark_kafka_native._spark.worker_python import PYTHON_VARIABLES, worker_python
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

REPOSITORY = Path(__file__).parents[3]
STREAM_TIMEOUT_S = 90

Options = Mapping[str, str]


@dataclass(frozen=True)
class Rows:
    """What a batch query gave: rows as tuples, or the error."""

    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    partitions: int = 0
    """Tasks that read."""
    error: str | None = None


@dataclass(frozen=True)
class Run:
    """What a streaming query with Trigger.AvailableNow gave."""

    rows: tuple[tuple[Any, ...], ...] = ()
    """Of all batches, sorted."""
    batches: tuple[int, ...] = ()
    """How many rows each batch had; those without are left out."""
    partitions: tuple[int, ...] = ()
    """Tasks that read each of these batches."""
    end: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """The last offsets in the checkpoint."""
    lags: tuple[tuple[Options, Options], ...] = ()
    """For each progress report, the lag as the source reported it and as `report_of` finds it."""
    error: str | None = None


@dataclass(frozen=True)
class Write:
    """What is written, by a query, and the sink's options."""

    query: str
    options: Options


class _Session:
    """The one Spark session of this process."""

    spark: "SparkSession"
    failing: "StreamingQuery"


_KEPT: "dict[str, DataFrame]" = {}


def start_spark(jars: Sequence[Path], directory: Path) -> str:
    """Start Spark on two cores with these jars; its files go below the directory. Returns its version."""
    ensure_java()
    os.environ |= dict.fromkeys(PYTHON_VARIABLES, worker_python())
    os.environ["PYTHONPATH"] = os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")])
    os.chdir(directory)
    from pyspark.sql import SparkSession

    _Session.spark = (
        SparkSession.builder.master("local[2]")
        .appName("both-connectors")
        .config("spark.jars", ",".join(str(jar) for jar in jars))
        .config("spark.driver.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        .getOrCreate()
    )
    _Session.spark.sparkContext.setLogLevel("OFF")
    return _Session.spark.version


def stop_spark() -> None:
    """Stop it."""
    _Session.spark.stop()


def side_by_side(connectors: Sequence[str], question: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Any]:
    """The answers of several connectors to a question, asked in threads of their own."""
    # Writers look for Python sources in the session of their thread, and have none in a new one.
    with ThreadPoolExecutor(
        len(connectors), initializer=_Session.spark.createDataFrame, initargs=([], "x int")
    ) as threads:
        asked = [threads.submit(question, connector, *args, **kwargs) for connector in connectors]
        return [response.result() for response in asked]


def read(connector: str, options: Options, *, keep: bool = False) -> Rows:
    """All rows of a batch query, in the order of topic, partition and offset. ``keep``: for `read_again`."""
    try:
        frame = _Session.spark.read.format(connector).options(**options).load()
        found = _rows(frame)
    except Exception as error:  # a response: what a user would see
        return Rows(error=str(error))
    if keep:
        _KEPT[connector] = frame
    return found


def read_again(connector: str) -> Rows:
    """All rows that the last DataFrame kept by `read` has now."""
    return _rows(_KEPT[connector])


def _rows(frame: "DataFrame") -> Rows:
    rows = tuple(sorted(map(plain, frame.collect()), key=_place))
    return Rows(tuple(frame.columns), rows, frame.rdd.getNumPartitions())


def stream(
    connector: str, options: Options, directory: Path, *, checkpoint: str | None = None, fail: bool = False
) -> Run:
    """Run a query over all that there is. Its checkpoint in the directory is named as the connector by default.

    ``fail``: the query dies in its first batch, after the batch's offsets were written and before it was committed.
    """
    place = directory / (checkpoint or connector)
    batches: list[tuple[int, list[tuple[Any, ...]]]] = []

    def take(frame: "DataFrame", batch_id: int) -> None:
        if fail:
            raise RuntimeError("this batch was to fail")
        rows = [plain(row) for row in frame.collect()]
        if rows:
            batches.append((frame.rdd.getNumPartitions(), rows))

    lags: tuple[tuple[Options, Options], ...] = ()
    problem: str | None = None
    query = None
    try:
        frame = _Session.spark.readStream.format(connector).options(**options).load()
        writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(place))
        query = writer.trigger(availableNow=True).start()
        if not query.awaitTermination(STREAM_TIMEOUT_S):
            problem = f"the query did not end in {STREAM_TIMEOUT_S} s"
        lags = tuple(_lag(progress) for progress in query.recentProgress)
    except Exception as error:  # a response: what a user would see
        problem = str(error)
    finally:
        if query is not None:
            query.stop()
    return Run(
        rows=tuple(sorted((row for _, rows in batches for row in rows), key=_place)),
        batches=tuple(len(rows) for _, rows in batches),
        partitions=tuple(partitions for partitions, _ in batches),
        end=last_offsets(place),
        lags=lags,
        error=problem,
    )


def _lag(progress: "StreamingQueryProgress") -> tuple[Options, Options]:
    """The source's own metrics of the lag, and those of our report of the same progress in the same format."""
    lag = report_of(progress.json).lag
    ours = {}
    if lag is not None:
        average = Decimal(lag.avg_offsets).quantize(Decimal("0.1"), ROUND_HALF_UP)
        numbers = {"min": lag.min_offsets, "max": lag.max_offsets, "avg": average}
        ours = {f"{name}OffsetsBehindLatest": str(number) for name, number in numbers.items()}
    return dict(progress["sources"][0]["metrics"] or {}), ours


def start_refused(connector: str, options: Options, directory: Path, *, trigger: Mapping[str, str]) -> str | None:
    """Start a stream with a trigger, and stop it at once; the error, if it is refused."""
    query = None
    try:
        frame = _Session.spark.readStream.format(connector).options(**options).load()
        writer = frame.writeStream.format("noop").option("checkpointLocation", str(directory / connector))
        query = writer.trigger(**trigger).start()
    except Exception as error:  # a response: what a user would see
        return str(error)
    finally:
        if query is not None:
            query.stop()
    return None


def sql(connector: str, statements: Sequence[str]) -> tuple[tuple[Any, ...], ...]:
    """The rows of the last of these statements; ``{connector}`` in them stands for the connector's name."""
    for statement in statements:
        frame = _Session.spark.sql(statement.replace("{connector}", connector))
    return tuple(plain(row) for row in frame.collect())


def write(connector: str, writes: Mapping[str, Write], *, mode: str | None = "append") -> str | None:
    """Write the rows of the connector's query in one task; the error, if there is one."""
    wanted = writes[connector]
    try:
        writer = _Session.spark.sql(wanted.query).coalesce(1).write.format(connector).options(**wanted.options)
        (writer.mode(mode) if mode else writer).save()
    except Exception as error:  # a response: what a user would see
        return str(error)
    return None


def copy(
    connector: str, source: Options, writes: Mapping[str, Write], directory: Path, *, mode: str = "append"
) -> str | None:
    """Copy topics in a stream through the connector's query on the view ``records``; the error, if there is one."""
    wanted = writes[connector]
    view = f"records_{uuid.uuid4().hex}"
    running = None
    try:
        _Session.spark.readStream.format(connector).options(**source).load().createOrReplaceTempView(view)
        frame = _Session.spark.sql(wanted.query.replace("records", view))
        writer = frame.writeStream.format(connector).options(**wanted.options).outputMode(mode)
        running = writer.option("checkpointLocation", str(directory / connector)).trigger(availableNow=True).start()
        if not running.awaitTermination(STREAM_TIMEOUT_S):
            return f"the query did not end in {STREAM_TIMEOUT_S} s"
    except Exception as error:  # a response: what a user would see
        return str(error)
    finally:
        if running is not None:
            running.stop()
    return None


def begin_and_fail(connector: str, options: Options, checkpoint: Path) -> None:
    """Start a query that fails in its first batch with records; return once it has noted where it starts."""

    def fail(_: "DataFrame", __: int) -> None:
        raise RuntimeError("this batch was to fail")

    frame = _Session.spark.readStream.format(connector).options(**options).load()
    writer = frame.writeStream.foreachBatch(fail).option("checkpointLocation", str(checkpoint))
    _Session.failing = writer.trigger(processingTime="100 milliseconds").start()
    eventually((checkpoint / "sources" / "0" / "0").exists, True, within_s=STREAM_TIMEOUT_S)


def await_failure() -> str:
    """Wait until the query that `begin_and_fail` started has failed; the error."""
    try:
        ended = _Session.failing.awaitTermination(STREAM_TIMEOUT_S)
    except Exception as error:  # a response: what a user would see
        return str(error)
    raise AssertionError(f"the query did not fail; ended: {ended}")


def last_offsets(checkpoint: Path) -> Mapping[str, Mapping[str, int]]:
    """The offsets in the newest entry of a checkpoint's offset log; empty without one."""
    entries = [int(entry.name) for entry in (checkpoint / "offsets").glob("*") if entry.name.isdecimal()]
    if not entries:
        return {}
    last_line = (checkpoint / "offsets" / str(max(entries))).read_text(encoding="utf-8").splitlines()[-1]
    found: dict[str, dict[str, int]] = json.loads(last_line)
    return found


def plain(value: Any) -> Any:
    """A row, and the rows and lists in it, as tuples."""
    if isinstance(value, tuple | list):
        return tuple(plain(part) for part in value)
    return bytes(value) if isinstance(value, bytearray) else value


def _place(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Topic, partition, offset."""
    return row[2:5]
