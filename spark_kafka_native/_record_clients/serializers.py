"""Serializers, called encoders in Kafka 0.7: objects of users -> bytes of keys and values.

None stays None, as Java's serializers are not called for null. Integers and floats are big-endian, as Java writes them.
"""

import struct
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from spark_kafka_native._client.config_def import ValueType, named_function
from spark_kafka_native._record_clients.errors import SerializationError

Serializer = Callable[[Any], bytes | None]
"""Called with anything but None, in the thread that sends."""

_BYTES: Final = (bytes, bytearray, memoryview)
_JAVA: Final = "org.apache.kafka.common.serialization."


def default_encoder(data: Any) -> bytes:
    """Bytes as they are. Raises TypeError for anything else."""
    if not isinstance(data, _BYTES):
        raise TypeError(f"{type(data).__name__} is not bytes, and no serializer is set")
    return bytes(data)


def string_encoder(data: Any) -> bytes:
    """A str as UTF-8. Raises TypeError for anything else."""
    if not isinstance(data, str):
        raise TypeError(f"{type(data).__name__} is not str")
    return data.encode()


def _uuid_encoder(data: Any) -> bytes:
    if not isinstance(data, UUID):
        raise TypeError(f"{type(data).__name__} is not UUID")
    return str(data).encode()


def _boolean_encoder(data: Any) -> bytes:
    if not isinstance(data, bool):
        raise TypeError(f"{type(data).__name__} is not bool")
    return b"\1" if data else b"\0"


SERIALIZERS: Final[dict[str, Serializer]] = {
    "kafka.serializer.DefaultEncoder": default_encoder,
    "kafka.serializer.StringEncoder": string_encoder,
    f"{_JAVA}BooleanSerializer": _boolean_encoder,
    f"{_JAVA}ByteArraySerializer": default_encoder,
    f"{_JAVA}DoubleSerializer": struct.Struct(">d").pack,
    f"{_JAVA}FloatSerializer": struct.Struct(">f").pack,
    f"{_JAVA}IntegerSerializer": struct.Struct(">i").pack,
    f"{_JAVA}LongSerializer": struct.Struct(">q").pack,
    f"{_JAVA}ShortSerializer": struct.Struct(">h").pack,
    f"{_JAVA}StringSerializer": string_encoder,
    f"{_JAVA}UUIDSerializer": _uuid_encoder,
}
"""Kafka's own serializers and encoders by the names of their classes."""


def serializer() -> ValueType:
    """The type of properties that set a serializer."""
    return named_function(SERIALIZERS)


def serialize(encode: Serializer, data: Any, topic: str, part: str) -> bytes | None:
    """The bytes of a key or a value (``part``). Raises SerializationError naming the topic."""
    if data is None:
        return None
    try:
        encoded = encode(data)
    except BaseException as error:  # a function of the user can raise anything, also SystemExit
        text = str(error) if isinstance(error, Exception) else repr(error)
        raise SerializationError(f"the {part} of a record for topic {topic} cannot be serialized: {text}") from error
    if encoded is not None and not isinstance(encoded, _BYTES):
        kind = type(encoded).__name__
        raise SerializationError(f"{part}.serializer returned {kind} for topic {topic}; it must return bytes or None")
    return bytes(encoded) if encoded is not None and not isinstance(encoded, bytes) else encoded
