"""Records of consumer groups (KIP-848) in ``__consumer_offsets``, in Apache Kafka's formats.

    key version   record of                                   key
    3             the group: its epoch                        group
    4             topics it is subscribed to, until Kafka 4.1 group
    5             a member: its metadata                      group, member
    6             the target assignment: its epoch            group
    7             the target assignment of a member           group, member
    8             a member: its epoch and assignment          group, member
    16            a regular expression and its topics         group, expression

All values have version 0. An `Entry` is a decoded record. Without a value it is a tombstone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from broker_embedded._records.coordinator_record import CoordinatorRecord, RecordKind, key_version
from spark_kafka_native._protocol.schema import Struct, field, struct
from spark_kafka_native._protocol.wire import ZERO_UUID, Bytes, Int8, Int32, Int64, String, Uuid


@struct
class ConsumerGroupMetadataKey(Struct):
    """Key version 3."""

    group_id: String = ""


@struct
class ConsumerGroupMetadataValue(Struct):
    """``metadata_hash`` is of the topics that the group is subscribed to (KIP-1101)."""

    epoch: Int32 = 0
    metadata_hash: Int64 = field("0+", default=0, tag=0)


@struct
class ConsumerGroupPartitionMetadataKey(Struct):
    """Key version 4, replaced by ``metadata_hash``. It is only read, and deleted."""

    group_id: String = ""


@struct
class PartitionRacks(Struct):
    """The racks that a partition is on."""

    partition: Int32 = 0
    racks: tuple[String, ...] = ()


@struct
class SubscribedTopic(Struct):
    """A topic that a group was subscribed to."""

    topic_id: Uuid = ZERO_UUID
    topic_name: String = ""
    num_partitions: Int32 = 0
    partition_metadata: tuple[PartitionRacks, ...] = ()


@struct
class ConsumerGroupPartitionMetadataValue(Struct):
    """All topics that a group was subscribed to. Only the existence of the record is used."""

    topics: tuple[SubscribedTopic, ...] = ()


@struct
class ConsumerGroupMemberMetadataKey(Struct):
    """Key version 5."""

    group_id: String = ""
    member_id: String = ""


@struct
class ClassicProtocolEntry(Struct):
    """One entry of ``supported_protocols``."""

    name: String = ""
    metadata: Bytes = b""


@struct
class ClassicMemberMetadata(Struct):
    """The JoinGroup of a member that uses the classic protocol."""

    session_timeout_ms: Int32 = 0
    supported_protocols: tuple[ClassicProtocolEntry, ...] = ()


@struct
class ConsumerGroupMemberMetadataValue(Struct):
    """The metadata of a member."""

    instance_id: String | None = None
    rack_id: String | None = None
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: tuple[String, ...] = ()
    subscribed_topic_regex: String | None = None
    rebalance_timeout_ms: Int32 = -1
    server_assignor: String | None = None
    # The default is Kafka's, an empty struct. Null, the value of nearly all members, is therefore always written.
    classic_member_metadata: ClassicMemberMetadata | None = field("0+", default=ClassicMemberMetadata(), tag=0)


@struct
class ConsumerGroupTargetAssignmentMetadataKey(Struct):
    """Key version 6."""

    group_id: String = ""


@struct
class ConsumerGroupTargetAssignmentMetadataValue(Struct):
    """``assignment_timestamp`` 0: the time is unknown (KIP-1263)."""

    assignment_epoch: Int32 = 0
    assignment_timestamp: Int64 = field("0+", default=0, tag=0, ignorable=True)


@struct
class ConsumerGroupTargetAssignmentMemberKey(Struct):
    """Key version 7."""

    group_id: String = ""
    member_id: String = ""


@struct
class TargetTopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: Uuid = ZERO_UUID
    partitions: tuple[Int32, ...] = ()


@struct
class ConsumerGroupTargetAssignmentMemberValue(Struct):
    """The target assignment of a member."""

    topic_partitions: tuple[TargetTopicPartitions, ...] = ()


@struct
class ConsumerGroupCurrentMemberAssignmentKey(Struct):
    """Key version 8."""

    group_id: String = ""
    member_id: String = ""


@struct
class CurrentTopicPartitions(Struct):
    """Partitions of one topic. ``assignment_epochs``, one for each, exist since Kafka 4.3."""

    topic_id: Uuid = ZERO_UUID
    partitions: tuple[Int32, ...] = ()
    assignment_epochs: tuple[Int32, ...] | None = field("0+", default=None, tag=0)


@struct
class ConsumerGroupCurrentMemberAssignmentValue(Struct):
    """The epoch, the state and the assignment of a member."""

    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    assigned_partitions: tuple[CurrentTopicPartitions, ...] = ()
    partitions_pending_revocation: tuple[CurrentTopicPartitions, ...] = ()


@struct
class ConsumerGroupRegularExpressionKey(Struct):
    """Key version 16."""

    group_id: String = ""
    regular_expression: String = ""


@struct
class ConsumerGroupRegularExpressionValue(Struct):
    """The topics that it matched, the version of the cluster's topics, and the time."""

    topics: tuple[String, ...] = ()
    version: Int64 = 0
    timestamp: Int64 = 0


Key: TypeAlias = (
    ConsumerGroupMetadataKey
    | ConsumerGroupPartitionMetadataKey
    | ConsumerGroupMemberMetadataKey
    | ConsumerGroupTargetAssignmentMetadataKey
    | ConsumerGroupTargetAssignmentMemberKey
    | ConsumerGroupCurrentMemberAssignmentKey
    | ConsumerGroupRegularExpressionKey
)
Value: TypeAlias = (
    ConsumerGroupMetadataValue
    | ConsumerGroupPartitionMetadataValue
    | ConsumerGroupMemberMetadataValue
    | ConsumerGroupTargetAssignmentMetadataValue
    | ConsumerGroupTargetAssignmentMemberValue
    | ConsumerGroupCurrentMemberAssignmentValue
    | ConsumerGroupRegularExpressionValue
)

_KINDS: Final[tuple[RecordKind[Key, Value], ...]] = (
    RecordKind(3, ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    RecordKind(4, ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
    RecordKind(5, ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    RecordKind(6, ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
    RecordKind(7, ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
    RecordKind(8, ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
    RecordKind(16, ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
)
CONSUMER_GROUP_RECORDS: Final[Mapping[int, RecordKind[Key, Value]]] = {kind.key_version: kind for kind in _KINDS}
_KIND_OF: Final[Mapping[type[Key], RecordKind[Key, Value]]] = {kind.key: kind for kind in _KINDS}

KEY_VERSIONS: Final = tuple(CONSUMER_GROUP_RECORDS)
"""The key versions of the records here."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One record of a consumer group. The value fits the key, or is None: a tombstone."""

    key: Key
    value: Value | None = None


def to_record(entry: Entry) -> CoordinatorRecord:
    """The record's bytes."""
    return _KIND_OF[type(entry.key)].write(entry.key, entry.value)


def read_entry(record: CoordinatorRecord) -> Entry:
    """The fields of a record whose key version is one of `KEY_VERSIONS`. Raises CorruptBatch."""
    return Entry(*CONSUMER_GROUP_RECORDS[key_version(record)].read(record))
