"""Assignments of consumers that speak the classic protocol: there by the names of topics, here by their ids."""

from collections.abc import Iterable

from broker_embedded.groups.consumer.member import TopicIdPartition, by_topic
from broker_embedded.groups.consumer.topics import TopicsView
from spark_kafka_native.protocol.consumer_protocol import Assignment, TopicPartitions, spell_assignment


def partitions_of(named: Iterable[TopicPartitions], topics: TopicsView) -> frozenset[TopicIdPartition]:
    """Partitions by the topics' ids; those of topics that are not there are left out."""
    return frozenset(
        TopicIdPartition(topics.by_name[topic.topic].topic_id, number)
        for topic in named
        if topic.topic in topics.by_name
        for number in topic.partitions
    )


def assignment_of(partitions: Iterable[TopicIdPartition], topics: TopicsView, version: int) -> bytes:
    """An assignment, as far as its topics are there, in a version that its member speaks."""
    named = tuple(
        TopicPartitions(topic=topics.by_id[topic_id].name, partitions=tuple(numbers))
        for topic_id, numbers in by_topic(partitions).items()
        if topic_id in topics.by_id
    )
    return spell_assignment(Assignment(assigned_partitions=named), version)
