"""Records of ``__consumer_offsets``, byte for byte as Apache Kafka writes them, and the batches that carry them.

    key    =  int16 version | fields      versions 0 and 1: the offset a group committed for a partition
    value  =  int16 version | fields      versions 0 to 4; no value (a tombstone) deletes the key

Other key versions are records of groups themselves: 2 of classic ones (`classic.records`), 3 and up of consumer groups
(`consumer.records`).
"""

import struct as _struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from spark_kafka_native.protocol.codec import codec
from spark_kafka_native.protocol.errors import RemoteProtocolError
from spark_kafka_native.protocol.schema import Struct, field, struct
from spark_kafka_native.protocol.wire import ZERO_UUID, Buffer, Int32, Int64, Splices, String, Uuid
from spark_kafka_native.records.batch import BatchHeader
from spark_kafka_native.records.conversion import read_records, write_batch
from spark_kafka_native.records.errors import CorruptBatch
from spark_kafka_native.records.legacy import Message

OFFSET_KEY_VERSIONS: Final = (0, 1)
_OFFSET_KEY_VERSION: Final = 1
_LATEST_VALUE_VERSION: Final = 4
_OLDEST_VALUE_VERSION: Final = 0
_EXPIRING_VALUE_VERSION: Final = 1
"""The only version with an expiry time of its own (OffsetCommit before v5 could ask for one)."""
_FLEXIBLE_SINCE: Final = 4
_VERSION = _struct.Struct(">h")

StructT = TypeVar("StructT", bound=Struct)
KeyT = TypeVar("KeyT", bound=Struct)
ValueT = TypeVar("ValueT", bound=Struct)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordVersions:
    """The versions of values that are written, by kind of record; those of Apache Kafka 4.3. All are read."""

    offset: int = _LATEST_VALUE_VERSION
    """Of a committed offset that has no expiry time of its own."""
    classic_group: int = 3


LATEST_VERSIONS: Final = RecordVersions()


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorRecord:
    """A key and a value, or a tombstone for the key."""

    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True)
class RecordKind(Generic[KeyT, ValueT]):
    """Records of one key version: the structs of key and value. Values have the versions 0 to ``last_version``."""

    key: type[KeyT]
    value: type[ValueT]
    last_version: int = 0
    flexible_since: int = 0

    def read(self, record: CoordinatorRecord) -> tuple[KeyT, ValueT | None]:
        """Key and value; a tombstone has the value None. Raises CorruptBatch: malformed, or an unknown version."""
        key = decode_key(record, self.key)
        return key, decode_value(record, self.value, 0, self.last_version, flexible_from=self.flexible_since)


@struct
class OffsetCommitKey(Struct):
    """Whose position it is, and where."""

    group: String = ""
    topic: String = ""
    partition: Int32 = 0


@struct
class OffsetCommitValue(Struct):
    """A position: the next offset to read. ``expire_timestamp`` -1 leaves expiry to offsets.retention.minutes."""

    offset: Int64 = 0
    leader_epoch: Int32 = field("3+", default=-1, ignorable=True)
    metadata: String = ""
    commit_timestamp: Int64 = 0
    expire_timestamp: Int64 = field("1", default=-1, ignorable=True)
    topic_id: Uuid = field("4+", default=ZERO_UUID, tag=0, ignorable=True)


OFFSET_RECORDS: Final = RecordKind(OffsetCommitKey, OffsetCommitValue, _LATEST_VALUE_VERSION, _FLEXIBLE_SINCE)


def offset_record(
    key: OffsetCommitKey, value: OffsetCommitValue | None, versions: RecordVersions = LATEST_VERSIONS
) -> CoordinatorRecord:
    """The record that sets, or with ``value=None`` removes, a group's position."""
    version = versions.offset
    if value is not None and value.expire_timestamp >= 0 and version != _OLDEST_VALUE_VERSION:
        version = _EXPIRING_VALUE_VERSION
    return encode_record(key, _OFFSET_KEY_VERSION, value, version, flexible=version >= _FLEXIBLE_SINCE)


def read_offset_record(record: CoordinatorRecord) -> tuple[OffsetCommitKey, OffsetCommitValue | None] | None:
    """What an offset record says, or None when it is a record of another kind.

    Raises CorruptBatch: the bytes are not what their version says, or the value's version is not known here.
    """
    return OFFSET_RECORDS.read(record) if key_version(record) in OFFSET_KEY_VERSIONS else None


# --- records of every kind -------------------------------------------------------------------------------------------


def encode_record(
    key: Struct, key_version: int, value: Struct | None, value_version: int, *, flexible: bool
) -> CoordinatorRecord:
    """A record of a key and a value, or a tombstone; ``flexible`` says whether values of this version are (KIP-482)."""
    return CoordinatorRecord(
        key=_encode(key, key_version, flexible=False),
        value=None if value is None else _encode(value, value_version, flexible=flexible),
    )


def key_version(record: CoordinatorRecord) -> int:
    """The version of a record's key, which says what kind it is of. Raises CorruptBatch: it has none."""
    return _version(record.key, "the key")


def value_version(value: bytes) -> int:
    """The version of a record's value. Raises CorruptBatch: it has none."""
    return _version(value, "the value")


def decode_key(record: CoordinatorRecord, cls: type[StructT]) -> StructT:
    """The key, which is known to be of this class. Raises CorruptBatch."""
    return _decode(cls, record.key, key_version(record), flexible=False)


def decode_value(
    record: CoordinatorRecord, cls: type[StructT], first: int, last: int, *, flexible_from: int
) -> StructT | None:
    """The value, or None of a tombstone. Raises CorruptBatch: malformed, or its version is not in ``first..last``."""
    if record.value is None:
        return None
    version = _version(record.value, cls.__name__)
    if not first <= version <= last:
        raise CorruptBatch(f"{cls.__name__} of the unknown version {version}")
    return _decode(cls, record.value, version, flexible=version >= flexible_from)


def _version(raw: bytes, what: str) -> int:
    if len(raw) < _VERSION.size:
        raise CorruptBatch(f"malformed record: {what} has {len(raw)} bytes, too few for its version")
    version: int = _VERSION.unpack_from(raw)[0]
    return version


def _encode(value: Struct, version: int, *, flexible: bool) -> bytes:
    out = bytearray(_VERSION.pack(version))
    codec(type(value), version, flexible)[0](value, out, Splices())
    return bytes(out)


def _decode(cls: type[StructT], raw: bytes, version: int, *, flexible: bool) -> StructT:
    try:
        value, _ = codec(cls, version, flexible)[1](memoryview(raw), _VERSION.size)
    except (_struct.error, RemoteProtocolError) as error:
        raise CorruptBatch(f"malformed record, {cls.__name__}: {error}") from error
    assert isinstance(value, cls)
    return value


# --- batches ---------------------------------------------------------------------------------------------------------


def encode_batch(records: Sequence[CoordinatorRecord], timestamp_ms: int) -> bytearray:
    """One uncompressed batch of ``records``, all with the same time. There must be at least one."""
    messages = [Message(index, timestamp_ms, record.key, record.value) for index, record in enumerate(records)]
    return write_batch(messages, base_offset=0)


def decode_batch(buffer: Buffer, position: int, header: BatchHeader) -> Iterator[CoordinatorRecord]:
    """The records of one whole batch of any format, none if it is a control batch. Raises CorruptBatch."""
    if header.is_control:
        return
    for message in read_records(memoryview(buffer), position, header):
        yield CoordinatorRecord(key=message.key or b"", value=message.value)
