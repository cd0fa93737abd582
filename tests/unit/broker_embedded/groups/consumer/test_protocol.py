"""Assignments by the names of topics, and by their ids."""

from uuid import UUID

from broker_embedded.groups.consumer.member import TopicIdPartition
from broker_embedded.groups.consumer.protocol import assignment_of, partitions_of
from broker_embedded.groups.consumer.topics import SubscribableTopic, TopicsView
from spark_kafka_native.protocol.consumer_protocol import TopicPartitions, read_assignment

TOPIC = SubscribableTopic(topic_id=UUID(int=7), name="t", partitions=3)
VIEW = TopicsView.of([TOPIC])


def test_an_assignment_goes_by_names_and_comes_back_by_ids() -> None:
    gone = TopicIdPartition(UUID(int=8), 0)
    target = {TopicIdPartition(TOPIC.topic_id, 2), TopicIdPartition(TOPIC.topic_id, 0), gone}
    read = read_assignment(assignment_of(target, VIEW, 1))
    assert read.assigned_partitions == (TopicPartitions(topic="t", partitions=(0, 2)),)
    assert partitions_of(read.assigned_partitions, VIEW) == target - {gone}
    assert partitions_of([TopicPartitions(topic="gone", partitions=(0,))], VIEW) == frozenset()
