"""The columns of a query: what a user schema selects from the source's columns (``schema``), as Arrow types."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql.types import ArrayType, BinaryType, DataType, LongType, MapType, StringType, StructField, StructType

from spark_kafka_native._records.arrow.utf8 import FAIL, REPLACE
from spark_kafka_native._spark.errors import PlanError
from spark_kafka_native._spark.source.schema import SPARK_TYPES

_ARROW_TYPES: Final[Mapping[str, pa.DataType]] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
}
_CHOICES: Final[Mapping[str, str]] = {
    "key": "binary or string",
    "value": "binary or string",
    "timestamp": "timestamp, or bigint for milliseconds",
    "headers": "array<struct<key:string,value:binary>> or map<string,binary>, either also with string for binary",
}
_MAY_BE_NULL: Final = frozenset({"key", "value", "headers"})
CONSTANT: Final = frozenset({"topic", "partition"})
"""Columns with one value in all rows of a partition, which are not in the record."""
RECORD_FIELD: Final[Mapping[str, str]] = {"timestampType": "timestamp_type"}
"""Names of the record decoder that differ from the column's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceColumn:
    """One output column: its name, the source's column that it is, its Arrow type."""

    name: str
    source: str
    arrow_type: pa.DataType
    nullable: bool
    has_text_values: bool = False
    """Whether a key, a value or header values are decoded to text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The output columns, in order; frozen and pickled to the tasks."""

    columns: tuple[SourceColumn, ...]
    invalid_utf8: str = REPLACE
    """The value of option ``invalidUtf8``, for text that is not UTF-8."""

    @property
    def arrow_schema(self) -> pa.Schema:
        """The Arrow schema of all batches."""
        return pa.schema([pa.field(column.name, column.arrow_type, column.nullable) for column in self.columns])

    @property
    def record_fields(self) -> tuple[str, ...]:
        """The fields to decode, by the decoder's names; at least one, because a batch without columns has no length."""
        fields = [
            RECORD_FIELD.get(column.source, column.source) for column in self.columns if column.source not in CONSTANT
        ]
        if any(column.arrow_type == _ARROW_TYPES["timestamp"] for column in self.columns) or (
            self.invalid_utf8 == FAIL and any(column.has_text_values for column in self.columns)
        ):
            fields.append("offset")  # for errors
        return tuple(dict.fromkeys(fields)) or ("offset",)

    def source_of(self, name: str) -> SourceColumn | None:
        """The output column of this name."""
        return next((column for column in self.columns if column.name.lower() == name.lower()), None)


def layout_of(schema: StructType, invalid_utf8: str = REPLACE) -> Layout:
    """A schema, the source's or a user's -> the output columns. Names are case-insensitive.

    Raises PlanError: an unknown column, a type that the source does not support, a NOT NULL column that may be null.
    """
    by_name = {name.lower(): name for name in SPARK_TYPES}
    columns: list[SourceColumn] = []
    for wanted in schema.fields:
        source = by_name.get(wanted.name.lower())
        if source is None:
            raise PlanError(
                "PYKAFKA_SCHEMA",
                f"column {wanted.name!r} is not a column of the source; its columns are {', '.join(SPARK_TYPES)}",
            )
        columns.append(_column(source, wanted))
    return Layout(columns=tuple(columns), invalid_utf8=invalid_utf8)


def _column(source: str, wanted: StructField) -> SourceColumn:
    if not wanted.nullable and source in _MAY_BE_NULL:
        raise PlanError("PYKAFKA_SCHEMA", f"column {wanted.name!r} cannot be NOT NULL: records may lack it")
    arrow_type = _headers_type(wanted.dataType) if source == "headers" else _plain_type(source, wanted.dataType)
    if arrow_type is None:
        text = _CHOICES.get(source, SPARK_TYPES[source].simpleString())
        raise PlanError(
            "PYKAFKA_SCHEMA",
            f"column {wanted.name!r} cannot be read as {wanted.dataType.simpleString()}; its type is {text}",
        )
    is_text = pa.types.is_string(_values_type(arrow_type)) and source not in CONSTANT
    return SourceColumn(
        name=wanted.name, source=source, arrow_type=arrow_type, nullable=wanted.nullable, has_text_values=is_text
    )


def _plain_type(source: str, wanted: DataType) -> pa.DataType | None:
    """The Arrow type of a column other than headers; None: the type is not supported."""
    if source in {"key", "value"} and isinstance(wanted, StringType):
        return pa.string()
    if source == "timestamp" and wanted == LongType():
        return pa.int64()
    return _ARROW_TYPES[source] if wanted == SPARK_TYPES[source] else None


def _headers_type(wanted: DataType) -> pa.DataType | None:
    """The Arrow type of headers; None: not supported. Keys are never null; the schema must allow null values."""
    match wanted:
        case MapType(keyType=StringType(), valueType=BinaryType() | StringType(), valueContainsNull=True):
            return pa.map_(pa.string(), _bytes_type(wanted.valueType))
        case ArrayType(elementType=StructType(fields=[key, value])) if (
            (key.name, key.dataType, value.name) == ("key", StringType(), "value")
            and isinstance(value.dataType, BinaryType | StringType)
            and value.nullable
        ):
            pair = pa.struct(
                [pa.field("key", pa.string(), key.nullable), pa.field("value", _bytes_type(value.dataType))]
            )
            return pa.list_(pa.field("element", pair, wanted.containsNull))
        case _:
            return None


def _bytes_type(wanted: DataType) -> pa.DataType:
    return pa.string() if isinstance(wanted, StringType) else pa.binary()


def _values_type(arrow_type: pa.DataType) -> pa.DataType:
    found: pa.DataType = arrow_type
    if isinstance(arrow_type, pa.MapType):
        found = arrow_type.item_type
    elif isinstance(arrow_type, pa.ListType):
        found = arrow_type.value_type.field("value").type
    return found
