"""kafka-python 1.4 as an agent, `--release 0.8.2` as it speaks to a broker of that release.

It runs in a virtual environment of its own, which has nothing of this project.
"""

import argparse
import re
import warnings
from contextlib import closing
from typing import Any

import kafka
import kafka.errors
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewPartitions, NewTopic
from kafka.coordinator.protocol import ConsumerProtocolMemberAssignment
from kafka.structs import OffsetAndMetadata, TopicPartition

from tests.interop.clients.python.kafka_python_subscriber import Subscriber
from tests.interop.clients.python.line_agent import Agent, Json, MemberThread, described, encoded, serve

TIMEOUT_S = 30.0


class OldKafkaPythonAgent(Agent):
    """What `tests.support.clients.agent` describes, as far as the release had it."""

    def __init__(self, release: tuple[int, ...]) -> None:
        super().__init__()
        self._release = release

    def produce(self, servers: str, topic: str, codec: str, records: list[Json]) -> Json:
        producer = kafka.KafkaProducer(
            bootstrap_servers=servers,
            api_version=self._release,
            acks="all",
            compression_type=None if codec == "none" else codec,
            linger_ms=5,
        )
        with closing(producer):
            futures = [
                producer.send(
                    topic,
                    value=encoded(record["value"]),
                    key=encoded(record["key"]),
                    partition=record["partition"],
                    timestamp_ms=record["timestamp"],
                    headers=[(key, encoded(value)) for key, value in record["headers"]] or None,
                )
                for record in records
            ]
            producer.flush(timeout=TIMEOUT_S)
            sent = [future.get(timeout=TIMEOUT_S) for future in futures]
        return [[result.partition, result.offset] for result in sent]

    def consume(self, servers: str, topic: str, counts: dict[str, int]) -> Json:
        partitions = [TopicPartition(topic, int(partition)) for partition in counts]
        stored: list[Json] = []
        with closing(self._consumer(servers)) as consumer:
            consumer.assign(partitions)
            consumer.seek_to_beginning(*partitions)
            while len(stored) < sum(counts.values()):
                polled = consumer.poll(timeout_ms=200)
                stored += [described(record) for records in polled.values() for record in records]
        return stored

    def join(self, member: str, servers: str, group: str, topics: list[str]) -> None:
        config = self._config(servers, group) | {
            "client_id": member,
            "session_timeout_ms": 6000,
            "heartbeat_interval_ms": 300,
            "metadata_max_age_ms": 1000,
        }
        self._members[member] = MemberThread(lambda: Subscriber(config, topics))

    def commit_alone(self, servers: str, group: str, topic: str, offsets: dict[str, int]) -> None:
        """Commit without being a member, all that consumers before 0.9 did."""
        wanted = {
            TopicPartition(topic, int(partition)): OffsetAndMetadata(offset, f"at {offset}")
            for partition, offset in offsets.items()
        }
        with closing(self._consumer(servers, group)) as consumer:
            consumer.assign(list(wanted))
            consumer.commit(wanted)

    def committed(self, servers: str, group: str, topic: str, partitions: list[int]) -> Json:
        with closing(self._consumer(servers, group)) as consumer:
            return {partition: consumer.committed(TopicPartition(topic, partition)) for partition in partitions}

    def offsets(self, servers: str, topic: str, partitions: list[int], at: str | int) -> Json:
        wanted = [TopicPartition(topic, partition) for partition in partitions]
        with closing(self._consumer(servers)) as consumer:
            if at == "earliest":
                found = consumer.beginning_offsets(wanted)
            elif at == "latest":
                found = consumer.end_offsets(wanted)
            else:
                responses = consumer.offsets_for_times(dict.fromkeys(wanted, at))
                found = {item: response.offset if response else -1 for item, response in responses.items()}
        return {item.partition: offset for item, offset in found.items()}

    def create_topic(self, servers: str, topic: str, partitions: int, configs: dict[str, str]) -> None:
        with closing(self._admin(servers)) as admin:
            admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=configs)])

    def add_partitions(self, servers: str, topic: str, total: int) -> None:
        with closing(self._admin(servers)) as admin:
            admin.create_partitions({topic: NewPartitions(total)})

    def delete_topic(self, servers: str, topic: str) -> None:
        with closing(self._admin(servers)) as admin:
            admin.delete_topics([topic])

    def topics(self, servers: str) -> Json:
        with closing(self._consumer(servers)) as consumer:
            return sorted(consumer.topics())

    def describe_topic(self, servers: str, topic: str) -> Json:
        with closing(self._consumer(servers)) as consumer:
            partitions = consumer.partitions_for_topic(topic)
            cluster = consumer._client.cluster
            return [[number, cluster.leader_for_partition(TopicPartition(topic, number))] for number in partitions]

    def topic_config(self, servers: str, topic: str) -> Json:
        with closing(self._admin(servers)) as admin:
            response = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        (response,) = response if isinstance(response, list) else [response]
        ((_, _, _, _, entries),) = response.resources
        return {name: value for name, value, *_ in entries}

    def alter_config(self, servers: str, topic: str, configs: dict[str, str]) -> None:
        """Not incremental: what is not named goes back to its default."""
        with closing(self._admin(servers)) as admin:
            admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs)])

    def groups(self, servers: str) -> Json:
        with closing(self._admin(servers)) as admin:
            return [group for group, _ in admin.list_consumer_groups()]

    def describe_group(self, servers: str, group: str) -> Json:
        with closing(self._admin(servers)) as admin:
            ((_, _, state, _, _, members),) = admin.describe_consumer_groups([group])
        return {"state": state, "members": {client: _assigned(assignment) for _, client, _, _, assignment in members}}

    def _config(self, servers: str, group: str | None = None) -> dict[str, Any]:
        return {
            "bootstrap_servers": servers,
            "api_version": self._release,
            "group_id": group,
            "enable_auto_commit": False,
            "auto_offset_reset": "earliest",
            "fetch_max_wait_ms": 100,
        }

    def _consumer(self, servers: str, group: str | None = None) -> Any:
        return kafka.KafkaConsumer(**self._config(servers, group))

    def _admin(self, servers: str) -> Any:
        return KafkaAdminClient(bootstrap_servers=servers)  # it asks the broker for the versions it has

    def _code(self, error: BaseException) -> int | None:
        # The admin client raises an error of its own, with the response in its text.
        found = re.search(r"error_code=([1-9]\d*)", str(error))
        code = getattr(error, "errno", None)
        return code if isinstance(code, int) and code >= 0 else int(found[1]) if found else None


def _assigned(assignment: bytes) -> Json:
    decoded = ConsumerProtocolMemberAssignment.decode(assignment)
    return [[topic, number] for topic, numbers in decoded.assignment for number in numbers]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser()
    parser.add_argument("--release", type=lambda text: tuple(map(int, text.split("."))), required=True)
    serve(OldKafkaPythonAgent(parser.parse_args().release))
