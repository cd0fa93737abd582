import struct
from typing import Any
from uuid import UUID

import pytest

from spark_kafka_native._record_clients.errors import SerializationError
from spark_kafka_native._record_clients.serializers import SERIALIZERS, default_encoder, serialize, serializer

JAVA = "org.apache.kafka.common.serialization."
UUID_TEXT = "123e4567-e89b-12d3-a456-426614174000"


@pytest.mark.parametrize(
    ("name", "data", "encoded"),
    [
        (f"{JAVA}ByteArraySerializer", b"\x00\xff", b"\x00\xff"),
        (f"{JAVA}ByteArraySerializer", bytearray(b"ab"), b"ab"),
        (f"{JAVA}ByteArraySerializer", memoryview(b"ab"), b"ab"),
        (f"{JAVA}StringSerializer", "ä", b"\xc3\xa4"),
        (f"{JAVA}IntegerSerializer", -2, b"\xff\xff\xff\xfe"),
        (f"{JAVA}ShortSerializer", 258, b"\x01\x02"),
        (f"{JAVA}LongSerializer", 1, b"\0\0\0\0\0\0\0\1"),
        (f"{JAVA}DoubleSerializer", 1.5, struct.pack(">d", 1.5)),
        (f"{JAVA}FloatSerializer", 1.5, struct.pack(">f", 1.5)),
        (f"{JAVA}BooleanSerializer", True, b"\1"),
        (f"{JAVA}BooleanSerializer", False, b"\0"),
        (f"{JAVA}UUIDSerializer", UUID(UUID_TEXT), UUID_TEXT.encode()),
        ("kafka.serializer.DefaultEncoder", b"a", b"a"),
        ("kafka.serializer.StringEncoder", "a", b"a"),
    ],
)
def test_kafkas_serializers_write_what_java_writes(name: str, data: Any, encoded: bytes) -> None:
    found = serialize(serializer().parse(name), data, "t", "value")
    assert found == encoded
    assert type(found) is bytes


@pytest.mark.parametrize("name", SERIALIZERS)
def test_none_stays_none(name: str) -> None:
    assert serialize(SERIALIZERS[name], None, "t", "key") is None


@pytest.mark.parametrize("name", SERIALIZERS)
def test_data_of_another_type_is_an_error_that_names_the_topic(name: str) -> None:
    with pytest.raises(SerializationError, match=r"^the key of a record for topic t cannot be serialized: "):
        serialize(SERIALIZERS[name], object(), "t", "key")


def test_integers_out_of_bounds_are_an_error() -> None:
    with pytest.raises(SerializationError):
        serialize(SERIALIZERS[f"{JAVA}IntegerSerializer"], 2**31, "t", "value")


def test_a_serializer_can_be_a_function_or_its_name() -> None:
    assert serializer().parse(str.encode) is str.encode
    assert serializer().parse("json:dumps")({}) == "{}"


def test_what_a_serializer_returns_must_be_bytes_or_none() -> None:
    with pytest.raises(SerializationError, match=r"value\.serializer returned str for topic t; it must return bytes"):
        serialize(str.upper, "a", "t", "value")  # type: ignore[arg-type]  # it returns str
    assert serialize(lambda _: None, "a", "t", "value") is None


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        (
            "com.example.MySerializer",
            "is neither a function, module:function nor a class of Kafka's",
        ),
        ("json:nothing", "json:nothing cannot be used: module 'json' has no attribute 'nothing'"),
        ("no_such_module:dumps", "No module named 'no_such_module'"),
        ("json:__name__", "is no function"),
    ],
)
def test_a_serializer_that_cannot_be_found_is_an_error(name: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        serializer().parse(name)


def test_the_default_encoder_names_the_missing_serializer() -> None:
    with pytest.raises(TypeError, match="str is not bytes, and no serializer is set"):
        default_encoder("text")
