"""Deserializers, called decoders in Kafka 0.7: bytes of keys and values -> objects of users.

None stays None, as Java's deserializers get null only for tombstones, which most return as null.
"""

import struct
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from spark_kafka_native._client.config_def import ValueType, named_function
from spark_kafka_native._record_clients.errors import DeserializationError
from spark_kafka_native._record_clients.records import ConsumerRecord

Deserializer = Callable[[bytes], Any]
"""Called with anything but None, in the thread that iterates."""

_JAVA: Final = "org.apache.kafka.common.serialization."


def default_decoder(data: bytes) -> bytes:
    """Bytes as they are."""
    return data


def string_decoder(data: bytes) -> str:
    """UTF-8 as a str. Other bytes become U+FFFD, as in Java's ``new String(data, UTF_8)``."""
    return data.decode(errors="replace")


def _number(code: str) -> Deserializer:
    layout = struct.Struct(code)
    return lambda data: layout.unpack(data)[0]


def _boolean_decoder(data: bytes) -> bool:
    if data not in {b"\0", b"\1"}:
        raise ValueError(f"{data!r:.20} is not a boolean")
    return data == b"\1"


DESERIALIZERS: Final[dict[str, Deserializer]] = {
    "kafka.serializer.DefaultDecoder": default_decoder,
    "kafka.serializer.StringDecoder": string_decoder,
    f"{_JAVA}BooleanDeserializer": _boolean_decoder,
    f"{_JAVA}ByteArrayDeserializer": default_decoder,
    f"{_JAVA}DoubleDeserializer": _number(">d"),
    f"{_JAVA}FloatDeserializer": _number(">f"),
    f"{_JAVA}IntegerDeserializer": _number(">i"),
    f"{_JAVA}LongDeserializer": _number(">q"),
    f"{_JAVA}ShortDeserializer": _number(">h"),
    f"{_JAVA}StringDeserializer": string_decoder,
    f"{_JAVA}UUIDDeserializer": lambda data: UUID(data.decode()),
}
"""Kafka's own deserializers and decoders by the names of their classes."""


def deserializer() -> ValueType:
    """The type of properties that set a deserializer."""
    return named_function(DESERIALIZERS)


def deserialize(record: ConsumerRecord, key: Deserializer, value: Deserializer) -> ConsumerRecord:
    """The record with objects instead of bytes. Raises DeserializationError naming its position."""
    part = "key"
    try:
        decoded_key = None if record.key is None else key(record.key)
        part = "value"
        decoded_value = None if record.value is None else value(record.value)
    except Exception as error:  # a function of the user can raise anything
        raise DeserializationError(record, part, error) from error
    return record._replace(key=decoded_key, value=decoded_value)
