"""The rows of a sink: which columns a query writes. `PyKafkaDataSource` lists the columns, with their types."""

from dataclasses import dataclass
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from spark_kafka_native._spark.errors import PlanError

SINK_COLUMNS: Final = ("key", "value", "topic", "partition", "headers", "timestamp")
_TEXT: Final = "a string or binary"
_TIME: Final = "a timestamp while option 'includeTimestamp' is true"
_HEADERS: Final = "an array<struct<key:string,value:binary>> or a map<string,string> or map<string,binary>"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkRows:
    """The columns and the topic of a query's rows; frozen and pickled to the tasks."""

    columns: tuple[str, ...]
    """Columns that are written, always in the same order."""
    topic: str | None
    """Topic of every row; None: that in the column."""


def sink_rows(schema: StructType, topic: str | None, *, include_timestamp: bool = False) -> SinkRows:
    """Validate a query's columns. Raises PlanError naming the column, before any task runs."""
    names = [column.name for column in schema.fields]
    types = {column.name: column.dataType for column in schema.fields}
    if "value" not in types:
        raise _bad_column(f"column 'value' is required, and must be {_TEXT}; {_columns_of(schema)}")
    if topic is None and "topic" not in types:
        raise _bad_column(
            f"set the option 'topic', or give rows a column 'topic' of type string; {_columns_of(schema)}"
        )
    used = ["value", *(name for name in ("key", "partition", "headers") if name in types)]
    if topic is None:
        used.append("topic")
    if include_timestamp and "timestamp" in types:
        used.append("timestamp")
    for name in used:
        if names.count(name) > 1:
            raise _bad_column(f"column '{name}' appears {names.count(name)} times; {_columns_of(schema)}")
        _check_type(name, types[name])
    return SinkRows(columns=tuple(name for name in SINK_COLUMNS if name in used), topic=topic)


def _columns_of(schema: StructType) -> str:
    columns = (f"{column.name} {column.dataType.simpleString().upper()}" for column in schema.fields)
    return f"the query's columns are {', '.join(columns)}"


def _check_type(name: str, given: DataType) -> None:
    match name:
        case "key" | "value":
            fits, wanted = isinstance(given, StringType | BinaryType), _TEXT
        case "topic":
            fits, wanted = isinstance(given, StringType), "a string"
        case "partition":
            fits, wanted = isinstance(given, IntegerType), "an int"
        case "timestamp":
            fits, wanted = isinstance(given, TimestampType), _TIME
        case _:
            fits, wanted = _are_headers(given), _HEADERS
    if not fits:
        raise _bad_column(f"column '{name}' must be {wanted}, not {given.simpleString().upper()}")


def _are_headers(given: DataType) -> bool:
    if isinstance(given, MapType):
        return isinstance(given.keyType, StringType) and isinstance(given.valueType, StringType | BinaryType)
    if not isinstance(given, ArrayType) or not isinstance(given.elementType, StructType):
        return False
    fields = given.elementType.fields
    return (
        [header.name for header in fields] == ["key", "value"]
        and isinstance(fields[0].dataType, StringType)
        and isinstance(fields[1].dataType, BinaryType)
    )


def _bad_column(text: str) -> PlanError:
    return PlanError("PYKAFKA_SINK_SCHEMA", text)
