"""The progress that Spark reports of a micro-batch -> ``QueryReport``: lag, rows and bytes.

A Python source cannot add custom metrics to Spark's progress, as Spark's JVM connector does. But the progress has the
end offset and the latest offset of each source, and the lag is their difference.

Bytes are reported only for queries that count them: see ``count_bytes``.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.offsets import OffsetMap, parse_offsets

BYTES_OBSERVATION: Final = "pykafka.bytes"
"""The name of the observation of ``count_bytes``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """Offsets between what a query has read and the ends of its partitions; counted as Spark's JVM connector does.

    ``min_offsets``, ``max_offsets`` and ``avg_offsets`` are those of a partition, ``total_offsets`` that of all.
    """

    min_offsets: int
    max_offsets: int
    avg_offsets: float
    total_offsets: int
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryReport:
    """One micro-batch, or one trigger of an idle query."""

    query_id: str
    run_id: str
    name: str | None
    batch_id: int
    timestamp: str
    """The start of the trigger, ISO 8601, UTC."""
    trigger_ms: int
    """The duration of the trigger."""
    rows: int
    """Rows that were read, of all sources."""
    rows_per_s: float
    """Rows by processing time."""
    lag: Lag | None
    """Of all ``pykafka`` sources, and Kafka sources of the JVM, together; None: their offsets are unknown yet."""
    size_bytes: int | None
    """Bytes of keys and values; None: the query does not count them."""

    @property
    def bytes_per_s(self) -> float | None:
        """Bytes by the duration of the trigger."""
        if self.size_bytes is None:
            return None
        return 1000 * self.size_bytes / self.trigger_ms if self.trigger_ms else 0.0


def lag_of(consumed: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]) -> Lag | None:
    """The lag of ``consumed`` to ``latest``; None if ``latest`` has no partition.

    The lag of a partition that has not been read counts from offset 0. ``latest`` may be lower than ``consumed``,
    because it was looked up before the batch; the lag is 0 then.
    """
    if not latest:
        return None
    lags = [max(end - consumed.get(tp, 0), 0) for tp, end in latest.items()]
    total = sum(lags)
    return Lag(
        min_offsets=min(lags),
        max_offsets=max(lags),
        avg_offsets=total / len(lags),
        total_offsets=total,
        partitions=len(lags),
    )


def report_of(progress: str | Mapping[str, Any]) -> QueryReport:
    """``query.lastProgress.json``, as text or parsed -> a report. Raises ValueError: it is no progress."""
    parsed: Mapping[str, Any] = json.loads(progress) if isinstance(progress, str) else progress
    if "batchId" not in parsed or "sources" not in parsed:
        raise ValueError("not the progress of a streaming query: 'batchId' or 'sources' is missing")
    sources = parsed["sources"]
    return QueryReport(
        query_id=str(parsed["id"]),
        run_id=str(parsed["runId"]),
        name=parsed.get("name"),
        batch_id=parsed["batchId"],
        timestamp=parsed["timestamp"],
        trigger_ms=(parsed.get("durationMs") or {}).get("triggerExecution", 0),
        rows=sum(source.get("numInputRows") or 0 for source in sources),
        rows_per_s=sum(_number(source.get("processedRowsPerSecond")) for source in sources),
        lag=_lag(sources),
        size_bytes=_observed_bytes(parsed.get("observedMetrics") or {}),
    )


def count_bytes(df: DataFrame) -> DataFrame:
    """The same rows of a ``pykafka`` source, with the bytes of keys and values counted for the reports.

    Call it on the result of ``load()``, before other operations. It adds one sum over the lengths of both columns.
    Raises ValueError: the rows have neither a column ``key`` nor ``value``.

    >>> visits = spark.readStream.format("pykafka").option("kafka.bootstrap.servers", servers)
    >>> counted = count_bytes(visits.option("subscribe", "visits").load())
    """
    lengths = [F.coalesce(F.octet_length(name), F.lit(0)) for name in ("key", "value") if name in df.columns]
    if not lengths:
        raise ValueError(f"neither 'key' nor 'value' is among the columns {', '.join(df.columns)}")
    total = lengths[0]
    for length in lengths[1:]:
        total += length
    return df.observe(BYTES_OBSERVATION, F.sum(total.cast("long")).alias("bytes"))


def _lag(sources: Iterable[Mapping[str, Any]]) -> Lag | None:
    consumed: OffsetMap = {}
    latest: OffsetMap = {}
    for source in sources:
        known, reached = _offsets(source.get("latestOffset")), _offsets(source.get("endOffset"))
        if known is not None and reached is not None:
            latest |= known
            consumed |= reached
    return lag_of(consumed, latest)


def _offsets(stored: object) -> OffsetMap | None:
    """The offsets of a source; None: there are none yet, or it is no Kafka source."""
    if isinstance(stored, str):
        try:
            stored = json.loads(stored)
        except ValueError:
            return None
    if not isinstance(stored, Mapping):
        return None
    try:
        return parse_offsets(stored)
    except ValueError:
        return None


def _number(value: object) -> float:
    """0 for numbers that are not finite, which Spark writes as text or leaves out."""
    return float(value) if isinstance(value, int | float) else 0.0


def _observed_bytes(observed: Mapping[str, Any]) -> int | None:
    found = observed.get(BYTES_OBSERVATION)
    if not isinstance(found, Mapping):
        return None
    return int(found.get("bytes") or 0)
