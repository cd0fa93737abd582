"""The partitions that a query reads, as the cluster has them now."""

from collections.abc import Iterable

from spark_kafka_native.spark.errors import PlanError, listed
from spark_kafka_native.spark.options.parsing import SourceOptions
from spark_kafka_native.spark.planning.bounds import OffsetSource
from spark_kafka_native.spark.planning.pacing import Clock
from spark_kafka_native.spark.subscription import Selection, describe, select, topics_to_look_up


def select_partitions(options: SourceOptions, source: OffsetSource) -> Selection:
    """What the subscription finds, and what it misses."""
    return select(options.subscription, source.topics(topics_to_look_up(options.subscription)))


def select_existing(options: SourceOptions, source: OffsetSource, clock: Clock) -> Selection:
    """As ``select_partitions``, with every topic that was asked for by name.

    A topic that was just made may be unknown to some brokers yet: missing ones are looked for again as
    ``fetchOffset.numRetries`` says. Raises PlanError naming the topics.
    """
    for attempt in range(options.offset_retries + 1):
        if attempt:
            clock.sleep_ms(options.offset_retry_interval_ms)
        selection = select_partitions(options, source)
        if not selection.missing_topics:
            return selection
    raise unknown_topics(options, selection.missing_topics)


def unknown_topics(options: SourceOptions, topics: Iterable[str]) -> PlanError:
    """The error for topics that were asked for by name and are not in the cluster."""
    servers = ",".join(str(server) for server in options.client.bootstrap_servers)
    asked = describe(options.subscription)
    text = f"topics {listed(topics)} of option {asked} do not exist in the cluster at {servers}"
    return PlanError("KAFKA_UNKNOWN_TOPIC", text)
