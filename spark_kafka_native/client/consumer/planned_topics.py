"""Checks that Fetch requests which name a topic read the topic that was planned.

Fetch has topic ids from version 13 on (Kafka 3.1). Brokers of 2.8 to 3.0 have topic ids, but serve whatever topic has
the name of the request. Newer brokers get a Fetch with names, too, if the id of one of its topics is not known.
A topic id never comes back: if the topic has the planned id after the last Fetch, it had that id during all of them. A
comparison before the first Fetch with names finds an earlier replacement before any record is used.
"""

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from spark_kafka_native.client.cluster.cluster import UNKNOWN_TOPIC_TRIES, Cluster
from spark_kafka_native.client.cluster.metadata import PartitionLeader
from spark_kafka_native.client.errors import TopicRecreated
from spark_kafka_native.net.deadline import Deadline
from spark_kafka_native.protocol.topic import TopicPartition
from spark_kafka_native.protocol.wire import ZERO_UUID

FETCH_WITH_IDS: Final = 13


class PlannedTopics:
    """The topics of one reader, with their planned ids; topics without an id are not checked."""

    def __init__(self, cluster: Cluster, planned: Mapping[TopicPartition, PartitionLeader | None]) -> None:
        self._cluster = cluster
        self._planned: dict[TopicPartition, UUID] = {
            partition: leader.topic_id
            for partition, leader in planned.items()
            if leader is not None and leader.topic_id != ZERO_UUID
        }
        self._topics = dict.fromkeys(partition.topic for partition in self._planned)
        self._are_named = False
        self.recreated: frozenset[TopicPartition] = frozenset()
        """All partitions whose topic is another one, as the comparison found; TopicRecreated names the first."""

    def check_first(self, deadline: Deadline) -> None:
        """Compare the ids before the first Fetch that names its topics. Raises as ``check_last``."""
        if self._are_named or not self._planned:
            return
        self._compare(deadline.remaining_ms)
        self._are_named = True

    def check_last(self) -> None:
        """Compare the ids once more, if any Fetch had names, within ``default.api.timeout.ms``.

        Raises TopicRecreated; KafkaError: the topic does not exist, or the cluster does not answer.
        """
        if self._are_named:
            self._compare()

    def _compare(self, timeout_ms: float | None = None) -> None:
        default_ms = self._cluster.config.default_api_timeout_ms
        deadline = Deadline.after_ms(default_ms if timeout_ms is None else timeout_ms)
        backoff = self._cluster.backoff()
        for number in range(1, UNKNOWN_TOPIC_TRIES + 1):
            found = self._cluster.metadata(self._topics, timeout_ms=deadline.remaining_ms).topics
            others = {
                partition: found[partition.topic].topic_id
                for partition, planned_id in self._planned.items()
                # Without an id: a broker before 2.8 answered, in a cluster that is being upgraded.
                if found[partition.topic].topic_id not in {planned_id, ZERO_UUID}
            }
            if not others:
                return
            # A broker that does not know yet that the topic was created again before the plan has the earlier id.
            if number == UNKNOWN_TOPIC_TRIES or not deadline.pause(backoff.next_ms()):
                break
        self.recreated = frozenset(others)
        partition, other_id = next(iter(others.items()))
        raise TopicRecreated(partition, str(self._planned[partition]), str(other_id))
