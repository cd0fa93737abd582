"""Records of committed offsets in ``__consumer_offsets``, in Apache Kafka's format.

    key    =  int16 version | fields      versions 0 and 1: the offset a group committed for a partition
    value  =  int16 version | fields      versions 0 to 4; no value (a tombstone) deletes the key

Other key versions are records of groups themselves: 2 of classic ones (`classic.records`), 3 and up of consumer groups
(`consumer.records`).
"""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from broker_embedded._records.coordinator_record import CoordinatorRecord, RecordKind, key_version
from spark_kafka_native._protocol.schema import Struct, field, struct
from spark_kafka_native._protocol.wire import ZERO_UUID, Int32, Int64, String, Uuid

OFFSET_KEY_VERSIONS: Final = (0, 1)
_LATEST_VALUE_VERSION: Final = 4
_OLDEST_VALUE_VERSION: Final = 0
_EXPIRING_VALUE_VERSION: Final = 1
"""The only version with an expiry time (retention_time_ms of OffsetCommit before v5)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordVersions:
    """The versions of written values, by kind of record; those of Apache Kafka 4.3. All versions are read."""

    offset: int = _LATEST_VALUE_VERSION
    """The version of committed offsets without an expiry time."""
    classic_group: int = 3


LATEST_VERSIONS: Final = RecordVersions()


@struct
class OffsetCommitKey(Struct):
    """Group, topic and partition of a committed offset."""

    group: String = ""
    topic: String = ""
    partition: Int32 = 0


@struct
class OffsetCommitValue(Struct):
    """A committed offset. ``expire_timestamp`` is -1 if offsets.retention.minutes decides."""

    offset: Int64 = 0
    leader_epoch: Int32 = field("3+", default=-1, ignorable=True)
    metadata: String = ""
    commit_timestamp: Int64 = 0
    expire_timestamp: Int64 = field("1", default=-1, ignorable=True)
    topic_id: Uuid = field("4+", default=ZERO_UUID, tag=0, ignorable=True)

    def is_of(self, topic_id: UUID) -> bool:
        """Whether it was committed for the topic with this id. A commit without an id is for any topic of its name."""
        return self.topic_id in {ZERO_UUID, topic_id}


OFFSET_RECORDS: Final = RecordKind(1, OffsetCommitKey, OffsetCommitValue, _LATEST_VALUE_VERSION, flexible_since=4)


def offset_record(
    key: OffsetCommitKey, value: OffsetCommitValue | None, versions: RecordVersions = LATEST_VERSIONS
) -> CoordinatorRecord:
    """The record that sets, or with ``value=None`` deletes, a committed offset."""
    version = versions.offset
    if value is not None and value.expire_timestamp >= 0 and version != _OLDEST_VALUE_VERSION:
        version = _EXPIRING_VALUE_VERSION
    return OFFSET_RECORDS.write(key, value, version)


def read_offset_record(record: CoordinatorRecord) -> tuple[OffsetCommitKey, OffsetCommitValue | None] | None:
    """The key and the value of an offset record, or None for a record of another kind.

    Raises CorruptBatch: the bytes do not fit their version, or the version is unknown.
    """
    return OFFSET_RECORDS.read(record) if key_version(record) in OFFSET_KEY_VERSIONS else None
