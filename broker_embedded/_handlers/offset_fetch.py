"""OffsetFetch (9) v0-v10: a group's committed offsets.

v0   from ZooKeeper, if the broker has ``zookeeper.connect``; a partition without a commit has the error
     UNKNOWN_TOPIC_OR_PARTITION
v1   from the log of ``__consumer_offsets``
v2   null requests all topics; top-level error
v5   leader epochs (KIP-320)
v7   require_stable (KIP-447): UNSTABLE_OFFSET_COMMIT if a transaction has a pending commit
v8   several groups (KIP-709)
v9   member id and epoch, which the new group protocol (KIP-848) checks
v10  topic ids

Partitions without a commit and unknown groups have offset -1 and no error. Repeated groups and partitions are answered
once.
"""

from typing import Final, NamedTuple
from uuid import UUID

from broker_embedded._coordinator.groups import Groups
from broker_embedded._coordinator.zookeeper_offsets import OffsetsInZooKeeper, OffsetStore
from broker_embedded._groups.offsets import GroupOffsets
from broker_embedded._groups.records import OffsetCommitValue
from broker_embedded._handlers.support.registry import RequestContext, handles
from broker_embedded._handlers.support.responses import merge_repeated
from broker_embedded._metadata.image import ClusterImage
from broker_embedded._metadata.topics import Topics
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._protocol.wire import ZERO_UUID

_ABSENCE_SINCE: Final = 1
_GROUP_ERROR_SINCE: Final = 2
_GROUPS_SINCE: Final = 8
_IDS_SINCE: Final = 10


@handles(OffsetFetchRequest, "0-10")
async def offset_fetch(
    request: OffsetFetchRequest, context: RequestContext, groups: Groups, topics: Topics, zookeeper: OffsetsInZooKeeper
) -> OffsetFetchResponse:
    """The offsets of one group, or from v8 on of several."""
    if context.version >= _GROUPS_SINCE:
        distinct = merge_repeated(request.groups, lambda group: group.group_id, joined="topics")
        found = [await _group(group, context.version, request.require_stable, groups, topics) for group in distinct]
        return OffsetFetchResponse(groups=tuple(found))
    if context.version < _ABSENCE_SINCE and zookeeper.offsets is not None:
        return await _from_zookeeper(request, topics.image, zookeeper.offsets)
    only = await _group(_new_form(request), context.version, request.require_stable, groups, topics)
    return _old_form(only, context.version)


async def _from_zookeeper(
    request: OffsetFetchRequest, image: ClusterImage, zookeeper: OffsetStore
) -> OffsetFetchResponse:
    """The response of v0. Partitions that do not exist are not looked up."""
    topics = merge_repeated(request.topics or (), lambda topic: topic.name, joined="partition_indexes")
    existing = {
        TopicPartition(topic.name, index)
        for topic in topics
        if (meant := image.topic(topic.name)) is not None
        for index in topic.partition_indexes
        if meant.partition(index) is not None
    }
    read = await zookeeper.read(request.group_id, existing)

    def response(partition: TopicPartition) -> OffsetFetchResponsePartition:
        offset, code = read.get(partition), ErrorCode.NONE
        if offset is None:
            has_failed = partition in existing and partition not in read
            code = ErrorCode.UNKNOWN_SERVER_ERROR if has_failed else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return OffsetFetchResponsePartition(
            partition_index=partition.partition, committed_offset=-1 if offset is None else offset, error_code=code
        )

    return OffsetFetchResponse(
        topics=tuple(
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=tuple(response(TopicPartition(topic.name, index)) for index in topic.partition_indexes),
            )
            for topic in topics
        )
    )


async def _group(
    wanted: OffsetFetchRequestGroup, version: int, require_stable: bool, groups: Groups, topics: Topics
) -> OffsetFetchResponseGroup:
    try:
        await groups.check_fetch(wanted.group_id, wanted.member_id, wanted.member_epoch)
    except KafkaError as error:
        asked = wanted.topics or () if version < _GROUP_ERROR_SINCE else ()
        return OffsetFetchResponseGroup(
            group_id=wanted.group_id, error_code=error.code, topics=tuple(map(_unknown, asked))
        )
    by_id, image = version >= _IDS_SINCE, topics.image
    positions = _Offsets(groups.offsets, wanted.group_id, require_stable)
    if wanted.topics is None:
        found = _all_topics(image, positions, by_id)
    else:
        distinct = merge_repeated(wanted.topics, lambda topic: (topic.name, topic.topic_id), joined="partition_indexes")
        found = [_topic(image, positions, topic, by_id) for topic in distinct]
    return OffsetFetchResponseGroup(group_id=wanted.group_id, topics=tuple(found))


