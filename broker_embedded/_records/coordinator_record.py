"""Records of a coordinator's log in Apache Kafka's format, and batches of them.

key    =  int16 version | fields      the version is the kind of the record
value  =  int16 version | fields      no value (a tombstone) deletes the key
"""

import struct as _struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from spark_kafka_native._protocol.codec import decoder, encoder
from spark_kafka_native._protocol.errors import RemoteProtocolError
from spark_kafka_native._protocol.schema import Struct
from spark_kafka_native._protocol.wire import Splices
from spark_kafka_native._records.conversion import write_batch
from spark_kafka_native._records.errors import CorruptBatch
from spark_kafka_native._records.record import LogRecord

_VERSION: Final = _struct.Struct(">h")

StructT = TypeVar("StructT", bound=Struct)
KeyT = TypeVar("KeyT", bound=Struct)
ValueT = TypeVar("ValueT", bound=Struct)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorRecord:
    """A key and a value, or a tombstone for the key."""

    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True)
class RecordKind(Generic[KeyT, ValueT]):
    """Records of one kind: the version of written keys, and the structs of key and value.

    Values have the versions 0 to ``last_version``, and are flexible (KIP-482) from ``flexible_since`` on.
    """

    key_version: int
    key: type[KeyT]
    value: type[ValueT]
    last_version: int = 0
    flexible_since: int = 0

    def write(self, key: KeyT, value: ValueT | None, value_version: int = 0) -> CoordinatorRecord:
        """A record of a key and a value, or a tombstone."""
        return CoordinatorRecord(
            key=_encode(key, self.key_version, flexible=False),
            value=None if value is None else _encode(value, value_version, flexible=self._is_flexible(value_version)),
        )

    def read_key(self, record: CoordinatorRecord) -> KeyT:
        """The key, which must be of this kind. Raises CorruptBatch: malformed."""
        return _decode(self.key, record.key, key_version(record), flexible=False)

    def read(self, record: CoordinatorRecord) -> tuple[KeyT, ValueT | None]:
        """Key and value; a tombstone has the value None. Raises CorruptBatch: malformed, or an unknown version."""
        key = self.read_key(record)
        if record.value is None:
            return key, None
        version = _version(record.value, self.value.__name__)
        if not 0 <= version <= self.last_version:
            raise CorruptBatch(f"{self.value.__name__} of the unknown version {version}")
        return key, _decode(self.value, record.value, version, flexible=self._is_flexible(version))

    def _is_flexible(self, value_version: int) -> bool:
        return value_version >= self.flexible_since


def key_version(record: CoordinatorRecord) -> int:
    """The version of a record's key, which is the kind of the record. Raises CorruptBatch: it has none."""
    return _version(record.key, "the key")


def value_version(value: bytes) -> int:
    """The version of a record's value. Raises CorruptBatch: it has none."""
    return _version(value, "the value")


def _version(raw: bytes, what: str) -> int:
    if len(raw) < _VERSION.size:
        raise CorruptBatch(f"malformed record: {what} has {len(raw)} bytes, too few for its version")
    version: int = _VERSION.unpack_from(raw)[0]
    return version


def _encode(value: Struct, version: int, *, flexible: bool) -> bytes:
    out = bytearray(_VERSION.pack(version))
    encoder(type(value), version, flexible)(value, out, Splices())
    return bytes(out)


def _decode(cls: type[StructT], raw: bytes, version: int, *, flexible: bool) -> StructT:
    try:
        value, _ = decoder(cls, version, flexible)(memoryview(raw), _VERSION.size)
    except (_struct.error, RemoteProtocolError) as error:
        raise CorruptBatch(f"malformed record, {cls.__name__}: {error}") from error
    assert isinstance(value, cls)
    return value


def encode_batch(records: Sequence[CoordinatorRecord], timestamp_ms: int) -> bytearray:
    """One uncompressed batch of ``records``, which must not be empty, with one timestamp."""
    messages = [LogRecord(index, timestamp_ms, record.key, record.value) for index, record in enumerate(records)]
    return write_batch(messages, base_offset=0)
