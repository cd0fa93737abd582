"""Avro values as JSON, with a schema from the page. Runs in the worker process (`worker`).

A value of a few bytes may decode to more memory than the machine has, or overflow the stack of fastavro's compiled
code.
"""

import io
import json
from collections.abc import Mapping
from typing import Any, Final

from spark_kafka_native._extras import install_hint
from spark_kafka_native._records.confluent_header import header_size

_MAX_CHARS: Final = 100_000
"""Upper bound of the text of one value."""


class BadSchema(Exception):
    """The schema is not an Avro schema."""


class FastavroMissing(Exception):
    """fastavro is not installed."""


class AvroSchema:
    """A schema. ``is_framed``: values have the header of Confluent's wire format."""

    def __init__(self, text: str, *, is_framed: bool) -> None:
        """Raises BadSchema, FastavroMissing."""
        try:
            import fastavro  # noqa: PLC0415  # an extra
        except ModuleNotFoundError:
            raise FastavroMissing(f"decoding Avro needs {install_hint('fastavro', 'avro')}") from None
        self._read: Any = fastavro.schemaless_reader
        self._is_framed = is_framed
        try:
            self._schema = fastavro.parse_schema(json.loads(text))
        except Exception as error:  # fastavro raises exceptions of many types
            raise BadSchema(f"avro_schema: it is not an Avro schema: {_text(error)}") from error

    def decode(self, value: bytes) -> Mapping[str, str]:
        """``json``, the value, or ``problem``. Raises MemoryError."""
        try:
            text = self._decode(value)
        except MemoryError:
            raise
        except Exception as error:  # as above
            return {"problem": _text(error)}
        return {"json": text if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]}..."}

    def _decode(self, value: bytes) -> str:
        """The value as JSON. Raises ValueError: it is not of the schema; and what fastavro raises."""
        start = header_size(value) if self._is_framed else 0
        if self._is_framed and not start:
            raise ValueError("it has no header of Confluent's wire format")
        data = io.BytesIO(value)
        data.seek(start)
        decoded = self._read(data, self._schema, None)
        left = len(value) - data.tell()
        if left:
            raise ValueError(f"{left} bytes are left after a value of the schema")
        return json.dumps(decoded, indent=2, ensure_ascii=False, default=_as_text)


def _as_text(value: object) -> str:
    if not isinstance(value, bytes):
        return str(value)
    try:
        return value.decode()
    except UnicodeDecodeError:
        return f"0x{value.hex()}"


def _text(error: Exception) -> str:
    return (str(error) or type(error).__name__)[:500]
