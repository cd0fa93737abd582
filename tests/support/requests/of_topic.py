"""Requests that name partitions of one topic, in one line each: partition 0, unless other partitions are given."""

from typing import Any

from spark_kafka_native.protocol.messages import add_partitions_to_txn as adding
from spark_kafka_native.protocol.messages import alter_replica_log_dirs as moving
from spark_kafka_native.protocol.messages import delete_records as deleting
from spark_kafka_native.protocol.messages import list_offsets as listing
from spark_kafka_native.protocol.messages import offset_commit as committing
from spark_kafka_native.protocol.messages import offset_delete as forgetting
from spark_kafka_native.protocol.messages import offset_fetch as fetching
from spark_kafka_native.protocol.messages import write_txn_markers as marking


def list_offsets(
    topic: str, timestamp: int, *partitions: int, epoch: int = -1, most: int = 1, **fields: Any
) -> listing.ListOffsetsRequest:
    """The offsets at a timestamp; ``epoch`` is the current leader epoch, ``most`` the number of offsets in v0."""
    parts = tuple(
        listing.ListOffsetsPartition(
            partition_index=index, timestamp=timestamp, current_leader_epoch=epoch, max_num_offsets=most
        )
        for index in partitions or (0,)
    )
    named = listing.ListOffsetsTopic(name=topic, partitions=parts)
    return listing.ListOffsetsRequest(topics=(named,), **{"replica_id": -1, **fields})


def delete_records(topic: str, offset: int, *partitions: int, timeout_ms: int = 1000) -> deleting.DeleteRecordsRequest:
    parts = tuple(deleting.DeleteRecordsPartition(partition_index=n, offset=offset) for n in partitions or (0,))
    named = deleting.DeleteRecordsTopic(name=topic, partitions=parts)
    return deleting.DeleteRecordsRequest(topics=(named,), timeout_ms=timeout_ms)


def alter_replica_log_dirs(path: str, topic: str, *partitions: int) -> moving.AlterReplicaLogDirsRequest:
    named = moving.AlterReplicaLogDirTopic(name=topic, partitions=partitions or (0,))
    return moving.AlterReplicaLogDirsRequest(dirs=(moving.AlterReplicaLogDir(path=path, topics=(named,)),))


def offset_commit(
    topic: str, offset: int, *partitions: int, group_id: str = "g", epoch: int = -1, metadata: str = "", **fields: Any
) -> committing.OffsetCommitRequest:
    parts = tuple(
        committing.OffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset, committed_leader_epoch=epoch, committed_metadata=metadata
        )
        for index in partitions or (0,)
    )
    named = committing.OffsetCommitRequestTopic(name=topic, partitions=parts)
    return committing.OffsetCommitRequest(group_id=group_id, topics=(named,), **fields)


def offset_fetch(
    topic: str, *partitions: int, version: int, group_id: str = "g", require_stable: bool = False, **member: Any
) -> fetching.OffsetFetchRequest:
    """In the form of the version; ``member`` has the id and the epoch of a member."""
    where: dict[str, Any] = {"name": topic, "partition_indexes": partitions or (0,)}
    if version < 8:
        old = (fetching.OffsetFetchRequestTopic(**where),)
        return fetching.OffsetFetchRequest(group_id=group_id, topics=old, require_stable=require_stable)
    new = (fetching.OffsetFetchRequestTopics(**where),)
    group = fetching.OffsetFetchRequestGroup(group_id=group_id, topics=new, **member)
    return fetching.OffsetFetchRequest(groups=(group,), require_stable=require_stable)


def offset_delete(
    *topics: str, group_id: str = "g", partitions: tuple[int, ...] = (0,)
) -> forgetting.OffsetDeleteRequest:
    """Of several topics, the same partitions of each."""
    parts = tuple(forgetting.OffsetDeleteRequestPartition(partition_index=index) for index in partitions)
    named = tuple(forgetting.OffsetDeleteRequestTopic(name=topic, partitions=parts) for topic in topics)
    return forgetting.OffsetDeleteRequest(group_id=group_id, topics=named)


def add_partitions_to_txn(
    topic: str, *partitions: int, version: int, **producer: Any
) -> adding.AddPartitionsToTxnRequest:
    """In the form of the version."""
    topics = (adding.AddPartitionsToTxnTopic(name=topic, partitions=partitions or (0,)),)
    if version >= 4:
        transaction = adding.AddPartitionsToTxnTransaction(topics=topics, **producer)
        return adding.AddPartitionsToTxnRequest(transactions=(transaction,))
    old = {f"v3_and_below_{name}": value for name, value in producer.items()}
    return adding.AddPartitionsToTxnRequest(v3_and_below_topics=topics, **old)


def write_txn_markers(topic: str, *partitions: int, **marker: Any) -> marking.WriteTxnMarkersRequest:
    """One marker."""
    topics = (marking.WritableTxnMarkerTopic(name=topic, partition_indexes=partitions or (0,)),)
    return marking.WriteTxnMarkersRequest(markers=(marking.WritableTxnMarker(topics=topics, **marker),))
