"""What ``kafka-topics --describe`` prints of topics and partitions."""

from collections.abc import Iterable, Mapping

from spark_kafka_native._client.admin.configs import ConfigEntry, ConfigSource, Resource, ResourceType, describe_configs
from spark_kafka_native._client.admin.eligible_replicas import EligibleReplicas, eligible_replicas
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.cluster.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from spark_kafka_native._command_line.commands import Options
from spark_kafka_native._command_line.output import ToolFailure, say
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
        own = sorted(f"{entry.name}={entry.value}" for entry in entries.values() if entry.source not in _DEFAULTS)
        if options.topics_with_overrides and not own:
            continue
        if not wanted:
            say(_topic_line(topic, ",".join(own)))
        if options.topics_with_overrides:
            continue
        for partition in topic.partitions.values():
            has_leader = partition.leader_id in metadata.brokers
            if not wanted or any(
                _is_wanted(name, topic.name, partition, entries, has_leader=has_leader) for name in wanted
            ):
                found = eligible.get(TopicPartition(topic.name, partition.partition))
                say(_partition_line(topic, partition, found, has_leader=has_leader))


def _topic_line(topic: TopicMetadata, configs: str) -> str:
    replicas = max((len(partition.replicas) for partition in topic.partitions.values()), default=0)
    topic_id = "" if topic.topic_id == ZERO_UUID else f"\tTopicId: {format_id(topic.topic_id)}"
    counts = f"\tPartitionCount: {len(topic.partitions)}\tReplicationFactor: {replicas}"
    return f"Topic: {topic.name}{topic_id}{counts}\tConfigs: {configs}"


def _partition_line(
    topic: TopicMetadata, partition: PartitionMetadata, eligible: EligibleReplicas | None, *, has_leader: bool
) -> str:
    name = f"\tTopic: {topic.name}\tPartition: {partition.partition}"
    leader = partition.leader_id if has_leader else "none"
    elr, last_known = (_NOT_ASKED, _NOT_ASKED) if eligible is None else map(_nodes, eligible)
    replicas = f"\tReplicas: {_nodes(partition.replicas)}\tIsr: {_nodes(partition.isr)}"
    return f"{name}\tLeader: {leader}{replicas}\tElr: {elr}\tLastKnownElr: {last_known}"


def _nodes(node_ids: Iterable[int]) -> str:
    return ",".join(map(str, node_ids))


def _is_wanted(
    name: str, topic: str, partition: PartitionMetadata, entries: Mapping[str, ConfigEntry], *, has_leader: bool
) -> bool:
    """Whether a partition has the property that the filter ``name`` stands for.

    Raises ToolFailure: the property depends on a setting that the cluster does not return.
    """
    in_sync = len(partition.isr)
    if name == "--unavailable-partitions":
        return not has_leader
    if name == "--under-replicated-partitions":
        return in_sync < len(partition.replicas)
    if name == "--under-min-isr-partitions" and not has_leader:
        return True
    least = entries.get(_MIN_IN_SYNC)
    if least is None or least.value is None:
        raise ToolFailure(f"{name}: the cluster returns no {_MIN_IN_SYNC} for topic {topic}")
    return in_sync == int(least.value) if name == "--at-min-isr-partitions" else in_sync < int(least.value)
