"""OffsetCommit requests to a `BrokerDriver`."""

from typing import Any

from spark_kafka_native.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.support.broker.driver import BrokerDriver


def commit_offset(
    broker: BrokerDriver, offset: int, partition: int = 0, *, topic: str = "t", version: int = 8,
    group_id: str = "g", leader_epoch: int = -1, metadata: str = "", **fields: Any,
) -> int:  # fmt: skip
    """Commit an offset of one partition; the error code."""
    part = OffsetCommitRequestPartition(
        partition_index=partition,
        committed_offset=offset,
        committed_leader_epoch=leader_epoch,
        committed_metadata=metadata,
    )
    topics = (OffsetCommitRequestTopic(name=topic, partitions=(part,)),)
    response = broker.ask(OffsetCommitRequest(group_id=group_id, topics=topics, **fields), version)
    return response.topics[0].partitions[0].error_code
