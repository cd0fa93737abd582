"""Compares the quick start's topics, record by record, with the events that were sent."""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

_RECORD = ["key", "value", "partition"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageCount:
    """Views of one page: as they were sent, and as the counting query wrote them last (None: it did not)."""

    page: str
    sent: int
    counted: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The result. ``lost`` and ``duplicated`` compare the records of the copy with those of the events."""

    rows_in: int
    rows_out: int
    lost: int
    duplicated: int
    pages: tuple[PageCount, ...]

    @property
    def wrong_counts(self) -> tuple[PageCount, ...]:
        """The pages that the counting query got wrong."""
        return tuple(page for page in self.pages if page.counted != page.sent)

    @property
    def perfect(self) -> bool:
        """Whether every event is in the copy once, nothing else is, and every count is right."""
        return self.rows_in == self.rows_out and not (self.lost or self.duplicated or self.wrong_counts)


def compare(
    spark: SparkSession, bootstrap_servers: str, *, events: str, copy: str, counts: str, sent: Mapping[str, int]
) -> Comparison:
    """Compare the topic ``copy`` with ``events``, and the last counts in ``counts`` with ``sent``, views by page.

    Records are compared by key, value and partition, and equal ones by how many there are.
    """
    sides = [
        read_topic(spark, bootstrap_servers, topic).groupBy(*_RECORD).agg(F.count("*").alias(side))
        for topic, side in ((events, "sent"), (copy, "copied"))
    ]
    same = [sides[0][name].eqNullSafe(sides[1][name]) for name in _RECORD]
    number = {side: F.coalesce(F.col(side), F.lit(0)) for side in ("sent", "copied")}
    surplus = number["copied"] - number["sent"]
    totals = (
        sides[0]
        .join(sides[1], same, "full")
        .agg(
            F.sum(number["sent"]).alias("rows_in"),
            F.sum(number["copied"]).alias("rows_out"),
            F.sum(F.greatest(-surplus, F.lit(0))).alias("lost"),
            F.sum(F.greatest(surplus, F.lit(0))).alias("duplicated"),
        )
        .collect()[0]
    )
    counted = _last_counts(read_topic(spark, bootstrap_servers, counts))
    pages = tuple(
        PageCount(page=page, sent=sent.get(page, 0), counted=counted.get(page))
        for page in sorted(sent.keys() | counted.keys(), key=lambda page: (-sent.get(page, 0), page))
    )
    return Comparison(**{name: value or 0 for name, value in totals.asDict().items()}, pages=pages)


def read_topic(spark: SparkSession, bootstrap_servers: str, topic: str) -> DataFrame:
    """A topic as it is now, from its first record to its last."""
    return (
        spark.read.format("pykafka")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("subscribe", topic)
        .load()
    )


def _last_counts(counts: DataFrame) -> dict[str, int]:
    """The newest count of every page: a topic has one order per partition, and a key stays in its partition."""
    rows = (
        counts.groupBy(F.col("key").cast("string").alias("page"))
        .agg(F.max_by(F.col("value").cast("string"), "offset").alias("count"))
        .collect()
    )
    return {row["page"]: int(row["count"]) for row in rows}
