"""OffsetCommit (8) v0-v10: store a group's offsets.

v0     in ZooKeeper, if the broker has ``zookeeper.connect``: neither metadata nor a group is stored
v1     in the log of ``__consumer_offsets``; generation and member; commit timestamp
v2-v4  retention time of the offsets
v6     leader epochs (KIP-320)
v7     static members (KIP-345)
v9     GROUP_ID_NOT_FOUND instead of ILLEGAL_GENERATION if a member names a group that does not exist
v10    topic ids

Members commit for their group. A client that is not a member (generation -1) may commit if the group has no members.
The response is sent once the commit is in the log of ``__consumer_offsets``, or in ZooKeeper.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from broker_embedded._coordinator.groups import Groups
from broker_embedded._coordinator.zookeeper_offsets import OffsetsInZooKeeper, OffsetStore
from broker_embedded._groups.offsets import GroupOffsets, OffsetCommit
from broker_embedded._handlers.support.registry import RequestContext, handles
from broker_embedded._metadata.image import TopicImage
from broker_embedded._metadata.topics import Topics
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from spark_kafka_native._protocol.topic import TopicPartition

_LOG_SINCE: Final = 1
_IDS_SINCE: Final = 10


@handles(OffsetCommitRequest, "0-10")
async def offset_commit(
    request: OffsetCommitRequest, context: RequestContext, groups: Groups, topics: Topics, zookeeper: OffsetsInZooKeeper
) -> OffsetCommitResponse:
    """Commit the offsets; an error code per partition."""
    by_id = context.version >= _IDS_SINCE
    image = topics.image
    found = [image.topic_by_id(topic.topic_id) if by_id else image.topic(topic.name) for topic in request.topics]
    wanted = list(zip(request.topics, found, strict=True))
    commits = [commit for topic, meant in wanted if meant is not None for commit in _commits(topic, meant)]
    in_zookeeper = zookeeper.offsets if context.version < _LOG_SINCE else None
    codes: Mapping[TopicPartition, ErrorCode] = {}
    try:
        if in_zookeeper is not None:
            codes = await _store(request.group_id, commits, groups.offsets, in_zookeeper)
        elif commits:
            codes = await groups.commit(request, commits, context.version)
    except KafkaError as error:
        codes = {commit.partition: error.code for commit in commits}
    unknown_topic = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return OffsetCommitResponse(topics=tuple(_response(topic, meant, codes, unknown_topic) for topic, meant in wanted))


def _commits(topic: OffsetCommitRequestTopic, meant: TopicImage) -> list[OffsetCommit]:
    """The commits to partitions that exist."""
    return [
        OffsetCommit(
            partition=TopicPartition(meant.name, part.partition_index),
            topic_id=meant.topic_id,
            offset=part.committed_offset,
            leader_epoch=part.committed_leader_epoch,
            metadata=part.committed_metadata or "",
            timestamp_ms=None if part.commit_timestamp < 0 else part.commit_timestamp,
        )
        for part in topic.partitions
        if meant.partition(part.partition_index) is not None
    ]


async def _store(
    group_id: str, commits: Iterable[OffsetCommit], limits: GroupOffsets, in_zookeeper: OffsetStore
) -> Mapping[TopicPartition, ErrorCode]:
    """Store commits in ZooKeeper; an error code per partition."""
    codes: dict[TopicPartition, ErrorCode] = {}
    offsets: dict[TopicPartition, int] = {}
    for commit in commits:
        if limits.is_too_large(commit.metadata):
            codes[commit.partition] = ErrorCode.OFFSET_METADATA_TOO_LARGE
        else:
            offsets[commit.partition] = commit.offset
    stored = await in_zookeeper.store(group_id, offsets)
    return codes | {each: ErrorCode.NONE if each in stored else ErrorCode.UNKNOWN_SERVER_ERROR for each in offsets}


def _response(
    topic: OffsetCommitRequestTopic,
    meant: TopicImage | None,
    codes: Mapping[TopicPartition, ErrorCode],
    unknown_topic: ErrorCode,
) -> OffsetCommitResponseTopic:
    def code(index: int) -> ErrorCode:
        if meant is None:
            return unknown_topic
        return codes.get(TopicPartition(meant.name, index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=tuple(
            OffsetCommitResponsePartition(partition_index=part.partition_index, error_code=code(part.partition_index))
            for part in topic.partitions
        ),
    )
