"""``kafka-get-offsets.sh``: first, last and other offsets of partitions."""

import argparse
from collections.abc import Sequence
from typing import Final

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.consumer.offsets import EARLIEST, LATEST, MAX_TIMESTAMP, list_offsets
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._tools.connection import run
from spark_kafka_native._tools.options import ToolParser
from spark_kafka_native._tools.output import ToolError, complain, say

_POSITIONS: Final = {"latest": LATEST, "earliest": EARLIEST, "max-timestamp": MAX_TIMESTAMP}


def main(arguments: Sequence[str]) -> int:
    """Print ``topic:partition:offset`` lines; the exit status. 0: done. 1: the cluster refused it. 2: a bad option."""
    parser = ToolParser("kafka-get-offsets", "Print offsets, as topic:partition:offset.")
    parser.add_cluster()
    parser.add_argument("--topic", help="the topic; by default all topics")
    parser.add_argument("--partitions", metavar="N,N", help="the partitions; by default all partitions")
    parser.add_argument(
        "--time", default="latest", help="latest (-1), earliest (-2), max-timestamp (-3), or a time in ms (latest)"
    )
    parser.add_argument("--exclude-internal-topics", action="store_true", help="leave out internal topics")
    parser.set_defaults(action=_print_offsets)
    return run(parser, arguments)


def _print_offsets(cluster: Cluster, options: argparse.Namespace) -> None:
    position = _position(options.time)
    chosen = _numbers(options.partitions)
    metadata = cluster.metadata([options.topic] if options.topic else None)
    wanted = {
        TopicPartition(name, index)
        for name, topic in metadata.topics.items()
        if not (options.exclude_internal_topics and topic.internal)
        for index in topic.partitions
        if chosen is None or index in chosen
    }
    led = metadata.leaders(wanted)
    for partition in sorted(wanted - led.keys()):
        complain(f"Skip getting offsets for topic-partition {partition} due to error: {partition} has no leader")
    for partition, found in sorted(list_offsets(cluster, dict.fromkeys(led, position)).items()):
        say(f"{partition.topic}:{partition.partition}:{found.offset if found.offset >= 0 else ''}")


def _position(text: str) -> int:
    try:
        return _POSITIONS[text] if text in _POSITIONS else int(text)
    except ValueError:
        raise ToolError(f"--time: must be a time in ms or one of {', '.join(_POSITIONS)}, not {text!r}") from None


def _numbers(text: str | None) -> set[int] | None:
    try:
        return None if text is None else {int(part) for part in text.split(",")}
    except ValueError:
        raise ToolError(f"--partitions: {text!r} is not N,N") from None
