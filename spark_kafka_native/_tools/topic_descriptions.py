"""What ``kafka-topics --describe`` prints of topics and partitions."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from spark_kafka_native._client.admin.configs import ConfigEntry, ConfigSource, Resource, ResourceType, describe_configs
from spark_kafka_native._client.admin.eligible_replicas import EligibleReplicas, eligible_replicas
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.cluster.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from spark_kafka_native._command_line.commands import Options
from spark_kafka_native._command_line.output import ToolFailed, say, say_json
from spark_kafka_native._command_line.parameters import flag, together
from spark_kafka_native._protocol.ids import format_id
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._protocol.wire import ZERO_UUID

_NOT_ASKED = "N/A"
_MIN_IN_SYNC = "min.insync.replicas"
_DEFAULTS = frozenset({ConfigSource.DEFAULT_CONFIG, ConfigSource.UNKNOWN})
"""Sources of settings with their defaults. Brokers before 1.1 name no source."""


_FILTERS = {
    "--unavailable-partitions": "only partitions without a leader",
    "--under-replicated-partitions": "only partitions with replicas out of sync",
    "--under-min-isr-partitions": "only partitions with fewer in-sync replicas than min.insync.replicas",
    "--at-min-isr-partitions": "only partitions with as many in-sync replicas as min.insync.replicas",
}
filters = together(
    flag("--topics-with-overrides", help="only topics with configs that were set for them"),
    *(flag(name, help=text) for name, text in _FILTERS.items()),
)
"""The options that choose what of a topic is described."""


def describe(cluster: Cluster, metadata: ClusterMetadata, topics: Iterable[TopicMetadata], options: Options) -> None:
    """Print topics as the options of ``filters`` say."""
    wanted = [name for name in _FILTERS if getattr(options, name[2:].replace("-", "_"))]
    chosen = list(topics)
    # With --topic-id Apache Kafka asks with Metadata only, which says nothing of eligible leader replicas.
    eligible = {} if options.topic_id else eligible_replicas(cluster, [topic.name for topic in chosen])
    for topic in chosen:
        entries = describe_configs(cluster, Resource(type=ResourceType.TOPIC, name=topic.name))
        own = {name: entry.value for name, entry in sorted(entries.items()) if entry.source not in _DEFAULTS}
        if options.topics_with_overrides and not own:
            continue
        found = [
            _Partition(each, each.leader_id in metadata.brokers, eligible.get(TopicPartition(topic.name, number)))
            for number, each in topic.partitions.items()
            if not options.topics_with_overrides
        ]
        if wanted:
            found = [each for each in found if any(_is_wanted(name, topic.name, each, entries) for name in wanted)]
        if options.as_json:
            if found or not wanted:
                say_json(_record(topic, own, found))
            continue
        if not wanted:
            say(_topic_line(topic, ",".join(f"{name}={value}" for name, value in own.items())))
        for each in found:
            say(_partition_line(topic, each))


class _Partition(NamedTuple):
    """A partition, whether its leader is alive, and its eligible leader replicas, None if they are not known."""

    metadata: PartitionMetadata
    has_leader: bool
    eligible: EligibleReplicas | None


def _record(topic: TopicMetadata, configs: Mapping[str, str | None], found: Iterable[_Partition]) -> dict[str, Any]:
    """A topic in JSON."""
    partitions = [
        {
            "partition": each.metadata.partition,
            "leader": each.metadata.leader_id if each.has_leader else None,
            "replicas": [*each.metadata.replicas],
            "isr": [*each.metadata.isr],
            "elr": None if each.eligible is None else [*each.eligible[0]],
            "lastKnownElr": None if each.eligible is None else [*each.eligible[1]],
        }
        for each in found
    ]
    return {
        "topic": topic.name,
        "topicId": None if topic.topic_id == ZERO_UUID else format_id(topic.topic_id),
        "partitionCount": len(topic.partitions),
        "replicationFactor": _replication_factor(topic),
        "configs": dict(configs),
        "partitions": partitions,
    }


def _replication_factor(topic: TopicMetadata) -> int:
    return max((len(partition.replicas) for partition in topic.partitions.values()), default=0)


def _topic_line(topic: TopicMetadata, configs: str) -> str:
    topic_id = "" if topic.topic_id == ZERO_UUID else f"\tTopicId: {format_id(topic.topic_id)}"
    counts = f"\tPartitionCount: {len(topic.partitions)}\tReplicationFactor: {_replication_factor(topic)}"
    return f"Topic: {topic.name}{topic_id}{counts}\tConfigs: {configs}"


def _partition_line(topic: TopicMetadata, each: _Partition) -> str:
    partition = each.metadata
    name = f"\tTopic: {topic.name}\tPartition: {partition.partition}"
    leader = partition.leader_id if each.has_leader else "none"
    elr, last_known = (_NOT_ASKED, _NOT_ASKED) if each.eligible is None else map(_nodes, each.eligible)
    replicas = f"\tReplicas: {_nodes(partition.replicas)}\tIsr: {_nodes(partition.isr)}"
    return f"{name}\tLeader: {leader}{replicas}\tElr: {elr}\tLastKnownElr: {last_known}"


def _nodes(node_ids: Iterable[int]) -> str:
    return ",".join(map(str, node_ids))


def _is_wanted(name: str, topic: str, each: _Partition, entries: Mapping[str, ConfigEntry]) -> bool:
    """Whether a partition has the property that the filter ``name`` stands for.

    Raises ToolFailed: the property depends on a setting that the cluster does not return.
    """
    in_sync = len(each.metadata.isr)
    if name == "--unavailable-partitions":
        return not each.has_leader
    if name == "--under-replicated-partitions":
        return in_sync < len(each.metadata.replicas)
    if name == "--under-min-isr-partitions" and not each.has_leader:
        return True
    least = entries.get(_MIN_IN_SYNC)
    if least is None or least.value is None:
        raise ToolFailed(f"{name}: the cluster returns no {_MIN_IN_SYNC} for topic {topic}")
    return in_sync == int(least.value) if name == "--at-min-isr-partitions" else in_sync < int(least.value)
