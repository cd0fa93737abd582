"""The partitions that a query reads, as the cluster has them now."""

from collections.abc import Iterable

from spark_kafka_native._protocol.topic import listed
from spark_kafka_native._spark.errors import PlanError
from spark_kafka_native._spark.options.parsed import SourceOptions
from spark_kafka_native._spark.planning.bounds import Clock, OffsetSource
from spark_kafka_native._spark.subscription import SelectedPartitions, describe, select, topics_to_look_up


def select_partitions(options: SourceOptions, source: OffsetSource) -> SelectedPartitions:
    """The partitions of the subscription, and those that are missing."""
    return select(options.subscription, source.topics(topics_to_look_up(options.subscription)))


def select_existing(
    options: SourceOptions, source: OffsetSource, clock: Clock, option: str | None = None
) -> SelectedPartitions:
    """As ``select_partitions``, but every topic that the option names must exist.

    Some brokers may not know a new topic yet, so missing topics are looked up again, ``fetchOffset.numRetries`` times.
    Raises PlanError naming the topics, and ``option`` as the option that names them; None: the source's.
    """
    for attempt in range(options.offset_retries + 1):
        if attempt:
            clock.sleep_ms(options.offset_retry_interval_ms)
        selection = select_partitions(options, source)
        if not selection.missing_topics:
            return selection
    raise unknown_topics(options, selection.missing_topics, option)


def unknown_topics(options: SourceOptions, topics: Iterable[str], option: str | None = None) -> PlanError:
    """The error for topics that the option names and the cluster does not have."""
    servers = ",".join(str(server) for server in options.client.bootstrap_servers)
    option = option or describe(options.subscription).partition("=")[0]
    text = f"these topics of option {option} do not exist in the cluster at {servers}: {listed(set(topics))}"
    return PlanError("KAFKA_UNKNOWN_TOPIC", text)