class _Offsets(NamedTuple):
    """The committed offsets of a group, stable ones if ``require_stable``."""

    offsets: GroupOffsets
    group_id: str
    require_stable: bool

    def of(self, partition: TopicPartition, topic_id: UUID) -> OffsetFetchResponsePartitions:
        """The committed offset of a partition that exists, or existed."""
        if self.require_stable and self.offsets.is_unstable(self.group_id, partition, topic_id):
            return _partition(partition.partition, None, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        value = self.offsets.committed(self.group_id, partition, topic_id)
        return _partition(partition.partition, value, ErrorCode.NONE)


def _topic(
    image: ClusterImage, positions: _Offsets, wanted: OffsetFetchRequestTopics, by_id: bool
) -> OffsetFetchResponseTopics:
    meant = image.topic_by_id(wanted.topic_id) if by_id else image.topic(wanted.name)
    name = meant.name if meant else wanted.name
    topic_id = meant.topic_id if meant else ZERO_UUID
    if by_id and meant is None:
        parts = [_partition(index, None, ErrorCode.UNKNOWN_TOPIC_ID) for index in wanted.partition_indexes]
    else:
        parts = [positions.of(TopicPartition(name, index), topic_id) for index in wanted.partition_indexes]
    return OffsetFetchResponseTopics(name=wanted.name, topic_id=wanted.topic_id, partitions=tuple(parts))


def _unknown(wanted: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    parts = tuple(_partition(index, None, ErrorCode.NONE) for index in wanted.partition_indexes)
    return OffsetFetchResponseTopics(name=wanted.name, partitions=parts)


def _all_topics(image: ClusterImage, positions: _Offsets, by_id: bool) -> list[OffsetFetchResponseTopics]:
    by_topic: dict[str, list[OffsetFetchResponsePartitions]] = {}
    for partition, value in positions.offsets.all_committed(positions.group_id).items():
        topic_id = image.topic_id(partition.topic)
        if not value.is_of(topic_id) or (by_id and topic_id == ZERO_UUID):
            continue  # the commit was for a deleted topic
        by_topic.setdefault(partition.topic, []).append(positions.of(partition, topic_id))
    return [
        OffsetFetchResponseTopics(name=name, topic_id=image.topic_id(name), partitions=tuple(parts))
        for name, parts in by_topic.items()
    ]


def _partition(index: int, value: OffsetCommitValue | None, code: ErrorCode) -> OffsetFetchResponsePartitions:
    if value is None:
        return OffsetFetchResponsePartitions(partition_index=index, committed_offset=-1, metadata="", error_code=code)
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=value.offset,
        committed_leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        error_code=code,
    )


def _new_form(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    """A request of v1 to v7, which names one group, in the form of v8."""
    topics = request.topics
    return OffsetFetchRequestGroup(
        group_id=request.group_id,
        topics=None
        if topics is None
        else tuple(
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes) for topic in topics
        ),
    )


def _old_form(group: OffsetFetchResponseGroup, version: int) -> OffsetFetchResponse:
    """The response for one group in the form of v0 to v7. v0 and v1 have the group's error in each partition."""

    def code(part: OffsetFetchResponsePartitions) -> int:
        if version < _GROUP_ERROR_SINCE and group.error_code:
            return group.error_code
        if version < _ABSENCE_SINCE and part.committed_offset < 0:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return part.error_code

    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=tuple(
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetFetchResponsePartition(
                        partition_index=part.partition_index,
                        committed_offset=part.committed_offset,
                        committed_leader_epoch=part.committed_leader_epoch,
                        metadata=part.metadata,
                        error_code=code(part),
                    )
                    for part in topic.partitions
                ),
            )
            for topic in group.topics
        ),
    )
