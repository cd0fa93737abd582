"""The partitions of a query: ``subscribe``, ``subscribePattern`` or ``assign``, matched with a cluster's topics."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from spark_kafka_native._client.java_regex.patterns import java_pattern
from spark_kafka_native._protocol.topic import INTERNAL_TOPICS, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribe:
    """Every partition of the named topics, those added later included."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscribePattern:
    """Every partition of every topic in whose name the Java regular expression is found."""

    pattern: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Assign:
    """Only these partitions."""

    partitions: tuple[TopicPartition, ...]


Subscription = Subscribe | SubscribePattern | Assign


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedPartitions:
    """The result of a subscription in a cluster."""

    partitions: tuple[TopicPartition, ...]
    """Sorted."""
    missing_topics: tuple[str, ...]
    """Topics that the option names and the cluster does not have, sorted. Always empty for a pattern."""
    missing_partitions: tuple[TopicPartition, ...]
    """Assigned partitions that their topic does not have, sorted."""


def topics_to_look_up(subscription: Subscription) -> tuple[str, ...] | None:
    """Topics to look up; None: all."""
    match subscription:
        case Subscribe(topics=topics):
            return topics
        case Assign(partitions=partitions):
            return tuple(sorted({tp.topic for tp in partitions}))
        case SubscribePattern():
            return None
        case _:
            assert_never(subscription)


def select(subscription: Subscription, found: Mapping[str, Sequence[int]]) -> SelectedPartitions:
    """The partitions to read, given the cluster's topics and their partition numbers.

    Internal topics are never read, even if the option names them.
    """
    found = {topic: partitions for topic, partitions in found.items() if topic not in INTERNAL_TOPICS}
    match subscription:
        case Subscribe(topics=topics):
            return SelectedPartitions(
                partitions=_all_partitions(found, topics),
                missing_topics=tuple(sorted(set(topics) - found.keys() - INTERNAL_TOPICS)),
                missing_partitions=(),
            )
        case SubscribePattern(pattern=pattern):
            matching = [topic for topic in found if java_pattern(pattern).search(topic)]
            return SelectedPartitions(
                partitions=_all_partitions(found, matching), missing_topics=(), missing_partitions=()
            )
        case Assign(partitions=partitions):
            present = [tp for tp in partitions if tp.partition in found.get(tp.topic, ())]
            absent = [tp for tp in partitions if tp.topic in found and tp.partition not in found[tp.topic]]
            return SelectedPartitions(
                partitions=tuple(sorted(present)),
                missing_topics=tuple(sorted({tp.topic for tp in partitions} - found.keys() - INTERNAL_TOPICS)),
                missing_partitions=tuple(sorted(absent)),
            )
        case _:
            assert_never(subscription)


def unnamed(subscription: Subscription, partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
    """Those of ``partitions`` that the option does not name, whether they exist or not."""
    if isinstance(subscription, Assign):
        return set(partitions) - set(subscription.partitions)
    partitions = set(partitions)
    topics = {tp.topic for tp in partitions}
    if isinstance(subscription, Subscribe):
        named = topics.intersection(subscription.topics)
    else:
        named = {topic for topic in topics if java_pattern(subscription.pattern).search(topic)}
    return {tp for tp in partitions if tp.topic not in named}


def internal_topics(subscription: Subscription) -> tuple[str, ...]:
    """Internal topics that the option names, sorted."""
    return tuple(sorted(INTERNAL_TOPICS.intersection(topics_to_look_up(subscription) or ())))


def describe(subscription: Subscription) -> str:
    """The option that made the subscription, for messages: ``subscribe=a,b``."""
    match subscription:
        case Subscribe(topics=topics):
            return f"subscribe={','.join(topics)}"
        case SubscribePattern(pattern=pattern):
            return f"subscribePattern={pattern}"
        case Assign(partitions=partitions):
            numbers: dict[str, list[int]] = {}
            for tp in partitions:
                numbers.setdefault(tp.topic, []).append(tp.partition)
            return f"assign={json.dumps(numbers, separators=(',', ':'))}"
        case _:
            assert_never(subscription)


def _all_partitions(found: Mapping[str, Sequence[int]], topics: Sequence[str]) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(TopicPartition(topic, partition) for topic in set(topics) for partition in found.get(topic, ()))
    )
