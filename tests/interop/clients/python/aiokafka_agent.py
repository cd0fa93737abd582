"""aiokafka as an agent: its clients live in an event loop in a thread of their own."""

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition  # type: ignore[import-untyped]  # it has no types
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete  # type: ignore[import-untyped]  # it has no types
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType  # type: ignore[import-untyped]  # it has no types
from aiokafka.coordinator.assignors.range import RangePartitionAssignor  # type: ignore[import-untyped]  # it has no types
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor  # type: ignore[import-untyped]  # it has no types
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor  # type: ignore[import-untyped]  # it has no types
from aiokafka.errors import BrokerResponseError, for_code  # type: ignore[import-untyped]  # it has no types
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment

from tests.interop.clients.python import sasl
from tests.interop.clients.python.line_agent import QUICK_MEMBER, Agent, Json, MemberThread, described, encoded, serve

TIMEOUT_S = 30.0
ASSIGNORS = {
    assignor.name: assignor
    for assignor in (RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor)
}


class Loop:
    """An event loop that runs in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(TIMEOUT_S)


class Subscriber:
    """A consumer in a group."""

    def __init__(self, loop: Loop, topics: list[str], config: dict[str, Any]) -> None:
        self._run = loop.run
        self._consumer = self._run(self._open(topics, config))

    async def _open(self, topics: list[str], config: dict[str, Any]) -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(*topics, **config)
        await consumer.start()
        return consumer

    def poll(self) -> list[Json]:
        polled = self._run(self._consumer.getmany(timeout_ms=100))
        return [described(record) for records in polled.values() for record in records]

    def assignment(self) -> list[tuple[str, int]]:
        return [(item.topic, item.partition) for item in self._consumer.assignment()]

    def commit(self) -> None:
        self._run(self._consumer.commit())

    def close(self) -> None:
        self._run(self._consumer.stop())


class AiokafkaAgent(Agent):
    """What `tests.support.clients.agent` describes."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = Loop()

    async def produce(self, servers: str, topic: str, codec: str, records: list[Json]) -> Json:
        producer = AIOKafkaProducer(
            bootstrap_servers=servers,
            acks="all",
            enable_idempotence=True,
            compression_type=None if codec == "none" else codec,
            linger_ms=5,
        )
        await producer.start()
        try:
            futures = [
                await producer.send(
                    topic,
                    value=encoded(record["value"]),
                    key=encoded(record["key"]),
                    partition=record["partition"],
                    timestamp_ms=record["timestamp"],
                    headers=[(key, encoded(value)) for key, value in record["headers"]],
                )
                for record in records
            ]
            sent = await asyncio.gather(*futures)
        finally:
            await producer.stop()
        return [[result.partition, result.offset] for result in sent]

    async def consume(self, servers: str, topic: str, counts: dict[str, int]) -> Json:
        consumer = AIOKafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest")
        await consumer.start()
        try:
            consumer.assign([TopicPartition(topic, int(partition)) for partition in counts])
            stored: list[Json] = []
            while len(stored) < sum(counts.values()):
                polled = await consumer.getmany(timeout_ms=200)
                stored += [described(record) for records in polled.values() for record in records]
        finally:
            await consumer.stop()
        return stored

    def join(
        self, member: str, servers: str, group: str, topics: list[str], instance: str | None, assignors: list[str]
    ) -> None:
        config = {
            "bootstrap_servers": servers,
            "client_id": member,
            "group_id": group,
            "group_instance_id": instance,
            **QUICK_MEMBER,
        }
        if assignors:
            config["partition_assignment_strategy"] = [ASSIGNORS[name] for name in assignors]
        self._members[member] = MemberThread(lambda: Subscriber(self._loop, topics, config))

    async def committed(self, servers: str, group: str, topic: str, partitions: list[int]) -> Json:
        wanted = [TopicPartition(topic, partition) for partition in partitions]
        async with _admin(servers) as admin:
            found = await admin.list_consumer_group_offsets(group, partitions=wanted)
        return {item.partition: value.offset if value.offset >= 0 else None for item, value in found.items()}

    async def over_sasl(self, servers: str, topic: str, mechanism: str, user: str, password: str) -> Json:
        return await sasl.over_aiokafka(servers, topic, mechanism, user, password)

    async def create_topic(self, servers: str, topic: str, partitions: int, configs: dict[str, str]) -> None:
        async with _admin(servers) as admin:
            response = await admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=configs)])
        for _, code, *_ in response.topic_errors:
            _raise(code)

    async def add_partitions(self, servers: str, topic: str, total: int) -> None:
        async with _admin(servers) as admin:
            await admin.create_partitions({topic: NewPartitions(total)})

    async def delete_topic(self, servers: str, topic: str) -> None:
        async with _admin(servers) as admin:
            response = await admin.delete_topics([topic])
        for _, code in response.topic_error_codes:
            _raise(code)

    async def topics(self, servers: str) -> Json:
        async with _admin(servers) as admin:
            return sorted(await admin.list_topics())

    async def describe_topic(self, servers: str, topic: str) -> Json:
        async with _admin(servers) as admin:
            (found,) = await admin.describe_topics([topic])
        _raise(found["error_code"])
        return sorted([item["partition"], item["leader"]] for item in found["partitions"])

    async def topic_config(self, servers: str, topic: str) -> Json:
        async with _admin(servers) as admin:
            (response,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        ((code, _, _, _, entries),) = response.resources
        _raise(code)
        return {name: value for name, value, *_ in entries}

    async def alter_config(self, servers: str, topic: str, configs: dict[str, str]) -> None:
        """Not incremental: what is not named goes back to its default."""
        async with _admin(servers) as admin:
            resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs)
            (response,) = await admin.alter_configs([resource])
        for code, *_ in response.resources:
            _raise(code)

    async def delete_records(self, servers: str, topic: str, before: dict[str, int]) -> Json:
        wanted = {
            TopicPartition(topic, int(number)): RecordsToDelete(before_offset=offset)
            for number, offset in before.items()
        }
        async with _admin(servers) as admin:
            found = await admin.delete_records(wanted)
        return {item.partition: low for item, low in found.items()}

    async def offsets(self, servers: str, topic: str, partitions: list[int], at: str | int) -> Json:
        wanted = [TopicPartition(topic, partition) for partition in partitions]
        consumer = AIOKafkaConsumer(bootstrap_servers=servers)
        await consumer.start()
        try:
            if at == "earliest":
                found = await consumer.beginning_offsets(wanted)
            elif at == "latest":
                found = await consumer.end_offsets(wanted)
            else:
                responses = await consumer.offsets_for_times(dict.fromkeys(wanted, int(at)))
                found = {item: response.offset if response else -1 for item, response in responses.items()}
        finally:
            await consumer.stop()
        return {item.partition: offset for item, offset in found.items()}

    async def groups(self, servers: str) -> Json:
        async with _admin(servers) as admin:
            return [group for group, _ in await admin.list_consumer_groups()]

    async def describe_group(self, servers: str, group: str) -> Json:
        async with _admin(servers) as admin:
            (response,) = await admin.describe_consumer_groups([group])
        ((code, _, state, _, _, members, *_),) = response.groups
        _raise(code)
        return {"state": state, "members": {client: _assigned(bytes_) for _, client, _, _, bytes_ in members}}

    async def brokers(self, servers: str) -> Json:
        async with _admin(servers) as admin:
            found = await admin.describe_cluster()
        nodes = sorted(broker["node_id"] for broker in found["brokers"])
        return {"cluster": found["cluster_id"], "controller": found["controller_id"], "brokers": nodes}

    def _result(self, returned: Any) -> Json:
        return self._loop.run(returned) if inspect.iscoroutine(returned) else returned

    def _code(self, error: BaseException) -> int | None:
        return int(error.errno) if isinstance(error, BrokerResponseError) else None


@asynccontextmanager
async def _admin(servers: str) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


def _assigned(assignment: bytes) -> list[list[Any]]:
    """aiokafka leaves a member's assignment as bytes."""
    if not assignment:
        return []
    parts = ConsumerProtocolAssignment.decode(assignment).assigned_partitions
    return [[part.topic, number] for part in parts for number in part.partitions]


def _raise(code: int) -> None:
    if code:
        raise for_code(code)()


if __name__ == "__main__":
    serve(AiokafkaAgent())
