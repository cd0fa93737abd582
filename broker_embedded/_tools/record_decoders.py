"""Keys and values of dumped records as text: strings, numbers, and the records of the coordinators' topics as JSON.

The JSON is that of Apache Kafka's generated ``JsonConverter`` classes: the names of the fields in the message schemas,
bytes as base64, ids as Kafka writes them. A tagged field is there only if its value is not the default.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias
from uuid import UUID

from broker_embedded._groups.classic.records import CLASSIC_GROUP_RECORDS
from broker_embedded._groups.consumer.records import CONSUMER_GROUP_RECORDS
from broker_embedded._groups.records import OFFSET_KEY_VERSIONS, OFFSET_RECORDS
from broker_embedded._records.coordinator_record import CoordinatorRecord, RecordKind, key_version, value_version
from broker_embedded._transactions.records import TRANSACTION_RECORDS
from spark_kafka_native._command_line.output import InvalidOption, ToolFailed
from spark_kafka_native._protocol.consumer_protocol import (
    CONSUMER_PROTOCOL,
    MalformedEmbedded,
    read_assignment,
    read_subscription,
    version_of,
)
from spark_kafka_native._protocol.ids import format_id
from spark_kafka_native._protocol.schema import Struct, fields_of
from spark_kafka_native._records.errors import CorruptBatch
from spark_kafka_native._records.record import LogRecord

Decoded: TypeAlias = tuple[str | None, str | None]
"""Key and value as text; None is not printed."""
Decoder: TypeAlias = Callable[[LogRecord], Decoded]
BytesDecoder: TypeAlias = Callable[[bytes], str]

STRING_DECODER: Final = "org.apache.kafka.tools.api.StringDecoder"
_DELETED: Final = "<DELETE>"
_GROUP_RECORDS: Final[Mapping[int, RecordKind[Any, Any]]] = {
    **dict.fromkeys(OFFSET_KEY_VERSIONS, OFFSET_RECORDS),
    CLASSIC_GROUP_RECORDS.key_version: CLASSIC_GROUP_RECORDS,
    **CONSUMER_GROUP_RECORDS,
}
_TRANSACTION_RECORDS: Final[Mapping[int, RecordKind[Any, Any]]] = {TRANSACTION_RECORDS.key_version: TRANSACTION_RECORDS}


def as_text(data: bytes) -> str:
    """UTF-8 bytes as text, with U+FFFD for malformed ones exactly where Java puts them."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        from spark_kafka_native._records.arrow.utf8 import repaired  # noqa: PLC0415  # few dumps need pyarrow

        return repaired(data).decode()


def plain_decoder(key_class: str, value_class: str) -> Decoder:
    """The decoder of keys and values by the names of Kafka's decoders. Raises InvalidOption naming the option."""
    of_key = _bytes_decoder("--key-decoder-class", key_class)
    of_value = _bytes_decoder("--value-decoder-class", value_class)

    def decode(message: LogRecord) -> Decoded:
        try:
            key = None if message.key is None else of_key(message.key)
            return key, None if message.value is None else of_value(message.value)
        except ValueError as error:
            raise ToolFailed(f"the record at offset {message.offset} cannot be decoded: {error}") from error

    return decode


def decode_group_record(message: LogRecord) -> Decoded:
    """A record of ``__consumer_offsets`` as JSON. Raises ToolFailed: it has no key."""
    return _decode(message, _GROUP_RECORDS)


def decode_transaction_record(message: LogRecord) -> Decoded:
    """A record of ``__transaction_state`` as JSON. Raises ToolFailed: it has no key."""
    return _decode(message, _TRANSACTION_RECORDS)


def as_json(value: Struct, version: int) -> dict[str, Any]:
    """The fields that ``version`` of a struct has, by the names of the message schema."""
    found = {}
    for spec in fields_of(type(value)):
        content = getattr(value, spec.name)
        if version in spec.versions and (spec.tag is None or content != spec.default):
            first, *others = spec.name.split("_")
            found[first + "".join(map(str.capitalize, others))] = _json_value(content, version)
    return found


def _json_value(content: object, version: int) -> object:
    if isinstance(content, Struct):
        return as_json(content, version)
    if isinstance(content, tuple):
        return [_json_value(item, version) for item in content]
    if isinstance(content, bytes | bytearray | memoryview):
        return b64encode(content).decode()
    return format_id(content) if isinstance(content, UUID) else content


def _decode(message: LogRecord, kinds: Mapping[int, RecordKind[Any, Any]]) -> Decoded:
    offset = message.offset
    if message.key is None:
        raise ToolFailed(f"the record at offset {offset} has no key, so that the decoder cannot read it")
    record = CoordinatorRecord(key=message.key, value=message.value)
    try:
        number = key_version(record)
        if number not in kinds:
            return f"Unknown record type {number} at offset {offset}, skipping.", None
        key, value = kinds[number].read(record)
        key_text = _to_json({"type": str(number), "data": as_json(key, number)})
        if message.value is None or value is None:
            return key_text, _DELETED
        version = value_version(message.value)
        fields = as_json(value, version)
    except CorruptBatch as error:
        return f"Error at offset {offset}, skipping. {error.detail}", None
    if number == CLASSIC_GROUP_RECORDS.key_version and value.protocol_type == CONSUMER_PROTOCOL:
        for member, shown in zip(value.members, fields["members"], strict=True):
            _open_embedded(shown, "subscription", member.subscription, read_subscription)
            _open_embedded(shown, "assignment", member.assignment, read_assignment)
    return key_text, _to_json({"version": str(version), "data": fields})


def _open_embedded(shown: dict[str, Any], name: str, raw: bytes, read: Callable[[bytes], Struct]) -> None:
    """Show the fields of a member's subscription or assignment. Malformed bytes stay base64."""
    try:
        shown[name] = as_json(read(raw), version_of(raw))
    except MalformedEmbedded:
        return


def _to_json(content: object) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def _bytes_decoder(option: str, class_name: str) -> BytesDecoder:
    if class_name not in _BYTES_DECODERS:
        known = ", ".join(_BYTES_DECODERS)
        raise InvalidOption(
            f"{option}: Java classes cannot be loaded, so {class_name!r} is refused; use one of {known}"
        )
    return _BYTES_DECODERS[class_name]


def _number_decoder(size: int) -> BytesDecoder:
    def decode(data: bytes) -> str:
        if len(data) < size:
            raise ValueError(f"{len(data)} bytes are too few for a number of {size} bytes")
        return str(int.from_bytes(data[:size], signed=True))

    return decode


_BYTES_DECODERS: Final[Mapping[str, BytesDecoder]] = {
    STRING_DECODER: as_text,
    "org.apache.kafka.tools.api.IntegerDecoder": _number_decoder(4),
    "org.apache.kafka.tools.api.LongDecoder": _number_decoder(8),
}
