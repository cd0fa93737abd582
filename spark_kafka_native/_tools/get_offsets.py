"""``kafka-get-offsets.sh``: first, last and other offsets of partitions."""

from typing import Final

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.consumer.offsets import EARLIEST, LATEST, MAX_TIMESTAMP, offsets_at
from spark_kafka_native._command_line.commands import Options
from spark_kafka_native._command_line.output import InvalidOption, complain, say_record
from spark_kafka_native._command_line.parameters import flag, option
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._tools.connection import on_cluster
from spark_kafka_native._tools.options import cluster_options, command
from spark_kafka_native._tools.tables import json_flag

_POSITIONS: Final = {"latest": LATEST, "earliest": EARLIEST, "max-timestamp": MAX_TIMESTAMP}


@command(
    "kafka-get-offsets",
    "Print first, last and other offsets of partitions. A line is topic:partition:offset.",
    """\
examples
  {command} --bootstrap-server localhost:9092 --topic events
  {command} --bootstrap-server localhost:9092 --topic events --time earliest --json
  {command} --bootstrap-server localhost:9092 --topic events --time 1767225600000""",
)
@option("--topic", help="the topic; by default all topics")
@option("--partitions", metavar="N,N", help="the partitions; by default all partitions")
@option("--time", default="latest", help="latest (-1), earliest (-2), max-timestamp (-3), or a time in ms (latest)")
@flag("--exclude-internal-topics", help="leave out internal topics")
@json_flag
@cluster_options()
@on_cluster
def get_offsets(cluster: Cluster, options: Options) -> None:
    """Print a line for each partition; partitions without a leader are named on stderr."""
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
    for (topic, number), found in sorted(offsets_at(cluster, dict.fromkeys(led, position)).items()):
        offset = found if found >= 0 else None
        text = f"{topic}:{number}:{'' if offset is None else offset}"
        say_record({"topic": topic, "partition": number, "offset": offset}, text, as_json=options.as_json)


def _position(text: str) -> int:
    try:
        return _POSITIONS[text] if text in _POSITIONS else int(text)
    except ValueError:
        raise InvalidOption(f"--time: must be a time in ms or one of {', '.join(_POSITIONS)}, not {text!r}") from None


def _numbers(text: str | None) -> set[int] | None:
    try:
        return None if text is None else {int(part) for part in text.split(",")}
    except ValueError:
        raise InvalidOption(f"--partitions: {text!r} is not N,N") from None
