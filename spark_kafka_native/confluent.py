"""Values in Confluent's wire format as Spark columns: their header, and Avro with a schema registry.

``payload``, ``schema_guid``, ``schema_id`` and ``with_header`` are plain Spark expressions. ``decode_avro`` and
``encode_avro`` need the extra ``avro``, on the driver and on the workers. See docs/confluent.md.
"""

import importlib
from typing import TYPE_CHECKING

from spark_kafka_native._spark.confluent.columns import payload, schema_guid, schema_id, with_header
from spark_kafka_native._spark.confluent.errors import NoSuchSchema, RegistryError, SchemaError

if TYPE_CHECKING:
    from spark_kafka_native._spark.confluent.avro import decode_avro, encode_avro

__all__ = [
    "NoSuchSchema",
    "RegistryError",
    "SchemaError",
    "decode_avro",
    "encode_avro",
    "payload",
    "schema_guid",
    "schema_id",
    "with_header",
]


def __getattr__(name: str) -> object:
    """Import the module that needs the extra, at the first use (PEP 562)."""
    if name not in {"decode_avro", "encode_avro"}:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("spark_kafka_native._spark.confluent.avro"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
