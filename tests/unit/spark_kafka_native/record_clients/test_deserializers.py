import struct
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from spark_kafka_native._record_clients.deserializers import (
    DESERIALIZERS,
    default_decoder,
    deserialize,
    deserializer,
)
from spark_kafka_native._record_clients.errors import DeserializationError
from spark_kafka_native._record_clients.records import ConsumerRecord

JAVA = "org.apache.kafka.common.serialization."
UUID_TEXT = "123e4567-e89b-12d3-a456-426614174000"


def record_of(key: bytes | None, value: bytes | None) -> ConsumerRecord:
    return ConsumerRecord("t", 3, 41, 1_700_000_000_000, False, key, value, ((("h", b"1"),)))


def decoded(name: str | Callable[..., Any], data: bytes) -> Any:
    return deserialize(record_of(None, data), default_decoder, deserializer().parse(name)).value


@pytest.mark.parametrize(
    ("name", "data", "value"),
    [
        (f"{JAVA}ByteArrayDeserializer", b"\x00\xff", b"\x00\xff"),
        (f"{JAVA}StringDeserializer", b"\xc3\xa4", "ä"),
        (f"{JAVA}StringDeserializer", b"", ""),
        (f"{JAVA}StringDeserializer", b"a\xffb\xe2\x82", "a\ufffdb\ufffd"),
        (f"{JAVA}IntegerDeserializer", b"\xff\xff\xff\xfe", -2),
        (f"{JAVA}ShortDeserializer", b"\x01\x02", 258),
        (f"{JAVA}LongDeserializer", b"\x80\0\0\0\0\0\0\0", -(2**63)),
        (f"{JAVA}DoubleDeserializer", struct.pack(">d", 1.5), 1.5),
        (f"{JAVA}FloatDeserializer", struct.pack(">f", 1.5), 1.5),
        (f"{JAVA}BooleanDeserializer", b"\1", True),
        (f"{JAVA}BooleanDeserializer", b"\0", False),
        (f"{JAVA}UUIDDeserializer", UUID_TEXT.encode(), UUID(UUID_TEXT)),
        ("kafka.serializer.DefaultDecoder", b"a", b"a"),
        ("kafka.serializer.StringDecoder", b"a\xff", "a\ufffd"),
    ],
)
def test_kafkas_deserializers_read_what_java_writes(name: str, data: bytes, value: Any) -> None:
    found = decoded(name, data)
    assert found == value
    assert type(found) is type(value)


def test_every_deserializer_of_kafka_has_an_example() -> None:
    examples = {f"{JAVA}{name}Deserializer" for name in ("ByteArray", "String", "Integer", "Short", "Long", "Double")}
    examples |= {f"{JAVA}{name}Deserializer" for name in ("Float", "Boolean", "UUID")}
    assert set(DESERIALIZERS) - examples == {"kafka.serializer.DefaultDecoder", "kafka.serializer.StringDecoder"}


@pytest.mark.parametrize("name", DESERIALIZERS)
def test_none_stays_none(name: str) -> None:
    found = deserialize(record_of(None, None), DESERIALIZERS[name], DESERIALIZERS[name])
    assert (found.key, found.value) == (None, None)


def test_only_the_key_and_the_value_change() -> None:
    record = record_of(b"1", b"2")
    assert deserialize(record, int, bytes.decode) == record._replace(key=1, value="2")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("IntegerDeserializer", b"\0\0\0"),
        ("IntegerDeserializer", b"\0" * 5),
        ("ShortDeserializer", b""),
        ("LongDeserializer", b"\0" * 4),
        ("DoubleDeserializer", b"\0" * 4),
        ("FloatDeserializer", b"\0" * 8),
        ("BooleanDeserializer", b"\2"),
        ("BooleanDeserializer", b""),
        ("UUIDDeserializer", b"no uuid"),
    ],
)
@pytest.mark.parametrize("part", ["key", "value"])
def test_data_of_another_type_is_an_error_that_names_the_record_and_its_part(name: str, data: bytes, part: str) -> None:
    record = record_of(data if part == "key" else None, data if part == "value" else None)
    found = DESERIALIZERS[f"{JAVA}{name}"]
    with pytest.raises(DeserializationError, match=f"^t-3, offset 41: the {part} cannot be deserialized: ") as raised:
        deserialize(record, found, found)
    assert raised.value.record is record
    assert raised.value.__cause__ is not None


def test_a_deserializer_can_be_a_function_or_its_name() -> None:
    assert decoded(int, b"7") == 7
    assert decoded("json:loads", b'{"a": [1]}') == {"a": [1]}


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        (
            "com.example.MyDeserializer",
            "'com.example.MyDeserializer' is neither a function, module:function nor a class",
        ),
        ("StringDeserializer", rf"; did you mean {JAVA}StringDeserializer\?$"),
        (f"{JAVA}StringDeserialiser", rf"; did you mean {JAVA}StringDeserializer\?$"),
        (5, "^5 is neither a function, module:function nor a class of Kafka's$"),
        ("json:nothing", "json:nothing cannot be used: module 'json' has no attribute 'nothing'"),
        ("no_such_module:loads", "No module named 'no_such_module'"),
        ("json:__name__", "is no function"),
        (None, "is neither a function"),
    ],
)
def test_a_deserializer_that_cannot_be_found_is_an_error(name: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        deserializer().parse(name)
