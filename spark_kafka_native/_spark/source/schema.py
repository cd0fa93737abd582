"""The source's columns and their Spark types. `PyKafkaDataSource` lists them, with the types of a user schema.

All are nullable. A user schema may name any of the columns, in any order. Columns that it leaves out are not decoded;
Spark does not prune columns of a Python source otherwise. Keys and values have no numeric types, because Kafka does not
define their format; Spark's functions parse them. `layout` has the Arrow types.
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
