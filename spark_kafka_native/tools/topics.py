"""``kafka-topics.sh``: create, delete, list, describe and widen topics."""

import argparse
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from spark_kafka_native.client.admin import NewTopic, TopicsError, create_partitions, create_topics, delete_topics
from spark_kafka_native.client.cluster import Cluster
from spark_kafka_native.client.configs import Resource, ResourceType, describe_configs
from spark_kafka_native.client.metadata import NO_LEADER, PartitionMetadata, TopicMetadata
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError
from spark_kafka_native.protocol.ids import spell_id
from spark_kafka_native.protocol.wire import ZERO_UUID
from spark_kafka_native.tools.connection import FAILED, INT16, INT32, ToolError, ToolParser, complain, run, say
from spark_kafka_native.tools.properties import parse_pairs

_TOOL: Final = "kafka-topics"


def main(arguments: Sequence[str]) -> int:
    """Do one thing with topics; the exit status. 0: done. 1: the cluster refused it. 2: a bad option."""
    return run(_parser(), arguments, _refused)


def _refused(error: KafkaError) -> int:
    # Programs that call the script look for these words.
    say(f"Error while executing topic command : {error.detail or error}")
    complain(f"{_TOOL}: {error.code.name}")
    return FAILED


def _parser() -> ToolParser:
    parser = ToolParser(_TOOL, "Create, delete, list, describe and widen topics.")
    parser.add_cluster()
    parser.add_actions(
        ("--create", _create, "make a topic"),
        ("--delete", _delete, "delete topics"),
        ("--list", _list, "print the names of topics"),
        ("--describe", _describe, "print partitions, leaders and settings"),
        ("--alter", _alter, "give a topic more partitions"),
    )
    parser.add_argument("--topic", help="the topic; a regular expression but for --create and --alter")
    parser.add_argument("--partitions", type=INT32, help="how many partitions; by default the broker's num.partitions")
    parser.add_argument("--replication-factor", type=INT16, help="how many replicas; by default the broker's")
    parser.add_argument("--replica-assignment", metavar="B:B,B:B", help="the brokers of each partition, leader first")
    parser.add_argument("--config", action="append", default=[], metavar="KEY=VALUE", help="a setting of a new topic")
    parser.add_argument("--if-not-exists", action="store_true", help="with --create: a topic that is there is fine")
    parser.add_argument("--if-exists", action="store_true", help="otherwise: a topic that is not there is fine")
    parser.add_argument("--exclude-internal", action="store_true", help="leave out the broker's own topics")
    parser.add_argument("--topics-with-overrides", action="store_true", help="only topics with settings of their own")
    parser.add_argument("--unavailable-partitions", action="store_true", help="only partitions without a leader")
    parser.add_argument(
        "--under-replicated-partitions", action="store_true", help="only partitions with replicas out of sync"
    )
    return parser


def _create(cluster: Cluster, options: argparse.Namespace) -> None:
    name = _required(options)
    topic = NewTopic(
        name=name,
        partitions=-1 if options.partitions is None else options.partitions,
        replication_factor=-1 if options.replication_factor is None else options.replication_factor,
        configs=dict(parse_pairs(options.config, "--config")),
        assignments=_assignments(options.replica_assignment),
    )
    with _ignoring(ErrorCode.TOPIC_ALREADY_EXISTS, if_given=options.if_not_exists):
        create_topics(cluster, [topic])
        say(f"Created topic {name}.")


def _assignments(text: str | None) -> dict[int, tuple[int, ...]]:
    try:
        return {
            index: tuple(int(broker) for broker in brokers.split(":"))
            for index, brokers in enumerate(text.split(",") if text else ())
        }
    except ValueError:
        raise ToolError(f"--replica-assignment: {text!r} is not BROKER:BROKER,BROKER:BROKER") from None


def _delete(cluster: Cluster, options: argparse.Namespace) -> None:
    _required(options)
    chosen = _chosen(cluster, options)
    if chosen:
        with _ignoring(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, if_given=options.if_exists):
            delete_topics(cluster, chosen)


