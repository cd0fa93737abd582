"""Requests that name partitions of one topic, in one line each: partition 0, unless other partitions are given."""

from typing import Any

from spark_kafka_native._protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from spark_kafka_native._protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from spark_kafka_native._protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from spark_kafka_native._protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from spark_kafka_native._protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from spark_kafka_native._protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from spark_kafka_native._protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from spark_kafka_native._protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)


def list_offsets(
    topic: str, timestamp: int, *partitions: int, epoch: int = -1, most: int = 1, **fields: Any
) -> ListOffsetsRequest:
    """The offsets at a timestamp; ``epoch`` is the current leader epoch, ``most`` the number of offsets in v0."""
    parts = tuple(
        ListOffsetsPartition(
            partition_index=index, timestamp=timestamp, current_leader_epoch=epoch, max_num_offsets=most
        )
        for index in partitions or (0,)
    )
    named = ListOffsetsTopic(name=topic, partitions=parts)
    return ListOffsetsRequest(topics=(named,), **{"replica_id": -1, **fields})


def delete_records(topic: str, offset: int, *partitions: int, timeout_ms: int = 1000) -> DeleteRecordsRequest:
    """Records before an offset."""
    parts = tuple(DeleteRecordsPartition(partition_index=n, offset=offset) for n in partitions or (0,))
    named = DeleteRecordsTopic(name=topic, partitions=parts)
    return DeleteRecordsRequest(topics=(named,), timeout_ms=timeout_ms)


def alter_replica_log_dirs(path: str, topic: str, *partitions: int) -> AlterReplicaLogDirsRequest:
    """Moving replicas to a data directory."""
    named = AlterReplicaLogDirTopic(name=topic, partitions=partitions or (0,))
    return AlterReplicaLogDirsRequest(dirs=(AlterReplicaLogDir(path=path, topics=(named,)),))


def offset_commit(
    topic: str, offset: int, *partitions: int, group_id: str = "g", epoch: int = -1, metadata: str = "", **fields: Any
) -> OffsetCommitRequest:
    """One offset for each partition, of a group without members unless other fields say more."""
    parts = tuple(
        OffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset, committed_leader_epoch=epoch, committed_metadata=metadata
        )
        for index in partitions or (0,)
    )
    named = OffsetCommitRequestTopic(name=topic, partitions=parts)
    return OffsetCommitRequest(group_id=group_id, topics=(named,), **fields)


def offset_fetch(
    topic: str, *partitions: int, version: int, group_id: str = "g", require_stable: bool = False, **member: Any
) -> OffsetFetchRequest:
    """In the form of the version; ``member`` has the id and the epoch of a member."""
    where: dict[str, Any] = {"name": topic, "partition_indexes": partitions or (0,)}
    if version < 8:
        old = (OffsetFetchRequestTopic(**where),)
        return OffsetFetchRequest(group_id=group_id, topics=old, require_stable=require_stable)
    new = (OffsetFetchRequestTopics(**where),)
    group = OffsetFetchRequestGroup(group_id=group_id, topics=new, **member)
    return OffsetFetchRequest(groups=(group,), require_stable=require_stable)


def offset_delete(*topics: str, group_id: str = "g", partitions: tuple[int, ...] = (0,)) -> OffsetDeleteRequest:
    """Of several topics, the same partitions of each."""
    parts = tuple(OffsetDeleteRequestPartition(partition_index=index) for index in partitions)
    named = tuple(OffsetDeleteRequestTopic(name=topic, partitions=parts) for topic in topics)
    return OffsetDeleteRequest(group_id=group_id, topics=named)


def add_partitions_to_txn(topic: str, *partitions: int, version: int, **producer: Any) -> AddPartitionsToTxnRequest:
    """In the form of the version."""
    topics = (AddPartitionsToTxnTopic(name=topic, partitions=partitions or (0,)),)
    if version >= 4:
        transaction = AddPartitionsToTxnTransaction(topics=topics, **producer)
        return AddPartitionsToTxnRequest(transactions=(transaction,))
    old = {f"v3_and_below_{name}": value for name, value in producer.items()}
    return AddPartitionsToTxnRequest(v3_and_below_topics=topics, **old)


def write_txn_markers(topic: str, *partitions: int, **marker: Any) -> WriteTxnMarkersRequest:
    """One marker."""
    topics = (WritableTxnMarkerTopic(name=topic, partition_indexes=partitions or (0,)),)
    return WriteTxnMarkersRequest(markers=(WritableTxnMarker(topics=topics, **marker),))
