"""Avro values as others write them: by fastavro alone, in Confluent's wire format."""

import io
import struct
from typing import Any

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
NEW_FIELD = {"name": "note", "type": ["null", "string"], "default": None}
ORDER_V2 = {**ORDER, "fields": [*ORDER["fields"], NEW_FIELD]}


def avro(schema: Any, value: object) -> bytes:
    """A value as Avro, by fastavro alone."""
    from fastavro import parse_schema, schemaless_writer

    stream = io.BytesIO()
    schemaless_writer(stream, parse_schema(schema), value)
    return stream.getvalue()


def framed(schema_id: int, schema: Any, value: object) -> bytes:
    """A value in Confluent's format."""
    return struct.pack(">bI", 0, schema_id) + avro(schema, value)
