"""Our codecs against kafka-python's, which are generated from Kafka's own definitions: same values, same bytes.

Both directions: what we encode is what they encode, each reads the other's bytes, and the frames' headers agree.
"""

import struct
import types
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from spark_kafka_native._protocol.codec import decode, encode
from spark_kafka_native._protocol.framing import decode_request_header, decode_response, request_frame, response_frame
from spark_kafka_native._protocol.messages import all_requests
from spark_kafka_native._protocol.schema import FieldSpec, Request, Response, Struct, fields_of
from tests.support.records.message_strategies import messages

pytest.importorskip("kafka.protocol.api_message", reason="kafka-python 3 is not installed")

from kafka.protocol import admin, consumer, metadata, producer
from kafka.protocol.api_header import ResponseClassRegistry
from kafka.protocol.api_message import ApiMessage

Message = type[Request[Any]] | type[Response]

OTHER_NAMES = {"enable2pc": "enable2_pc"}
"""Fields with another name in kafka-python."""


def _patched_classes() -> dict[str, Any]:
    """The classes that kafka-python's clients use: they know which headers their messages have."""
    modules = (admin, consumer, metadata, producer)
    return {name: getattr(module, name) for module in modules for name in module.__all__}


def _plain_classes(names: list[str]) -> dict[str, Any]:
    """Classes for the same messages, made from the definitions alone.

    Those that the clients use have a few fields renamed and given other Python types. Making a class registers it for
    all clients of the process; that is undone.
    """
    registry = ResponseClassRegistry._response_class_registry
    before = dict(registry)
    try:
        return {name: types.new_class(name, (ApiMessage,)) for name in names}
    finally:
        registry.clear()
        registry.update(before)


PATCHED = _patched_classes()
PLAIN = _plain_classes(
    [
        message.__name__
        for request in all_requests().values()
        for message in (request, request.response)
        if message.__name__ in PATCHED
    ]
)

VERSIONED: list[tuple[Message, int]] = [
    (message, version)
    for request in all_requests().values()
    for message in (request, request.response)
    if message.__name__ in PLAIN
    for version in range(message.min_version, message.max_version + 1)
]
IDS = [f"{message.__name__}-v{version}" for message, version in VERSIONED]

EXAMPLES = settings(max_examples=5, suppress_health_check=list(HealthCheck))


def _their_fields(value: Struct, struct: Any, version: int) -> dict[str, Any]:
    """The arguments that make kafka-python's counterpart of `value`; tagged fields only where not the default."""
    arguments = {}
    for spec in fields_of(type(value)):
        mine = getattr(value, spec.name)
        if version in spec.versions and (spec.tag is None or mine != spec.default):
            name = OTHER_NAMES.get(spec.name, spec.name)
            arguments[name] = _their_value(mine, spec, struct.fields[name], version)
    return arguments


def _their_value(mine: Any, spec: FieldSpec, field: Any, version: int) -> Any:
    if mine is None or (spec.struct is None and not spec.is_array):
        return mine
    if spec.struct is None:
        return list(mine)
    if spec.is_array:
        return [field.data_class(version=version, **_their_fields(item, field, version)) for item in mine]
    return field.data_class(version=version, **_their_fields(mine, field, version))


def _our_message(theirs: Any, cls: type[Any], version: int) -> Any:
    arguments = {}
    for spec in fields_of(cls):
        if version in spec.versions:
            value = getattr(theirs, OTHER_NAMES.get(spec.name, spec.name), None)
            # An absent tagged struct is null over there and has its defaults here.
            arguments[spec.name] = (
                spec.default if value is None and spec.tag is not None else _our_value(value, spec, version)
            )
    return cls(**arguments)


def _our_value(value: Any, spec: FieldSpec, version: int) -> Any:
    if value is None:
        return None
    if spec.struct is not None:
        struct = spec.struct
        return (
            tuple(_our_message(item, struct, version) for item in value)
            if spec.is_array
            else _our_message(value, struct, version)
        )
    if spec.is_array:
        return tuple(value)
    return bytes(value) if spec.primitive in {"bytes", "records"} else value


def _joined(chunks: list[Any]) -> bytes:
    return b"".join(map(bytes, chunks))


@pytest.mark.parametrize(("message", "version"), VERSIONED, ids=IDS)
def test_messages_have_the_bytes_of_kafka_python(message: Message, version: int) -> None:
    their_class = PLAIN[message.__name__]

    @EXAMPLES
    @given(messages(message, version))
    def check(value: Any) -> None:
        raw = _joined(encode(value, version))
        theirs = their_class(version=version, **_their_fields(value, their_class._struct, version))
        assert bytes(theirs.encode(version=version)) == raw
        assert _our_message(their_class.decode(raw, version=version), message, version) == value
        assert decode(message, bytes(theirs.encode(version=version)), version) == value

    check()


@pytest.mark.parametrize(("message", "version"), VERSIONED, ids=IDS)
def test_request_headers_have_the_bytes_of_kafka_python(message: Message, version: int) -> None:
    their_class = PATCHED[message.__name__]
    flexible = their_class.flexible_version_q(version)
    value = message()
    body = _joined(encode(value, version))

    for correlation_id, client_id in ((0, None), (1, ""), (2**31 - 1, "a client \u00e9\u20ac")):
        theirs = their_class(version=version)
        if isinstance(value, Request):
            theirs.with_header(correlation_id=correlation_id, client_id=client_id)
            frame = _joined(request_frame(value, version, correlation_id, client_id))
            header = decode_request_header(frame[4:])
            assert (header.api_key, header.api_version) == (message.api_key, version)
            assert (header.correlation_id, header.client_id) == (correlation_id, client_id)
            assert header.body == body
        else:
            theirs.with_header(correlation_id=correlation_id)
            frame = _joined(response_frame(value, version, correlation_id))
            assert decode_response(type(value), version, frame[4:]) == (correlation_id, value)
        rest = theirs.encode_header(flexible=flexible) + body
        assert frame == struct.pack(">i", len(rest)) + rest
