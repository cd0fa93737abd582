"""Avro schemas, and the Spark and Arrow types of their values.

Types are those of Spark's Avro functions: enum is string, fixed is binary, a union with null is the other type, int
with long is bigint, float with double is double. Dates and times never become Python objects: they are read and written
as the numbers of the wire format, and Arrow converts them.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from fastavro import parse_schema
from fastavro.schema import SchemaParseException
from fastavro.types import Schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from spark_kafka_native._spark.confluent.errors import SchemaError

SchemaJson = str | Mapping[str, Any] | list[Any]
"""A schema as JSON, or the result of ``json.loads``."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """One type: Spark's, Arrow's with the unit of the wire format, and Arrow's of the number in the wire format."""

    spark: DataType
    arrow: pa.DataType
    raw: pa.DataType


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """A parsed schema."""

    text: str
    """JSON, from which the other fields are derived."""
    parsed: Schema
    """For fastavro, without the logical types that Arrow converts."""
    spark: DataType
    arrow: pa.DataType
    """The type of values that fastavro has read."""
    raw: pa.DataType
    """The type of values that fastavro writes."""

    def __reduce__(self) -> Any:
        return avro_schema, (self.text,)


_PRIMITIVES: Final[Mapping[str, _Kind]] = {
    "null": _Kind(NullType(), pa.null(), pa.null()),
    "boolean": _Kind(BooleanType(), pa.bool_(), pa.bool_()),
    "int": _Kind(IntegerType(), pa.int32(), pa.int32()),
    "long": _Kind(LongType(), pa.int64(), pa.int64()),
    "float": _Kind(FloatType(), pa.float32(), pa.float32()),
    "double": _Kind(DoubleType(), pa.float64(), pa.float64()),
    "bytes": _Kind(BinaryType(), pa.binary(), pa.binary()),
    "string": _Kind(StringType(), pa.string(), pa.string()),
}
_LOGICAL: Final[Mapping[tuple[str, str], _Kind]] = {
    ("int", "date"): _Kind(DateType(), pa.date32(), pa.int32()),
    ("long", "timestamp-millis"): _Kind(TimestampType(), pa.timestamp("ms", "UTC"), pa.int64()),
    ("long", "timestamp-micros"): _Kind(TimestampType(), pa.timestamp("us", "UTC"), pa.int64()),
    ("long", "local-timestamp-millis"): _Kind(TimestampNTZType(), pa.timestamp("ms"), pa.int64()),
    ("long", "local-timestamp-micros"): _Kind(TimestampNTZType(), pa.timestamp("us"), pa.int64()),
}
_WIDER: Final[Mapping[frozenset[str], str]] = {
    frozenset({"int", "long"}): "long",
    frozenset({"float", "double"}): "double",
}
_MAX_PRECISION: Final = 38
_NAMED: Final = frozenset({"record", "error", "enum", "fixed"})


def avro_schema(schema: SchemaJson, references: Iterable[str] = ()) -> AvroSchema:
    """A schema from its JSON. ``references``: the JSON of schemas that it refers to by name, in that order.

    Raises SchemaError: it is invalid, or has no Spark type (recursive; a union of several types).
    """
    once = _resolved(schema, references)
    kind = _TypeMapper().kind(once, "the schema")
    return AvroSchema(json.dumps(once), parse_schema(_plain(once)), kind.spark, kind.arrow, kind.raw)


def writer_schema(schema: SchemaJson, references: Iterable[str] = ()) -> Schema:
    """A schema for fastavro, whether or not Spark has a type for it. Raises SchemaError: it is invalid."""
    return parse_schema(_plain(_resolved(schema, references)))


def _resolved(schema: SchemaJson, references: Iterable[str]) -> Any:
    """A validated schema with full names and with the schemas that it refers to."""
    try:
        known: dict[str, Any] = {}
        for text in references:
            parse_schema(json.loads(text), known)
        given: Any = json.loads(schema) if isinstance(schema, str) else schema
        return _defined_once(parse_schema(given, known), known, set())
    except (SchemaParseException, ValueError, TypeError, KeyError, AttributeError) as error:
        raise SchemaError(f"not a valid Avro schema: {type(error).__name__}: {error}") from error


