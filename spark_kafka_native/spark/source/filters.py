"""The filters of a batch query -> what of the topics need not be read at all.

Spark hands over conditions that must all hold, each on one column. Those on topic, partition, offset and timestamp
narrow the read. None is declared dealt with: Spark goes on filtering, so a filter that says nothing here costs nothing,
and a narrowing need only be safe, not exact.
"""

import datetime
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from spark_kafka_native.spark.planning.narrowing import EVERYTHING, Comparison, Condition, Narrowing
from spark_kafka_native.spark.source.schema import Column, Layout

_COMPARISONS: Final[dict[type[Filter], Comparison]] = {
    EqualTo: Comparison.EQUAL,
    In: Comparison.IN,
    LessThan: Comparison.LESS,
    LessThanOrEqual: Comparison.AT_MOST,
    GreaterThan: Comparison.MORE,
    GreaterThanOrEqual: Comparison.AT_LEAST,
}
_LOWER_BOUNDS: Final = frozenset({Comparison.EQUAL, Comparison.IN, Comparison.MORE, Comparison.AT_LEAST})
_UPPER_BOUNDS: Final = frozenset({Comparison.EQUAL, Comparison.IN, Comparison.LESS, Comparison.AT_MOST})
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND: Final = datetime.timedelta(microseconds=1)


def narrowing_of(filters: Iterable[Filter], layout: Layout) -> Narrowing:
    """What all rows that pass ``filters`` have in common, as far as a narrower read can come of it."""
    narrowing = EVERYTHING
    for pushed in filters:
        found = _condition(pushed, layout)
        if found is not None:
            narrowing = _narrowed(narrowing, *found)
    return narrowing


def _condition(pushed: Filter, layout: Layout) -> tuple[Column, Condition] | None:
    """A filter that compares one of the source's columns with values that are not null; None for others."""
    comparison = _COMPARISONS.get(type(pushed))
    if comparison is None:
        return None
    attribute: tuple[str, ...] = pushed.attribute  # type: ignore[attr-defined]  # every comparison has one
    value: Any = pushed.value  # type: ignore[attr-defined]  # every comparison has one
    column = layout.source_of(attribute[0]) if len(attribute) == 1 else None
    if comparison is Comparison.IN:
        value = tuple(one for one in value if one is not None)
    if column is None or value is None:
        return None
    return column, Condition(column=column.source, comparison=comparison, value=value)


def _narrowed(narrowing: Narrowing, column: Column, condition: Condition) -> Narrowing:
    match column.source:
        case "topic" | "partition":
            return replace(narrowing, on_partition=(*narrowing.on_partition, condition))
        case "offset":
            from_offset, until_offset = _whole_numbers(condition)
            upper = [bound for bound in (narrowing.until_offset, until_offset) if bound is not None]
            return replace(
                narrowing,
                from_offset=max(narrowing.from_offset, from_offset or 0),
                until_offset=max(min(upper), 0) if upper else None,
            )
        case "timestamp":
            from_ms, _ = _whole_numbers(condition if pa.types.is_integer(column.arrow_type) else _in_micros(condition))
            if from_ms is not None and not pa.types.is_integer(column.arrow_type):
                from_ms = -(-from_ms // 1000)
            # Records without a time have -1: nothing earlier than 1970 can be sought.
            if from_ms is None or from_ms < max(narrowing.from_timestamp_ms or 0, 0):
                return narrowing
            return replace(narrowing, from_timestamp_ms=from_ms)
        case _:
            return narrowing


def _whole_numbers(condition: Condition) -> tuple[int | None, int | None]:
    """The half-open range of whole numbers outside of which a condition holds for none; None: no bound there."""
    comparison, value = condition.comparison, condition.value
    smallest, largest = value, value
    if comparison is Comparison.IN:
        # A list of nothing but nulls lets nothing through.
        smallest, largest = min(value, default=0), max(value, default=-1)
    from_number = smallest + (comparison is Comparison.MORE) if comparison in _LOWER_BOUNDS else None
    until_number = largest + (comparison is not Comparison.LESS) if comparison in _UPPER_BOUNDS else None
    return from_number, until_number


def _in_micros(condition: Condition) -> Condition:
    """A condition on times as one on microseconds since 1970, whole numbers."""
    if condition.comparison is Comparison.IN:
        return replace(condition, value=tuple(map(_micros, condition.value)))
    return replace(condition, value=_micros(condition.value))


def _micros(time: datetime.datetime) -> int:
    return (time - _EPOCH) // _MICROSECOND
