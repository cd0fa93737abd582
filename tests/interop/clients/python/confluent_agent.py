"""confluent-kafka, that is librdkafka, as an agent."""

from typing import Any

import confluent_kafka.admin
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.cimpl import KafkaError

from tests.interop.clients.python import confluent_transactions as transactions_of
from tests.interop.clients.python import sasl
from tests.interop.clients.python.client_agent import ClientAgent, described
from tests.interop.clients.python.line_agent import Json, MemberThread, serve, text
from tests.support.clients.confluent import ConfluentClient

TIMEOUT_S = 20.0
ADMIN: Any = confluent_kafka.admin


class Subscriber:
    """A consumer in a group."""

    def __init__(self, config: dict[str, Any], topics: list[str]) -> None:
        self._consumer = Consumer(config)
        self._consumer.subscribe(topics)

    def poll(self) -> list[Json]:
        return [_record(message) for message in self._consumer.consume(500, 0.1) if message.error() is None]

    def assignment(self) -> list[tuple[str, int]]:
        return [(item.topic, item.partition) for item in self._consumer.assignment()]

    def commit(self) -> None:
        try:
            results = self._consumer.commit(asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._NO_OFFSET:
                raise
        else:
            for result in results:
                if result.error is not None:
                    raise KafkaException(result.error)

    def close(self) -> None:
        self._consumer.close()


def _record(message: Any) -> Json:
    return {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": message.timestamp()[1],
        "key": text(message.key()),
        "value": text(message.value()),
        "headers": [[key, text(value)] for key, value in message.headers() or ()],
    }


class ConfluentAgent(ClientAgent):
    """What `tests.support.clients.agent` describes."""

    def __init__(self) -> None:
        super().__init__(ConfluentClient())

    def consume(self, servers: str, topic: str, counts: dict[str, int], isolation: str | None = None) -> Json:
        wanted = {int(partition): count for partition, count in counts.items()}
        stored = ConfluentClient().consume(servers, topic, wanted, isolation=isolation or "read_committed")
        return [described(topic, record) for record in stored]

    def transact(self, servers: str, transactional_id: str, topic: str, transactions: list[Json]) -> None:
        transactions_of.transact(servers, transactional_id, topic, transactions)

    def fence(self, servers: str, transactional_id: str, topic: str) -> None:
        transactions_of.fence(servers, transactional_id, topic)

    def copy(self, servers: str, transactional_id: str, group: str, source: str, topic: str, count: int) -> None:
        transactions_of.copy(servers, transactional_id, group, source, topic, count)

    def over_sasl(self, servers: str, topic: str, mechanism: str, user: str, password: str) -> Json:
        return sasl.over_confluent(servers, topic, mechanism, user, password)

    def join(
        self,
        member: str,
        servers: str,
        group: str,
        topics: list[str],
        protocol: str,
        instance: str | None,
        assignors: list[str],
    ) -> None:
        config: dict[str, Any] = {
            "bootstrap.servers": servers,
            "client.id": member,
            "group.id": group,
            "group.protocol": protocol,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 100,
            "topic.metadata.refresh.interval.ms": 1000,
            "log_level": 0,
        }
        if protocol == "classic":
            config |= {"session.timeout.ms": 6000, "heartbeat.interval.ms": 300}
        if assignors:
            config["partition.assignment.strategy"] = ",".join(assignors)
        if instance is not None:
            config["group.instance.id"] = instance
        self._members[member] = MemberThread(lambda: Subscriber(config, topics))

    def topics(self, servers: str) -> Json:
        return sorted(self._admin(servers).list_topics(timeout=TIMEOUT_S).topics)

    def describe_topic(self, servers: str, topic: str) -> Json:
        admin = self._admin(servers)
        (future,) = admin.describe_topics(TopicCollection([topic])).values()
        return [[item.id, item.leader.id] for item in future.result(TIMEOUT_S).partitions]

    def topic_config(self, servers: str, topic: str) -> Json:
        admin = self._admin(servers)
        (future,) = admin.describe_configs([ADMIN.ConfigResource(ADMIN.ResourceType.TOPIC, topic)]).values()
        return {name: entry.value for name, entry in future.result(TIMEOUT_S).items()}

    def alter_config(self, servers: str, topic: str, configs: dict[str, str | None]) -> None:
        entries = [
            ADMIN.ConfigEntry(
                name,
                value,
                incremental_operation=ADMIN.AlterConfigOpType.DELETE if value is None else ADMIN.AlterConfigOpType.SET,
            )
            for name, value in configs.items()
        ]
        admin = self._admin(servers)
        resource = ADMIN.ConfigResource(ADMIN.ResourceType.TOPIC, topic, incremental_configs=entries)
        (future,) = admin.incremental_alter_configs([resource]).values()
        future.result(TIMEOUT_S)

    def delete_records(self, servers: str, topic: str, before: dict[str, int]) -> Json:
        admin = self._admin(servers)
        wanted = [TopicPartition(topic, int(partition), offset) for partition, offset in before.items()]
        futures = admin.delete_records(wanted)
        return {item.partition: future.result(TIMEOUT_S).low_watermark for item, future in futures.items()}

    def offsets(self, servers: str, topic: str, partitions: list[int], at: str | int) -> Json:
        specs = {"earliest": ADMIN.OffsetSpec.earliest(), "latest": ADMIN.OffsetSpec.latest()}
        spec = specs[at] if isinstance(at, str) else ADMIN.OffsetSpec.for_timestamp(at)
        admin = self._admin(servers)
        futures = admin.list_offsets({TopicPartition(topic, partition): spec for partition in partitions})
        return {item.partition: future.result(TIMEOUT_S).offset for item, future in futures.items()}

    def groups(self, servers: str) -> Json:
        admin = self._admin(servers)
        return [group.group_id for group in admin.list_consumer_groups().result(TIMEOUT_S).valid]

    def describe_group(self, servers: str, group: str) -> Json:
        admin = self._admin(servers)
        (future,) = admin.describe_consumer_groups([group]).values()
        found = future.result(TIMEOUT_S)
        return {
            "state": found.state.name,
            "members": {
                member.client_id: [[item.topic, item.partition] for item in member.assignment.topic_partitions]
                for member in found.members
            },
        }

    def delete_group(self, servers: str, group: str) -> None:
        admin = self._admin(servers)
        (future,) = admin.delete_consumer_groups([group]).values()
        future.result(TIMEOUT_S)

    def alter_offsets(self, servers: str, group: str, topic: str, offsets: dict[str, int]) -> None:
        admin = self._admin(servers)
        wanted = [TopicPartition(topic, int(partition), offset) for partition, offset in offsets.items()]
        (future,) = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, wanted)]).values()
        for item in future.result(TIMEOUT_S).topic_partitions:
            if item.error is not None:
                raise KafkaException(item.error)

    def brokers(self, servers: str) -> Json:
        admin = self._admin(servers)
        found = admin.describe_cluster().result(TIMEOUT_S)
        return {
            "cluster": found.cluster_id,
            "controller": found.controller.id,
            "brokers": sorted(node.id for node in found.nodes),
        }

    def _admin(self, servers: str) -> Any:
        return ADMIN.AdminClient({"bootstrap.servers": servers, "log_level": 0})

    def _code(self, error: BaseException) -> int | None:
        return int(error.args[0].code()) if isinstance(error, KafkaException) else super()._code(error)


if __name__ == "__main__":
    serve(ConfluentAgent())