class _TypeMapper:
    def __init__(self) -> None:
        self._named: dict[str, Any] = {}
        self._open: list[str] = []

    def kind(self, schema: Any, where: str) -> _Kind:
        """The types of ``schema``. Raises SchemaError naming ``where``."""
        if isinstance(schema, str):
            return _PRIMITIVES.get(schema) or self._by_name(schema, where)
        if isinstance(schema, list):
            return self._union(schema, where)
        kind = schema["type"]
        if kind in _NAMED:
            self._named[schema["name"]] = schema
        match kind:
            case "record" | "error":
                return self._record(schema, where)
            case "array":
                item = self.kind(schema["items"], f"items of {where}")
                lists = [pa.list_(kind) for kind in (item.arrow, item.raw)]
                return _Kind(ArrayType(item.spark), lists[0], lists[1])
            case "map":
                value = self.kind(schema["values"], f"values of {where}")
                maps = [pa.map_(pa.string(), kind) for kind in (value.arrow, value.raw)]
                return _Kind(MapType(StringType(), value.spark), maps[0], maps[1])
            case "enum":
                return _PRIMITIVES["string"]
            case "bytes" | "fixed":
                return _decimal(schema) or _PRIMITIVES["bytes"]
            case _:
                found = _LOGICAL.get((kind, schema.get("logicalType", ""))) if isinstance(kind, str) else None
                return found or self.kind(kind, where)

    def _by_name(self, name: str, where: str) -> _Kind:
        if name in self._open:
            raise SchemaError(f"{where} contains {name} in itself; Spark has no recursive types")
        if name not in self._named:
            raise SchemaError(f"{where} is of the unknown type {name}")
        return self.kind(self._named[name], where)

    def _record(self, schema: Mapping[str, Any], where: str) -> _Kind:
        name = schema["name"]
        if name in self._open:
            raise SchemaError(f"{where} contains {name} in itself; Spark has no recursive types")
        self._open.append(name)
        kinds = {field["name"]: self.kind(field["type"], f"field {field['name']}") for field in schema["fields"]}
        self._open.pop()
        return _Kind(
            StructType([StructField(field, kind.spark) for field, kind in kinds.items()]),
            pa.struct([pa.field(field, kind.arrow) for field, kind in kinds.items()]),
            pa.struct([pa.field(field, kind.raw) for field, kind in kinds.items()]),
        )

    def _union(self, schema: list[Any], where: str) -> _Kind:
        others = [branch for branch in schema if branch != "null"]
        if not others:
            return _PRIMITIVES["null"]
        if len(others) == 1:
            return self.kind(others[0], where)
        names = frozenset(branch if isinstance(branch, str) else "" for branch in others)
        if names not in _WIDER:
            raise SchemaError(f"{where} is a union of {len(others)} types, for which Spark has none")
        return _PRIMITIVES[_WIDER[names]]


def _plain(schema: Any) -> Any:
    """``schema`` without the logical types whose values fastavro must not convert."""
    if isinstance(schema, list):
        return [_plain(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    is_decimal = _decimal(schema) is not None
    kept = {name: value for name, value in schema.items() if is_decimal or name != "logicalType"}
    for part in ("type", "items", "values"):
        if part in kept:
            kept[part] = _plain(kept[part])
    if "fields" in kept:
        kept["fields"] = [{**field, "type": _plain(field["type"])} for field in kept["fields"]]
    return kept


def _defined_once(schema: Any, known: Mapping[str, Any], seen: set[str]) -> Any:
    """``schema`` with every named type defined at its first use, and named at later ones."""
    if isinstance(schema, list):
        return [_defined_once(branch, known, seen) for branch in schema]
    if isinstance(schema, str):
        return schema if schema in seen or schema not in known else _defined_once(known[schema], known, seen)
    if not isinstance(schema, dict):
        return schema
    kind, name = schema["type"], schema.get("name")
    if kind in _NAMED:
        if name in seen:
            return name
        seen.add(str(name))
    kept = {key: value for key, value in schema.items() if not key.startswith("__")}
    if not isinstance(kind, str):
        kept["type"] = _defined_once(kind, known, seen)
    for part in ("items", "values"):
        if part in kept:
            kept[part] = _defined_once(kept[part], known, seen)
    if "fields" in kept:
        fields = [{key: value for key, value in field.items() if not key.startswith("__")} for field in kept["fields"]]
        kept["fields"] = [{**field, "type": _defined_once(field["type"], known, seen)} for field in fields]
    return kept


def _decimal(schema: Mapping[str, Any]) -> _Kind | None:
    if schema["type"] not in {"bytes", "fixed"} or schema.get("logicalType") != "decimal":
        return None
    precision, scale = schema.get("precision", 0), schema.get("scale", 0)
    if not 0 < precision <= _MAX_PRECISION:
        return None
    decimal = pa.decimal128(precision, scale)
    return _Kind(DecimalType(precision, scale), decimal, decimal)
