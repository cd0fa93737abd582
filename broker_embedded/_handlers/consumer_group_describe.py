"""ConsumerGroupDescribe (69) v0-v1: consumer groups and their members (KIP-848).

v1  the protocol of each member (KIP-1099)
"""

from collections.abc import Iterable
from typing import Final

from broker_embedded._config.config import BrokerConfig
from broker_embedded._coordinator.groups import Groups
from broker_embedded._groups.consumer.group import ConsumerGroup
from broker_embedded._groups.consumer.member import ConsumerMember, TopicIdPartition, by_topic
from broker_embedded._groups.consumer.topics import TopicsView
from broker_embedded._handlers.support.registry import RequestContext, handles
from broker_embedded._handlers.support.responses import GROUP_OPERATIONS, NOT_ASKED
from broker_embedded._metadata.dynamic_configs import DynamicConfigs
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

_CLASSIC: Final = 0
_CONSUMER: Final = 1


@handles(ConsumerGroupDescribeRequest, "0-1")
def consumer_group_describe(
    request: ConsumerGroupDescribeRequest, _context: RequestContext, configs: DynamicConfigs, groups: Groups
) -> ConsumerGroupDescribeResponse:
    """One description per group id. A repeated id is answered once."""
    return ConsumerGroupDescribeResponse(
        groups=tuple(
            _describe(group_id, request, configs.config, groups) for group_id in dict.fromkeys(request.group_ids)
        )
    )


def _describe(
    group_id: str, request: ConsumerGroupDescribeRequest, config: BrokerConfig, groups: Groups
) -> DescribedGroup:
    if not config.release.has_consumer_groups:
        return DescribedGroup(group_id=group_id, error_code=ErrorCode.UNSUPPORTED_VERSION)
    if not group_id:
        return DescribedGroup(group_id=group_id, error_code=ErrorCode.INVALID_GROUP_ID)
    group = groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        problem = "not found" if group is None else "not a consumer group"
        return DescribedGroup(
            group_id=group_id,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"Group {group_id} {problem}.",
        )
    topics = group.context.topics()
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor or config.group_consumer_assignors[0],
        members=tuple(
            _member(member, group.targets.get(member.member_id, frozenset()), topics)
            for member in group.members.values()
        ),
        authorized_operations=GROUP_OPERATIONS if request.include_authorized_operations else NOT_ASKED,
    )


def _member(member: ConsumerMember, target: Iterable[TopicIdPartition], topics: TopicsView) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(sorted(member.subscribed_topic_names)),
        subscribed_topic_regex=member.subscribed_topic_regex,
        assignment=_assignment(member.held, topics),
        target_assignment=_assignment(target, topics),
        member_type=_CONSUMER if member.classic is None else _CLASSIC,
    )


def _assignment(partitions: Iterable[TopicIdPartition], topics: TopicsView) -> Assignment:
    return Assignment(
        topic_partitions=tuple(
            TopicPartitions(topic_id=topic_id, topic_name=topics.by_id[topic_id].name, partitions=tuple(numbers))
            for topic_id, numbers in by_topic(partitions).items()
            if topic_id in topics.by_id
        )
    )
