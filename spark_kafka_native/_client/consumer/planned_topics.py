"""Checks that Fetch requests which name a topic read the topic that was planned.

Fetch has topic ids from version 13 on (Kafka 3.1). Brokers of 2.8 to 3.0 have topic ids, but serve whatever topic has
the name of the request. Newer brokers get a Fetch with names, too, if the id of one of its topics is not known.
A topic id never comes back: if the topic has the planned id after the last Fetch, it had that id during all of them. A
comparison before the first Fetch with names finds an earlier replacement before any record is used.
"""

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from spark_kafka_native._client.cluster.cluster import UNKNOWN_TOPIC_TRIES, Cluster
from spark_kafka_native._client.errors import TopicRecreated
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._net.errors import BrokerUnreachable
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._protocol.wire import ZERO_UUID

_OUTDATED: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INCONSISTENT_TOPIC_ID})


def compare_topic_ids(
    cluster: Cluster, planned: Mapping[TopicPartition, UUID], deadline: Deadline
) -> dict[TopicPartition, KafkaError]:
    """The partitions of ``planned`` whose topic has another id now (TopicRecreated), or does not exist.

    Partitions with an id of zeroes are not compared. Raises BrokerUnreachable if no broker answers in time.
    """
    wanted = {partition: topic_id for partition, topic_id in planned.items() if topic_id != ZERO_UUID}
    topics = dict.fromkeys(partition.topic for partition in wanted)
    backoff, tries = cluster.backoff(), 0
    errors: dict[TopicPartition, KafkaError] = {}
    while topics:
        try:
            found = cluster.metadata(topics, missing_ok=True, timeout_ms=deadline.remaining_ms).topics
        except BrokerUnreachable:
            # Too little time was left for another response: the errors of the previous response say more.
            if errors:
                return errors
            raise
        errors = {}
        for partition, planned_id in wanted.items():
            topic = found.get(partition.topic)
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None else topic.error
            if topic is None or code is not ErrorCode.NONE:
                errors[partition] = KafkaError(code, f"topic {partition.topic}", operation="DESCRIBE")
            # Without an id: a broker before 2.8 answered, in a cluster that is being upgraded.
            elif topic.topic_id not in {planned_id, ZERO_UUID}:
                errors[partition] = TopicRecreated(partition, str(planned_id), str(topic.topic_id))
        # A broker that does not know yet that the topic was created again before the plan has the earlier id, or none.
        is_late = {error.code for error in errors.values()} <= _OUTDATED
        tries += is_late
        if not errors or tries == UNKNOWN_TOPIC_TRIES or not deadline.pause(backoff.next_ms()):
            return errors
    return {}
