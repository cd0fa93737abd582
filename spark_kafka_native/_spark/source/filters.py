"""The filters of a batch query -> a narrowing of its ranges.

Spark pushes conditions that must all hold, each on one column. Those on topic, partition, offset and timestamp narrow
the read. All filters are returned to Spark, which applies them again, so a narrowing need not be exact.
"""

import datetime
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual

from spark_kafka_native._spark.planning.narrowing import EVERYTHING, Condition, Narrowing, Operator
from spark_kafka_native._spark.source.layout import Layout, SourceColumn

_OPERATORS: Final[dict[type[Filter], Operator]] = {
    EqualTo: Operator.EQUAL,
    In: Operator.IN,
    LessThan: Operator.LESS,
    LessThanOrEqual: Operator.AT_MOST,
    GreaterThan: Operator.MORE,
    GreaterThanOrEqual: Operator.AT_LEAST,
}
_LOWER_BOUNDS: Final = frozenset({Operator.EQUAL, Operator.IN, Operator.MORE, Operator.AT_LEAST})
_UPPER_BOUNDS: Final = frozenset({Operator.EQUAL, Operator.IN, Operator.LESS, Operator.AT_MOST})
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND: Final = datetime.timedelta(microseconds=1)


def narrowing_of(filters: Iterable[Filter], layout: Layout) -> Narrowing:
    """The conditions of ``filters`` that narrow a read."""
    narrowing = EVERYTHING
    for pushed in filters:
        found = _condition(pushed, layout)
        if found is not None:
            narrowing = _narrowed(narrowing, *found)
    return narrowing


def _condition(pushed: Filter, layout: Layout) -> tuple[SourceColumn, Condition] | None:
    """A filter that compares one of the source's columns with values that are not null; None for other filters."""
    operator = _OPERATORS.get(type(pushed))
    if operator is None:
        return None
    attribute: tuple[str, ...] = pushed.attribute  # type: ignore[attr-defined]  # every operator has one
    value: Any = pushed.value  # type: ignore[attr-defined]  # every operator has one
    column = layout.source_of(attribute[0]) if len(attribute) == 1 else None
    if operator is Operator.IN:
        value = tuple(one for one in value if one is not None)
    if column is None or value is None:
        return None
    return column, Condition(column=column.source, operator=operator, value=value)


def _narrowed(narrowing: Narrowing, column: SourceColumn, condition: Condition) -> Narrowing:
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
            # Records without a timestamp have -1, so a bound before 1970 does not narrow.
            if from_ms is None or from_ms < max(narrowing.from_timestamp_ms or 0, 0):
                return narrowing
            return replace(narrowing, from_timestamp_ms=from_ms)
        case _:
            return narrowing


def _whole_numbers(condition: Condition) -> tuple[int | None, int | None]:
    """The half-open range of integers for which a condition can hold; None: no bound."""
    operator, value = condition.operator, condition.value
    smallest, largest = value, value
    if operator is Operator.IN:
        # No row passes a list of nulls only.
        smallest, largest = min(value, default=0), max(value, default=-1)
    from_number = smallest + (operator is Operator.MORE) if operator in _LOWER_BOUNDS else None
    until_number = largest + (operator is not Operator.LESS) if operator in _UPPER_BOUNDS else None
    return from_number, until_number


def _in_micros(condition: Condition) -> Condition:
    if condition.operator is Operator.IN:
        return replace(condition, value=tuple(map(_micros, condition.value)))
    return replace(condition, value=_micros(condition.value))


def _micros(time: datetime.datetime) -> int:
    return (time - _EPOCH) // _MICROSECOND
