"""Eligible leader replicas of partitions: DescribeTopicPartitions (KIP-966). Brokers before 4.0 cannot be asked."""

from collections.abc import Iterable
from typing import NamedTuple

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._net.errors import UnsupportedApiVersion
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from spark_kafka_native._protocol.topic import TopicPartition


class EligibleReplicas(NamedTuple):
    """The eligible leader replicas of a partition: now, and the last that were known."""

    elr: tuple[int, ...]
    last_known: tuple[int, ...]


def eligible_replicas(cluster: Cluster, topics: Iterable[str]) -> dict[TopicPartition, EligibleReplicas]:
    """The eligible leader replicas of the topics' partitions.

    Partitions that the broker does not describe are left out; all are if it does not know DescribeTopicPartitions.
    Raises KafkaError: the broker's next page begins at or before the page that was read.
    """
    deadline = cluster.deadline()
    wanted = tuple(TopicRequest(name=name) for name in sorted(set(topics)))
    found: dict[TopicPartition, EligibleReplicas] = {}
    at = ("", -1)
    cursor: Cursor | None = None
    while wanted:  # ends, because every page begins after the one before
        try:
            response = cluster.send(
                None, DescribeTopicPartitionsRequest(topics=wanted, cursor=cursor), deadline=deadline
            )
        except UnsupportedApiVersion:
            return {}
        for topic in response.topics:
            for part in topic.partitions:
                replicas = EligibleReplicas(part.eligible_leader_replicas or (), part.last_known_elr or ())
                found[TopicPartition(topic.name or "", part.partition_index)] = replicas
        cursor = response.next_cursor
        if cursor is None:
            break
        before, at = at, (cursor.topic_name, cursor.partition_index)
        if at <= before:
            detail = f"DescribeTopicPartitions: the page after {before} begins at {at}"
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, detail)
    return found
