"""Avro values as Spark columns: ``decode_avro`` and ``encode_avro``, for batches, streams and Spark Connect.

Both are Arrow UDFs: only their column goes through Python, in batches. The driver determines the schema of the result
when the column is made, and the whole query uses it. Values that were written with other schemas are converted by
Avro's rules of schema evolution.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]  # missing in its stub
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from spark_kafka_native._extras import install_hint
from spark_kafka_native._records.confluent_header import SchemaRef
from spark_kafka_native._spark.confluent.columns import ColumnOrName, as_column
from spark_kafka_native._spark.confluent.wire import ArrowArray, from_record_headers

try:
    from spark_kafka_native._spark.confluent.decoding import AvroDecoder, BadRows
    from spark_kafka_native._spark.confluent.encoding import AvroEncoder
    from spark_kafka_native._spark.confluent.registry import RegisteredSchema, Registry
    from spark_kafka_native._spark.confluent.schemas import SchemaJson, avro_schema
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        f"decode_avro and encode_avro need {install_hint(str(missing.name), 'avro')}", name=missing.name
    ) from missing

RegistryOrUrl = str | Mapping[str, Any] | Registry

VALUE_SCHEMA_ID = "__value_schema_id"
KEY_SCHEMA_ID = "__key_schema_id"
"""Record headers that name a schema by its GUID."""


def decode_avro(
    column: ColumnOrName,
    *,
    registry: RegistryOrUrl | None = None,
    schema: SchemaJson | None = None,
    subject: str | None = None,
    headers: ColumnOrName | None = None,
    header_name: str = VALUE_SCHEMA_ID,
    framed: bool = True,
    on_bad: str = "fail",
) -> Column:
    """Binary Avro -> the schema's type, mostly a struct; null stays null.

    ``registry``: ``http://host:8081``, or settings of Confluent's client. Each value is read with the schema that its
    header names, and converted to ``schema`` or, without it, to the newest version of ``subject`` at this moment.
    Without a registry all values must have been written with ``schema``. ``framed=False``: values have no header and
    were written with the schema of ``schema`` or ``subject``.

    ``headers``: a column of record headers (``includeHeaders``), one of which may name the schema instead.

    ``on_bad``: the result for a value that cannot be decoded: ``fail`` fails the task, ``null`` is null, and ``keep``
    makes the result struct<value, error>, with a null error for decoded values. An unavailable registry always fails
    the query.

    Raises, on the driver: ValueError for arguments that do not fit together, SchemaError for a schema without a Spark
    type, NoSuchSchema or RegistryError for a subject. In tasks, the text of an error names the row of its batch.

    >>> order = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    >>> values = spark.sql("SELECT X'54' AS value")
    >>> values.select(decode_avro("value", schema=order, framed=False).alias("order")).select("order.*").show()
    +---+
    | id|
    +---+
    | 42|
    +---+
    <BLANKLINE>
    """
    client = None if registry is None else Registry.at(registry)
    policy = _policy(on_bad)
    if not framed and headers is not None:
        raise ValueError("framed=False: values have no header, so that headers cannot name their schema")
    if schema is not None and subject is not None:
        raise ValueError("give schema or subject: values are converted to only one of them")
    if schema is None:
        found = _looked_up(client, subject, None)
        target = avro_schema(found.text, found.references)
    else:
        target = avro_schema(schema)
    decoder = AvroDecoder(schema=target, registry=client if framed else None, framed=framed, bad_rows=policy)
    columns = [column] if headers is None else [column, headers]
    function = _decode_udf(decoder) if headers is None else _decode_with_headers_udf(decoder, header_name)
    result = target.spark
    if policy is BadRows.KEEP:
        result = StructType([StructField("value", target.spark), StructField("error", StringType())])
    decoded: Column = arrow_udf(function, result)(*map(as_column, columns))
    return decoded


def encode_avro(
    column: ColumnOrName,
    *,
    registry: RegistryOrUrl | None = None,
    schema: SchemaJson | None = None,
    subject: str | None = None,
    schema_id: SchemaRef | None = None,
    framed: bool = True,
) -> Column:
    """A column, mostly a struct, -> a header that names the schema, then binary Avro; null stays null.

    ``schema`` with ``subject`` is registered there, if it is not yet, when the column is made, on the driver.
    ``subject`` alone means its newest version. ``schema_id``, an id or a GUID, names the schema in the header without
    registering it; the schema is looked up unless it is given. ``framed=False`` writes no header. Fields are matched by
    name. A field that the schema does not have is an error; a missing field has the schema's default.

    Raises as ``decode_avro`` does.

    >>> order = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    >>> rows = spark.sql("SELECT struct(42L AS id) AS order")
    >>> rows.select(encode_avro("order", schema=order, schema_id=7).alias("value")).show()
    +-------------------+
    |              value|
    +-------------------+
    |[00 00 00 00 07 54]|
    +-------------------+
    <BLANKLINE>
    """
    client = None if registry is None else Registry.at(registry)
    if framed and schema_id is None and (client is None or subject is None):
        raise ValueError("a header needs schema_id, or registry and subject; framed=False writes none")
    if not framed and schema_id is not None:
        raise ValueError("framed=False writes no header, so that schema_id has no effect")
    if schema is not None:
        target, ref = avro_schema(schema), schema_id
        if framed and ref is None and client is not None and subject is not None:
            ref = client.register(subject, schema if isinstance(schema, str) else json.dumps(schema))
    else:
        found = _looked_up(client, subject, schema_id)
        target, ref = avro_schema(found.text, found.references), found.schema_id if schema_id is None else schema_id
    encoder = AvroEncoder(schema=target, ref=ref if framed else None)
    encoded: Column = arrow_udf(_encode_udf(encoder), BinaryType())(as_column(column))
    return encoded


def _looked_up(registry: Registry | None, subject: str | None, schema_id: SchemaRef | None) -> RegisteredSchema:
    if registry is None or (subject is None and schema_id is None):
        raise ValueError("give schema, or registry and subject")
    if schema_id is not None:
        return registry.schema(schema_id)
    assert subject is not None
    return registry.latest(subject)


# Spark derives the kind of a UDF from its annotations, which have to be the plain classes.


def _decode_udf(decoder: AvroDecoder) -> Callable[..., ArrowArray]:
    def decode(values: pa.Array) -> pa.Array:  # type: ignore[type-arg]  # the plain class, for Spark
        return _result(decoder, values, None)  # type: ignore[no-any-return]  # ArrowArray is Any

    return decode


def _decode_with_headers_udf(decoder: AvroDecoder, header_name: str) -> Callable[..., ArrowArray]:
    def decode(values: pa.Array, headers: pa.Array) -> pa.Array:  # type: ignore[type-arg]  # the plain class, for Spark
        return _result(decoder, values, from_record_headers(headers, header_name))  # type: ignore[no-any-return]  # ArrowArray is Any

    return decode


def _encode_udf(encoder: AvroEncoder) -> Callable[..., ArrowArray]:
    def encode(values: pa.Array) -> pa.Array:  # type: ignore[type-arg]  # the plain class, for Spark
        return encoder.encode(values)  # type: ignore[no-any-return]  # ArrowArray is Any

    return encode


def _result(decoder: AvroDecoder, values: ArrowArray, in_headers: ArrowArray | None) -> ArrowArray:
    decoded = decoder.decode(values, in_headers)
    if decoder.bad_rows is not BadRows.KEEP:
        return decoded.values
    errors = pa.array([decoded.errors.get(row) for row in range(len(values))], pa.string())
    return pa.StructArray.from_arrays([decoded.values, errors], ["value", "error"])


def _policy(on_bad: str) -> BadRows:
    try:
        return BadRows(on_bad)
    except ValueError:
        raise ValueError(f"on_bad={on_bad!r} is not one of {', '.join(BadRows)}") from None
