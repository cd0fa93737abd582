"""The progress that Spark reports of a micro-batch -> ``QueryReport``: lag, rows and bytes.

A Python source cannot add metrics of its own to Spark's progress, as Spark's JVM connector does. But the progress has
the offsets that each source has reached and those that it knows of, and that is all that the lag needs.

Bytes are told only for queries that count them: see ``count_bytes``.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_kafka_native.protocol.topic import TopicPartition
from spark_kafka_native.spark.offsets import OffsetMap, parse_offsets

BYTES_OBSERVATION: Final = "pykafka.bytes"
"""The name under which ``count_bytes`` observes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """Offsets between what a query has read and the ends of its partitions; counted as Spark's JVM connector does."""

    min_offsets: int
    max_offsets: int
    avg_offsets: float
    total_offsets: int
    partitions: int

    def as_metrics(self) -> dict[str, str]:
        """The three metrics of the JVM connector's progress, by their names and in the form that they have there."""
        return {
            "minOffsetsBehindLatest": str(self.min_offsets),
            "maxOffsetsBehindLatest": str(self.max_offsets),
            "avgOffsetsBehindLatest": str(Decimal(self.avg_offsets).quantize(Decimal("0.1"), ROUND_HALF_UP)),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryReport:
    """One micro-batch, or one look of an idle query for news."""

    query_id: str
    run_id: str
    name: str | None
    batch_id: int
    timestamp: str
    """When the trigger began, ISO 8601, UTC."""
    trigger_ms: int
    """How long it took."""
    rows: int
    rows_per_s: float
    """Rows by the time that it took to process them."""
    lag: Lag | None
    """Of all ``pykafka`` sources (and Kafka sources of the JVM) together; None where nothing is known of them yet."""
    size_bytes: int | None
    """Keys and values that were read; None: the query does not count them."""

    @property
    def bytes_per_s(self) -> float | None:
        """Bytes by the time that the trigger took."""
        if self.size_bytes is None:
            return None
        return 1000 * self.size_bytes / self.trigger_ms if self.trigger_ms else 0.0


def lag_of(consumed: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]) -> Lag | None:
    """How far ``consumed`` is behind ``latest``; None if there is no partition to be behind in.

    Of a partition that has not been read at all everything counts, from offset 0. ``latest`` may be older than
    ``consumed``, as it is a little older than the batch; that is no lag.
    """
    if not latest:
        return None
    behind = [max(end - consumed.get(tp, 0), 0) for tp, end in latest.items()]
    total = sum(behind)
    return Lag(
        min_offsets=min(behind),
        max_offsets=max(behind),
        avg_offsets=total / len(behind),
        total_offsets=total,
        partitions=len(behind),
    )


def report_of(progress: str | Mapping[str, Any]) -> QueryReport:
    """``query.lastProgress.json``, or the object that it holds -> a report. Raises ValueError: it is no progress."""
    told: Mapping[str, Any] = json.loads(progress) if isinstance(progress, str) else progress
    if "batchId" not in told or "sources" not in told:
        raise ValueError("not the progress of a streaming query: 'batchId' or 'sources' is missing")
    sources = told["sources"]
    return QueryReport(
        query_id=str(told["id"]),
        run_id=str(told["runId"]),
        name=told.get("name"),
        batch_id=told["batchId"],
        timestamp=told["timestamp"],
        trigger_ms=(told.get("durationMs") or {}).get("triggerExecution", 0),
        rows=sum(source.get("numInputRows") or 0 for source in sources),
        rows_per_s=sum(_number(source.get("processedRowsPerSecond")) for source in sources),
        lag=_lag(sources),
        size_bytes=_observed_bytes(told.get("observedMetrics") or {}),
    )


def count_bytes(df: DataFrame) -> DataFrame:
    """The rows of a ``pykafka`` source as they are, with the bytes of keys and values counted for the reports.

    Call it on what ``load()`` returned, before anything else. It costs one sum over the lengths of both columns.
    Raises ValueError: the rows have neither a column ``key`` nor ``value``.
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


def _offsets(told: object) -> OffsetMap | None:
    """The offsets of a source; None: there are none yet, or the source is none of Kafka's."""
    if isinstance(told, str):
        try:
            told = json.loads(told)
        except ValueError:
            return None
    if not isinstance(told, Mapping):
        return None
    try:
        return parse_offsets(told)
    except ValueError:
        return None


def _number(told: object) -> float:
    """Spark spells what is not a finite number as text, or leaves it out."""
    return float(told) if isinstance(told, int | float) else 0.0


def _observed_bytes(observed: Mapping[str, Any]) -> int | None:
    told = observed.get(BYTES_OBSERVATION)
    if not isinstance(told, Mapping):
        return None
    return int(told.get("bytes") or 0)
