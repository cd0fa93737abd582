"""``kafka-topics.sh``: create, delete, list, describe and widen topics."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from uuid import UUID

from spark_kafka_native._client.admin.topics import (
    NewTopic,
    TopicsError,
    create_partitions,
    create_topics,
    delete_topics,
)
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.cluster.metadata import ClusterMetadata, TopicMetadata
from spark_kafka_native._command_line.commands import Options
from spark_kafka_native._command_line.output import InvalidOption, say, say_record
from spark_kafka_native._command_line.parameters import INT16, INT32, flag, option, unsupported
from spark_kafka_native._command_line.properties import parse_pairs
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.ids import parse_id
from spark_kafka_native._protocol.wire import ZERO_UUID
from spark_kafka_native._tools.connection import open_cluster
from spark_kafka_native._tools.options import ACTIONS, chosen_action, cluster_options, command
from spark_kafka_native._tools.tables import json_flag
from spark_kafka_native._tools.topic_descriptions import describe, filters

_COLLISIONS: Final = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could collide. "
    "To avoid issues it is best to use either, but not both."
)
"""The text of Apache Kafka's tool."""


@command(
    "kafka-topics",
    "Create, delete, list, describe and alter topics.",
    """\
examples
  {command} --bootstrap-server localhost:9092 --create --topic events --partitions 6 --config retention.ms=3600000
  {command} --bootstrap-server localhost:9092 --describe --topic 'events.*' --json
  {command} --bootstrap-server localhost:9092 --delete --topic events""",
)
@flag("--create", group=ACTIONS, help="create a topic")
@flag("--delete", group=ACTIONS, help="delete topics")
@flag("--list", group=ACTIONS, help="print the names of topics")
@flag("--describe", group=ACTIONS, help="print partitions, leaders and settings")
@flag("--alter", group=ACTIONS, help="increase the number of partitions of a topic")
@option("--topic", help="the topic; with --list, --describe and --delete a regular expression")
@option("--topic-id", metavar="ID", help="with --describe: the topic with this id, instead of --topic")
@option(
    "--partitions", type=INT32, metavar="N", help="the number of partitions; by default num.partitions of the broker"
)
@option(
    "--replication-factor",
    type=INT16,
    metavar="N",
    help="the number of replicas; by default default.replication.factor of the broker",
)
@option("--replica-assignment", metavar="B:B,B:B", help="the brokers of each partition, leader first")
@option("--config", multiple=True, metavar="KEY=VALUE", help="a setting of a new topic")
@flag("--if-not-exists", help="with --create: do nothing if the topic exists")
@flag("--if-exists", help="with --alter, --delete, --describe: do nothing if the topic does not exist")
@flag("--exclude-internal", help="leave out internal topics")
@filters
@unsupported("use kafka-configs --alter --topic NAME --delete-config KEY", "--delete-config")
@json_flag
@cluster_options()
def topics(**given: Any) -> None:
    """One action. Errors of the cluster are on stdout, too."""
    options = Options(**given)
    if options.as_json and not (options.list or options.describe):
        raise InvalidOption("--json is an option of --list and --describe")
    actions = {"create": _create, "delete": _delete, "list": _list, "describe": _describe, "alter": _alter}
    try:
        with open_cluster(options) as cluster:
            chosen_action(actions, options)(cluster, options)
    except KafkaError as error:
        _announce(error)
        raise


def _announce(error: KafkaError) -> None:
    """Print what programs that call Apache Kafka's script search for: this text, and the broker's error after it."""
    reasons = (
        error.reasons if isinstance(error, TopicsError) else [error.response_message or error.detail or str(error)]
    )
    for reason in reasons:
        say(f"Error while executing topic command : {reason}")


def _create(cluster: Cluster, options: Options) -> None:
    name = _required(options)
    if "." in name or "_" in name:
        say(_COLLISIONS)
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
        raise InvalidOption(f"--replica-assignment: {text!r} is not BROKER:BROKER,BROKER:BROKER") from None


def _delete(cluster: Cluster, options: Options) -> None:
    _required(options)
    chosen = _chosen(cluster.metadata(), options)
    if chosen:
        with _ignoring(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, if_given=options.if_exists):
            delete_topics(cluster, [topic.name for topic in chosen])


def _alter(cluster: Cluster, options: Options) -> None:
    name = _required(options)
    if options.partitions is None:
        raise InvalidOption(
            "--alter needs --partitions; kafka-configs --alter --topic NAME --add-config KEY=VALUE sets configs"
        )
    if cluster.metadata([name], missing_ok=True).topics[name].error is not ErrorCode.NONE:
        if options.if_exists:
            return
        raise _missing(name)
    create_partitions(cluster, {name: options.partitions})


def _list(cluster: Cluster, options: Options) -> None:
    for topic in _chosen(cluster.metadata(), options, must_exist=False):
        say_record({"topic": topic.name, "internal": topic.internal}, topic.name, as_json=options.as_json)


def _describe(cluster: Cluster, options: Options) -> None:
    if options.if_exists and not options.topic and not options.topic_id:
        raise InvalidOption("--if-exists: --describe needs --topic or --topic-id with it")
    wanted = _topic_id(options.topic_id)
    metadata = cluster.metadata()
    if wanted == ZERO_UUID:
        options.topic_id = None  # as if it were not given, as in Apache Kafka
        chosen = _chosen(metadata, options)
    else:
        chosen = [
            topic
            for topic in metadata.topics.values()
            if topic.topic_id == wanted and not (options.exclude_internal and topic.internal)
        ]
        if not chosen and not options.if_exists:
            detail = f"TopicId '{options.topic_id}' does not exist as expected"
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, detail)
    describe(cluster, metadata, chosen, options)


def _topic_id(text: str | None) -> UUID:
    """The id that ``--topic-id`` gives; zeroes if it gives none. Raises InvalidOption."""
    try:
        return ZERO_UUID if text is None else parse_id(text)
    except ValueError as error:
        raise InvalidOption(f"--topic-id: {error}") from error


def _required(options: Options) -> str:
    if not options.topic:
        raise InvalidOption("--topic is required")
    return str(options.topic)


def _chosen(metadata: ClusterMetadata, options: Options, *, must_exist: bool = True) -> list[TopicMetadata]:
    """The topics that ``--topic`` stands for, by name. Raises KafkaError: there is none, and there ought to be."""
    wanted = _expressions(options.topic)
    topics = [
        topic
        for name, topic in sorted(metadata.topics.items())
        if any(expression.fullmatch(name) for expression in wanted)
        and not (options.exclude_internal and topic.internal)
    ]
    if options.topic and not topics and must_exist and not options.if_exists:
        raise _missing(options.topic)
    return topics


def _missing(topic: str) -> KafkaError:
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{topic}' does not exist as expected")


def _expressions(text: str | None) -> list[re.Pattern[str]]:
    """Of which a topic's name must match one. Raises InvalidOption, whatever topics there are."""
    try:
        return [re.compile(part.strip()) for part in (text or ".*").split(",")]
    except re.error as error:
        raise InvalidOption(f"--topic: {text!r} is not a regular expression: {error}") from error


@contextmanager
def _ignoring(code: ErrorCode, *, if_given: bool) -> Iterator[None]:
    """With ``--if-exists`` or ``--if-not-exists``, ignore this error. Metadata may be older than the last change."""
    try:
        yield
    except TopicsError as error:
        if not if_given or {each.code for each in error.errors.values()} != {code}:
            raise
