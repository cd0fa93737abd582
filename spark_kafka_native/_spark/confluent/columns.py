"""Confluent's header as plain Spark columns: no Python runs for a row, neither in batches nor in streams.

``events.select(schema_id("value"), payload("value"))``
"""

from typing import Final
from uuid import UUID

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_kafka_native._records.confluent_header import (
    GUID_HEADER_BYTES,
    GUID_MAGIC,
    ID_HEADER_BYTES,
    ID_MAGIC,
    MAX_SCHEMA_ID,
    SchemaRef,
    build_header,
)

ColumnOrName = Column | str

_GUID_GROUPS: Final = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))


def schema_id(column: ColumnOrName) -> Column:
    """The schema id in the header of a binary value: bigint, or null.

    >>> values = spark.sql("SELECT X'000000002A0261' AS value")
    >>> values.select(schema_id("value").alias("id")).show()
    +---+
    | id|
    +---+
    | 42|
    +---+
    <BLANKLINE>
    """
    value = as_column(column)
    number = F.conv(F.hex(F.substring(value, 2, 4)), 16, 10).cast("bigint")
    return F.when(_begins(value, ID_MAGIC, ID_HEADER_BYTES), number)


def schema_guid(column: ColumnOrName) -> Column:
    """The schema GUID in the header of a binary value: string, ``89791762-2336-4186-9674-299b90a802e2``, or null.

    >>> values = spark.sql("SELECT X'0189791762233641869674299B90A802E261' AS value")
    >>> values.select(schema_guid("value").alias("guid")).show(truncate=False)
    +------------------------------------+
    |guid                                |
    +------------------------------------+
    |89791762-2336-4186-9674-299b90a802e2|
    +------------------------------------+
    <BLANKLINE>
    """
    value = as_column(column)
    digits = F.lower(F.hex(F.substring(value, 2, 16)))
    text = F.concat_ws("-", *(F.substring(digits, start, length) for start, length in _GUID_GROUPS))
    return F.when(_begins(value, GUID_MAGIC, GUID_HEADER_BYTES), text)


def payload(column: ColumnOrName) -> Column:
    """The bytes after the header: binary; null if there is no header.

    >>> values = spark.sql("SELECT X'000000002A0261' AS value")
    >>> values.select(payload("value").alias("payload")).show()
    +-------+
    |payload|
    +-------+
    |[02 61]|
    +-------+
    <BLANKLINE>
    """
    value = as_column(column)
    with_id = F.when(_begins(value, ID_MAGIC, ID_HEADER_BYTES), F.substring(value, ID_HEADER_BYTES + 1, 2**31 - 1))
    return with_id.when(
        _begins(value, GUID_MAGIC, GUID_HEADER_BYTES), F.substring(value, GUID_HEADER_BYTES + 1, 2**31 - 1)
    )


def with_header(column: ColumnOrName, schema: SchemaRef) -> Column:
    """A header that names a schema by id or GUID, then the binary value: binary; null stays null.

    ``schema``: an int from 0 to 2147483647, or a ``uuid.UUID``. Raises ValueError for others.

    >>> spark.range(1).select(with_header(F.encode(F.lit("a"), "UTF-8"), 42).alias("value")).show()
    +-------------------+
    |              value|
    +-------------------+
    |[00 00 00 00 2A 61]|
    +-------------------+
    <BLANKLINE>
    """
    if not isinstance(schema, UUID) and not (type(schema) is int and 0 <= schema <= MAX_SCHEMA_ID):
        raise ValueError(f"schema {schema!r} is not a schema id from 0 to {MAX_SCHEMA_ID}, nor a uuid.UUID")
    return F.concat(F.lit(build_header(schema)), as_column(column))


def as_column(column: ColumnOrName) -> Column:
    """A column by name, or the column itself."""
    return F.col(column) if isinstance(column, str) else column


def _begins(value: Column, magic: bytes, least: int) -> Column:
    return (F.length(value) >= least) & (F.substring(value, 1, 1) == F.lit(magic))
