"""The topics of both clusters, and which of their offsets are compared."""

import dataclasses
import json
from collections.abc import Iterable, Mapping

from spark_kafka_native._command_line.output import ToolFailed
from spark_kafka_native._jobs.points import Point, cluster_state, resolve
from spark_kafka_native._protocol.topic import TopicPartition, by_topic, listed
from spark_kafka_native._spark.options.parsed import SourceOptions
from spark_kafka_native._spark.options.parsing import Query, parse_source_options
from spark_kafka_native._spark.planning.assignment import select_existing
from spark_kafka_native._spark.planning.bounds import Clock
from spark_kafka_native._spark.planning.cluster_offsets import ClusterOffsets

OffsetRange = tuple[int, int]
"""From the first offset to before the second."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """The topics of one cluster, with the options of the data source, and their offsets."""

    options: Mapping[str, str]
    prefix: str
    """What the names of the topics have before those of the source."""
    offsets: ClusterOffsets
    ranges: Mapping[TopicPartition, OffsetRange]
    """What is compared. The names are those of this cluster."""

    def in_source(self, partition: TopicPartition) -> TopicPartition:
        """The partition with the name of its topic in the source."""
        return TopicPartition(partition.topic.removeprefix(self.prefix), partition.partition)

    @property
    def reading(self) -> dict[str, str]:
        """The options with which the data source reads the ranges."""
        partitions = by_topic(sorted(self.ranges))
        assigned = {topic: [each.partition for each in parts] for topic, parts in partitions.items()}
        bounds = [
            {
                topic: {str(each.partition): self.ranges[each][at] for each in parts}
                for topic, parts in partitions.items()
            }
            for at in (0, 1)
        ]
        return {
            **self.options,
            "assign": json.dumps(assigned),
            "startingOffsets": json.dumps(bounds[0]),
            "endingOffsets": json.dumps(bounds[1]),
            "includeHeaders": "true",
        }


def source_side(
    options: Mapping[str, str], subscription: tuple[str, str], start: Point | None, until: Point | None, now_ms: float
) -> Side:
    """``subscription``: ``subscribe`` or ``subscribePattern`` with its value.

    Raises PlanError: a topic does not exist; ToolFailed: no topic matches; OptionError; KafkaError.
    """
    parsed = _parsed({**options, subscription[0]: subscription[1]}, "--source-bootstrap-servers")
    offsets = ClusterOffsets(parsed.client)
    selected = select_existing(parsed, offsets, Clock(), option="--topics").partitions
    if not selected:
        raise ToolFailed(f"--topic-pattern: no topic matches {subscription[1]!r}")
    return _side(options, "", offsets, selected, start, until, now_ms)


def target_side(
    options: Mapping[str, str],
    source: Side,
    prefix: str,
    start: Point | None,
    until: Point | None,
    now_ms: float,
) -> Side:
    """The copies of the source's topics. Raises ToolFailed: a topic does not exist; OptionError; KafkaError."""
    wanted = sorted({f"{prefix}{partition.topic}" for partition in source.ranges})
    parsed = _parsed({**options, "subscribe": ",".join(wanted)}, "--target-bootstrap-servers")
    offsets = ClusterOffsets(parsed.client)
    topics = offsets.topics(wanted)
    if missing := set(wanted) - topics.keys():
        raise ToolFailed(f"the target cluster has no topic {listed(missing)}")
    partitions = [TopicPartition(topic, number) for topic, numbers in topics.items() for number in numbers]
    return _side(options, prefix, offsets, partitions, start, until, now_ms)


def _side(
    options: Mapping[str, str],
    prefix: str,
    offsets: ClusterOffsets,
    partitions: Iterable[TopicPartition],
    start: Point | None,
    until: Point | None,
    now_ms: float,
) -> Side:
    state = cluster_state(offsets, sorted(partitions))
    starts, ends = resolve(offsets, state, start, until, now_ms=now_ms)
    ranges = {}
    for partition, end in state.end.items():
        until_offset = min(ends.get(partition, end), end)
        begin = max(starts.get(partition, 0), state.first[partition])
        ranges[partition] = begin, max(begin, until_offset)
    return Side(options=options, prefix=prefix, offsets=offsets, ranges=ranges)


def _parsed(options: Mapping[str, str], servers_option: str) -> SourceOptions:
    parsed = parse_source_options(options, Query.BATCH)
    return dataclasses.replace(parsed, client=dataclasses.replace(parsed.client, servers_option=servers_option))
