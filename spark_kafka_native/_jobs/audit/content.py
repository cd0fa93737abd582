"""Compares the records of two DataFrames, a topic and its copy.

A record of the source is equal to one of the target if topic, partition, key, value and headers are. Several equal
records are paired in the order of their offsets. Other records are lost or extra, unless one of each side have the same
key: these are one record whose value or headers differ.

    source, target -> digest -> shuffle by key -> number among equal records -> pairs of equal records
        -> number among the rest of one key -> pairs of different records -> shuffle by partition -> order

Each side is read once. The records of a key are in one task, those without a key are spread by digest.
"""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

LOST: Final = "lost"
"""In the source only."""
EXTRA: Final = "extra"
"""In the target only."""
DIFFERENT: Final = "different"
"""In both with the same key, and with another value or other headers."""
REORDERED: Final = "reordered"
"""In both; a record that is before it in the source is after it in the target."""
KINDS: Final = (LOST, EXTRA, DIFFERENT, REORDERED)
SAME: Final = "same"

_SIDES: Final = ("source", "target")


def compare_records(
    source: DataFrame, target: DataFrame, *, with_timestamps: bool, across_partitions: bool
) -> DataFrame:
    """One row for each record of either side, with ``kind``: SAME, or one of KINDS.

    Both have the columns of the data source with headers, and the names of the source's topics. Columns of the result:
    ``kind``, ``topic``, ``key``, and ``source`` and ``target``: structs of ``partition`` and ``offset``, null on the
    side that lacks the record. ``with_timestamps``: records with other timestamps are not equal. ``across_partitions``:
    records are compared by topic, whatever their partition, and their order only by key and partition.
    """
    place = ["topic"] if across_partitions else ["topic", "partition"]
    group = [*place, "key", "spread"]
    hashed = digest(with_timestamps=with_timestamps)
    sides = [
        frame.select(*place, "key", hashed.alias("digest"), *_positions(side))
        for frame, side in zip((source, target), _SIDES, strict=True)
    ]
    rows = sides[0].unionByName(sides[1]).withColumn("spread", F.when(F.col("key").isNull(), F.col("digest")))
    pairs = _equal(rows.repartition(*group), group)
    return _ordered(_different(pairs, group), place, across_partitions=across_partitions)


def count_kinds(outcome: DataFrame, *, across_partitions: bool) -> DataFrame:
    """For each ``topic`` and ``partition``: the records of ``source`` and ``target``, and of each of KINDS."""
    partition = F.coalesce("source.partition", "target.partition")
    shown = F.lit(None).cast("int") if across_partitions else partition
    counts = [F.count(side).alias(side) for side in _SIDES]
    counts += [F.count_if(F.col("kind") == kind).alias(kind) for kind in KINDS]
    return outcome.groupBy("topic", shown.alias("partition")).agg(*counts)


def digest(*, with_timestamps: bool) -> Column:
    """MD5 of key, value and headers, each with its size, so that two different records have two different inputs."""
    headers = F.aggregate(
        F.coalesce("headers", F.expr("array()")),
        F.lit(bytearray()),
        lambda joined, header: F.concat(joined, _sized(F.encode(header["key"], "UTF-8")), _sized(header["value"])),
    )
    parts = [_sized(F.col("key")), _sized(F.col("value")), headers]
    if with_timestamps:
        parts.insert(0, _sized(F.encode(F.unix_micros("timestamp").cast("string"), "UTF-8")))
    return F.unhex(F.md5(F.concat(*parts)))


def _sized(content: Column) -> Column:
    """The bytes after their number; a dash for null."""
    size = F.encode(F.concat(F.octet_length(content).cast("string"), F.lit(":")), "UTF-8")
    return F.coalesce(F.concat(size, content), F.encode(F.lit("-"), "UTF-8"))


def _positions(side: str) -> list[Column]:
    """The columns of both sides, of which one is null."""
    position, absent = F.struct("partition", "offset"), F.lit(None).cast("struct<partition: int, offset: bigint>")
    return [(position if each == side else absent).alias(each) for each in _SIDES]


def _equal(rows: DataFrame, group: Sequence[str]) -> DataFrame:
    """Records of both sides with the same digest and the same number among them become one row."""
    return _paired(_numbered(rows, [*group, "digest"]), [*group, "digest", "number"]).drop("number")


def _different(pairs: DataFrame, group: Sequence[str]) -> DataFrame:
    """Of the rest, records of both sides with the same key, and the same number among its rest, become one row."""
    is_pair = F.col("source").isNotNull() & F.col("target").isNotNull()
    numbered = _numbered(pairs.withColumn("equal", is_pair), [*group, "equal"])
    # Records without a key stay alone, and so do pairs.
    may_pair = ~F.col("equal") & F.col("key").isNotNull()
    alone = F.when(~may_pair, F.coalesce("source", "target")), F.when(~may_pair, F.col("source").isNull())
    named = numbered.withColumns({"alone": alone[0], "in_target": alone[1]})
    return _paired(named, [*group, "equal", "alone", "in_target", "number"])


def _numbered(rows: DataFrame, by: Sequence[str]) -> DataFrame:
    """With the number of a row among those of its side in its group, in the order of offsets."""
    of_side = Window.partitionBy(*by, F.col("source").isNull()).orderBy(F.coalesce(*_SIDES))
    return rows.withColumn("number", F.row_number().over(of_side))


def _paired(rows: DataFrame, by: Sequence[str]) -> DataFrame:
    """Each group has at most one row of each side."""
    return rows.groupBy(*by).agg(*(F.max(side).alias(side) for side in _SIDES))


def _ordered(rows: DataFrame, place: Sequence[str], *, across_partitions: bool) -> DataFrame:
    """The result, with the kind of each row."""
    # Across partitions only records of a key have an order, while the key stays in its partition.
    apart = ["topic", "key", "source.partition", "target.partition"] if across_partitions else place
    before = Window.partitionBy(*apart).orderBy("source.offset").rowsBetween(Window.unboundedPreceding, -1)
    latest = F.max(F.when(F.col("equal"), F.col("target.offset"))).over(before)
    is_reordered = latest > F.col("target.offset")
    if across_partitions:
        is_reordered &= F.col("key").isNotNull()
    kind = (
        F.when(F.col("target").isNull(), LOST)
        .when(F.col("source").isNull(), EXTRA)
        .when(~F.col("equal"), DIFFERENT)
        .when(is_reordered, REORDERED)
        .otherwise(SAME)
    )
    return rows.select(kind.alias("kind"), "topic", "key", *_SIDES)