def _alter(cluster: Cluster, options: argparse.Namespace) -> None:
    name = _required(options)
    if options.partitions is None:
        raise ToolError("--alter needs --partitions; settings are altered with kafka-configs")
    if options.if_exists and cluster.metadata([name], missing_ok=True).topics[name].error is not ErrorCode.NONE:
        return
    create_partitions(cluster, {name: options.partitions})


def _list(cluster: Cluster, options: argparse.Namespace) -> None:
    for name in _chosen(cluster, options, must_exist=False):
        say(name)


def _describe(cluster: Cluster, options: argparse.Namespace) -> None:
    of_partitions = options.unavailable_partitions or options.under_replicated_partitions
    for topic in _chosen(cluster, options).values():
        entries = describe_configs(cluster, Resource(type=ResourceType.TOPIC, name=topic.name)).values()
        own = sorted(f"{entry.name}={entry.value}" for entry in entries if entry.is_set_on(ResourceType.TOPIC))
        if options.topics_with_overrides and not own:
            continue
        if not of_partitions:
            say(_topic_line(topic, ",".join(own)))
        if not options.topics_with_overrides:
            for partition in topic.partitions.values():
                if not of_partitions or _is_wanted(partition, options):
                    say(_partition_line(topic, partition))


def _topic_line(topic: TopicMetadata, configs: str) -> str:
    replicas = max((len(partition.replicas) for partition in topic.partitions.values()), default=0)
    topic_id = "" if topic.topic_id == ZERO_UUID else f"\tTopicId: {spell_id(topic.topic_id)}"
    counts = f"\tPartitionCount: {len(topic.partitions)}\tReplicationFactor: {replicas}"
    return f"Topic: {topic.name}{topic_id}{counts}\tConfigs: {configs}"


def _partition_line(topic: TopicMetadata, partition: PartitionMetadata) -> str:
    leader = "none" if partition.leader_id == NO_LEADER else str(partition.leader_id)
    replicas, isr = (",".join(map(str, nodes)) for nodes in (partition.replicas, partition.isr))
    place = f"\tTopic: {topic.name}\tPartition: {partition.partition}"
    return f"{place}\tLeader: {leader}\tReplicas: {replicas}\tIsr: {isr}"


def _is_wanted(partition: PartitionMetadata, options: argparse.Namespace) -> bool:
    if options.unavailable_partitions and partition.leader_id == NO_LEADER:
        return True
    return bool(options.under_replicated_partitions and len(partition.isr) < len(partition.replicas))


def _required(options: argparse.Namespace) -> str:
    if not options.topic:
        raise ToolError("--topic: say which topic")
    return str(options.topic)


def _chosen(cluster: Cluster, options: argparse.Namespace, *, must_exist: bool = True) -> dict[str, TopicMetadata]:
    """The topics that ``--topic`` stands for, by name. Raises KafkaError: there is none, and there ought to be."""
    wanted = _expressions(options.topic)
    topics = {
        name: topic
        for name, topic in sorted(cluster.metadata().topics.items())
        if any(expression.fullmatch(name) for expression in wanted)
        and not (options.exclude_internal and topic.internal)
    }
    if options.topic and not topics and must_exist and not options.if_exists:
        detail = f"Topic '{options.topic}' does not exist as expected"
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, detail)
    return topics


def _expressions(text: str | None) -> list[re.Pattern[str]]:
    """Of which a topic's name must match one. Raises ToolError, whatever topics there are."""
    try:
        return [re.compile(part.strip()) for part in (text or ".*").split(",")]
    except re.error as error:
        raise ToolError(f"--topic: {text!r} is no regular expression: {error}") from error


@contextmanager
def _ignoring(code: ErrorCode, *, if_given: bool) -> Iterator[None]:
    """With ``--if-exists`` or ``--if-not-exists``, ignore this error. Metadata may be older than the last change."""
    try:
        yield
    except TopicsError as error:
        if not if_given or {each.code for each in error.errors.values()} != {code}:
            raise
