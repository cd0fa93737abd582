"""Records of classic groups, in Apache Kafka's format.

key    =  int16 2 | group id
value  =  int16 version | fields      versions 0 to 4; releases have written 0 to 3; a tombstone deletes the group
"""

from typing import Final

from broker_embedded._groups.records import LATEST_VERSIONS, RecordVersions
from broker_embedded._records.coordinator_record import CoordinatorRecord, RecordKind
from spark_kafka_native._protocol.schema import Struct, field, struct
from spark_kafka_native._protocol.wire import Bytes, Int32, Int64, String


@struct
class GroupMetadataKey(Struct):
    """The group id."""

    group: String = ""


@struct
class MemberMetadata(Struct):
    """One entry of ``members``."""

    member_id: String = ""
    group_instance_id: String | None = field("3+", default=None, ignorable=True)
    client_id: String = ""
    client_host: String = ""
    rebalance_timeout: Int32 = field("1+", default=-1, ignorable=True)
    session_timeout: Int32 = 0
    subscription: Bytes = b""
    assignment: Bytes = b""


@struct
class GroupMetadataValue(Struct):
    """A group between two rebalances: stable with these members, or empty."""

    protocol_type: String = ""
    generation: Int32 = 0
    protocol: String | None = None
    leader: String | None = None
    current_state_timestamp: Int64 = field("2+", default=-1, ignorable=True)
    members: tuple[MemberMetadata, ...] = ()


CLASSIC_GROUP_RECORDS: Final = RecordKind(2, GroupMetadataKey, GroupMetadataValue, last_version=4, flexible_since=4)


def group_record(
    group_id: str, value: GroupMetadataValue, versions: RecordVersions = LATEST_VERSIONS
) -> CoordinatorRecord:
    """The record of a group."""
    return CLASSIC_GROUP_RECORDS.write(GroupMetadataKey(group=group_id), value, versions.classic_group)


def new_group_record(group_id: str, now_ms: int, versions: RecordVersions = LATEST_VERSIONS) -> CoordinatorRecord:
    """The record of a new group without a generation."""
    return group_record(group_id, GroupMetadataValue(current_state_timestamp=now_ms), versions)


def group_tombstone(group_id: str) -> CoordinatorRecord:
    """The record that deletes a group."""
    return CLASSIC_GROUP_RECORDS.write(GroupMetadataKey(group=group_id), None)


def read_group_record(record: CoordinatorRecord) -> tuple[str, GroupMetadataValue | None]:
    """The group's id and its value, None for a tombstone. Raises CorruptBatch: the bytes are not such a record."""
    key, value = CLASSIC_GROUP_RECORDS.read(record)
    return key.group, value
