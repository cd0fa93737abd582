"""Offsets of groups in raw requests, the same to every broker."""

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
)
from tests.support.requests.of_topic import offset_commit, offset_fetch
from tests.support.requests.raw_client import RawClient


def commit_offset(client: RawClient, group_id: str, topic: str, offset: int) -> None:
    """Commit an offset of partition 0, as no member, and in no transaction."""
    response = client.ask(offset_commit(topic, offset, group_id=group_id), 8)
    assert response.topics[0].partitions[0].error_code == ErrorCode.NONE


def committed_offset(
    client: RawClient, group_id: str, topic: str, partition: int = 0, *, stable: bool = False
) -> int | ErrorCode:
    """A group's offset, -1 if it has none; or the error that stands in its place."""
    request = offset_fetch(topic, partition, version=8, group_id=group_id, require_stable=stable)
    return _said(_fetched(client, request).topics[0].partitions[0])


def committed_offsets(
    client: RawClient, group_id: str, *, stable: bool = False
) -> dict[tuple[str, int], int | ErrorCode]:
    """All offsets of a group by topic and partition; or the errors that stand in their places."""
    groups = (OffsetFetchRequestGroup(group_id=group_id, topics=None),)
    group = _fetched(client, OffsetFetchRequest(groups=groups, require_stable=stable))
    return {(topic.name, part.partition_index): _said(part) for topic in group.topics for part in topic.partitions}


def _fetched(client: RawClient, request: OffsetFetchRequest) -> OffsetFetchResponseGroup:
    (group,) = client.ask(request, 8).groups
    assert group.error_code == ErrorCode.NONE, ErrorCode.of(group.error_code).name
    return group


def _said(part: OffsetFetchResponsePartitions) -> int | ErrorCode:
    return ErrorCode.of(part.error_code) if part.error_code else part.committed_offset
