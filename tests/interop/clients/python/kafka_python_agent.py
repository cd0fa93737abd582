"""kafka-python as an agent: the newest one, and with `--release 2.1` as it speaks to a broker of that release."""

import argparse
import re
from contextlib import closing
from typing import Any

import kafka
import kafka.errors
from kafka.admin import ConfigResource, KafkaAdminClient
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.structs import OffsetAndMetadata, TopicPartition

from tests.interop.clients.python import sasl
from tests.interop.clients.python.client_agent import ClientAgent, refuse
from tests.interop.clients.python.kafka_python_subscriber import Subscriber
from tests.interop.clients.python.line_agent import QUICK_MEMBER, Json, MemberThread, described, serve
from tests.support.clients.kafka_python import KafkaPythonClient, poll_kafka_python

BATCH = 500
ASSIGNORS = {
    assignor.name: assignor
    for assignor in (
        RangePartitionAssignor,
        RoundRobinPartitionAssignor,
        StickyPartitionAssignor,
        CooperativeStickyAssignor,
    )
}


class RejoiningSubscriber(Subscriber):
    """A consumer in a group, which joins it again where `poll_kafka_python` has to."""

    def poll(self) -> list[Json]:
        return [described(record) for record in poll_kafka_python(self._consumer, 100, BATCH)]


class KafkaPythonAgent(ClientAgent):
    """What `tests.support.clients.agent` describes."""

    def __init__(self, release: tuple[int, int] | None) -> None:
        super().__init__(KafkaPythonClient(release))
        self._release = release

    def over_sasl(self, servers: str, topic: str, mechanism: str, user: str, password: str) -> Json:
        return sasl.over_kafka_python(servers, topic, mechanism, user, password)

    def join(
        self, member: str, servers: str, group: str, topics: list[str], instance: str | None, assignors: list[str]
    ) -> None:
        config = {
            "bootstrap_servers": servers,
            "client_id": member,
            "api_version": self._release,
            "group_id": group,
            "group_instance_id": instance,
            **QUICK_MEMBER,
        }
        if assignors:
            config["partition_assignment_strategy"] = [ASSIGNORS[name] for name in assignors]
        self._members[member] = MemberThread(lambda: RejoiningSubscriber(config, topics))

    def topics(self, servers: str) -> Json:
        with closing(self._admin(servers)) as admin:
            return sorted(admin.list_topics())

    def describe_topic(self, servers: str, topic: str) -> Json:
        with closing(self._admin(servers)) as admin:
            (found,) = admin.describe_topics([topic])
        refuse(found["error_code"])
        return sorted([item["partition_index"], item["leader_id"]] for item in found["partitions"])

    def topic_config(self, servers: str, topic: str) -> Json:
        with closing(self._admin(servers)) as admin:
            found = admin.describe_configs([ConfigResource("TOPIC", topic)], config_filter="all")
        return {name: entry["value"] for name, entry in found["topic"][topic].items()}

    def alter_config(self, servers: str, topic: str, configs: dict[str, str | None]) -> None:
        wanted = {name: ("DELETE", None) if value is None else ("SET", value) for name, value in configs.items()}
        with closing(self._admin(servers)) as admin:
            result = admin.alter_configs([ConfigResource("TOPIC", topic, wanted)])["topic"][topic]
        refuse(0 if result == "OK" else int(re.findall(r"\d+", result)[0]))  # "[Error 40] InvalidConfigurationError"

    def delete_records(self, servers: str, topic: str, before: dict[str, int]) -> Json:
        wanted = {TopicPartition(topic, int(partition)): offset for partition, offset in before.items()}
        with closing(self._admin(servers)) as admin:
            results = admin.delete_records(wanted)
        return {item.partition: result["low_watermark"] for item, result in results.items()}

    def offsets(self, servers: str, topic: str, partitions: list[int], at: str | int) -> Json:
        spec = {"earliest": -2, "latest": -1}[at] if isinstance(at, str) else at
        with closing(self._admin(servers)) as admin:
            found = admin.list_partition_offsets({TopicPartition(topic, number): spec for number in partitions})
        return {item.partition: result.offset for item, result in found.items()}

    def groups(self, servers: str) -> Json:
        with closing(self._admin(servers)) as admin:
            return [group["group_id"] for group in admin.list_groups()]

    def describe_group(self, servers: str, group: str) -> Json:
        with closing(self._admin(servers)) as admin:
            found = admin.describe_groups([group])[group]
        members = {}
        for member in found["members"]:
            parts = (member["member_assignment"] or {}).get("assigned_partitions", ())
            members[member["client_id"]] = [[part["topic"], number] for part in parts for number in part["partitions"]]
        return {"state": found["group_state"], "members": members}

    def delete_group(self, servers: str, group: str) -> None:
        with closing(self._admin(servers)) as admin:
            ((_, result),) = admin.delete_groups([group]).items()
        refuse(0 if result == "OK" else getattr(kafka.errors, result).errno)

    def alter_offsets(self, servers: str, group: str, topic: str, offsets: dict[str, int]) -> None:
        wanted = {
            TopicPartition(topic, int(partition)): OffsetAndMetadata(offset, "", -1)
            for partition, offset in offsets.items()
        }
        with closing(self._admin(servers)) as admin:
            self._raise(admin.alter_group_offsets(group, wanted))

    def delete_offsets(self, servers: str, group: str, topic: str, partitions: list[int]) -> None:
        wanted = [TopicPartition(topic, partition) for partition in partitions]
        with closing(self._admin(servers)) as admin:
            self._raise(admin.delete_group_offsets(group, wanted))

    def brokers(self, servers: str) -> Json:
        with closing(self._admin(servers)) as admin:
            found = admin.describe_cluster()
        return {
            "cluster": found["cluster_id"],
            "controller": found["controller_id"],
            "brokers": sorted(broker.get("broker_id", broker.get("node_id")) for broker in found["brokers"]),
        }

    def _raise(self, results: dict[TopicPartition, Any]) -> None:
        for error in results.values():
            refuse(error.errno)

    def _admin(self, servers: str) -> Any:
        return KafkaAdminClient(bootstrap_servers=servers.split(","), api_version=self._release)

    def _code(self, error: BaseException) -> int | None:
        return int(error.errno) if isinstance(error, kafka.errors.BrokerResponseError) else super()._code(error)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--release", type=lambda text: tuple(map(int, text.split("."))))
    serve(KafkaPythonAgent(parser.parse_args().release))
