"""The source's columns: their Spark types and their Arrow types.

===============  ===========================================  =====================================================
Column           Spark type; other types that a user schema    Arrow type
                 may have
===============  ===========================================  =====================================================
key, value       binary; string                               binary; string
topic            string                                       string
partition        int                                          int32
offset           bigint                                       int64
timestamp        timestamp; bigint, milliseconds              timestamp[us, tz=UTC]; int64
timestampType    int                                          int32; -1 none, 0 create time, 1 log append time
headers          array<struct<key:string,value:binary>>;      list<struct<key: string, value: binary>>; map;
                 map<string,binary>; string for binary        null: none
===============  ===========================================  =====================================================

All are nullable. ``headers`` needs ``includeHeaders=true``. A user schema may name any of the columns, in any order.
Columns that it leaves out are not decoded; Spark does not prune columns of a Python source otherwise. Keys and values
have no numeric types, because Kafka does not define their format; Spark's functions parse them.
"""

from collections.abc import Mapping
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

_HEADER: Final = StructType([StructField("key", StringType()), StructField("value", BinaryType())])

SPARK_TYPES: Final[Mapping[str, DataType]] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": ArrayType(_HEADER),
}


def source_schema(*, include_headers: bool) -> StructType:
    """The schema of a source without a user schema."""
    names = [name for name in SPARK_TYPES if include_headers or name != "headers"]
    return StructType([StructField(name, SPARK_TYPES[name], nullable=True) for name in names])
