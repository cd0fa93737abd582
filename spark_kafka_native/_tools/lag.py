"""``pykafka lag``: the records between what groups or streaming queries have read and the ends of their partitions."""

import time
from collections.abc import Mapping
from typing import Any, Final

import click

from spark_kafka_native._client.admin.committed_offsets import fetch_offsets
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.consumer.cursor import PartitionRange
from spark_kafka_native._client.consumer.fetcher import Fetcher
from spark_kafka_native._client.consumer.offsets import EARLIEST, LATEST, offsets_at
from spark_kafka_native._client.errors import OffsetOutOfRange
from spark_kafka_native._command_line.commands import Options
from spark_kafka_native._command_line.output import ToolFailure, complain
from spark_kafka_native._command_line.parameters import INT64, OptionGroup, option
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._tools.connection import open_cluster
from spark_kafka_native._tools.group_tables import LAG_COLUMNS, PARTITION, TOPIC
from spark_kafka_native._tools.options import cluster_options, command
from spark_kafka_native._tools.query_checkpoint import committed_offsets
from spark_kafka_native._tools.tables import Cell, Column, Table, json_flag

_ABOVE_LIMIT: Final = 3
"""The exit status if the lag of a partition is above --max-lag."""
_WHOSE: Final = OptionGroup("Group or checkpoint", exclusive=True, required=True)
_ONE_BATCH: Final = {"max.partition.fetch.bytes": "1"}
"""Brokers return at least one batch of a partition, and no more for this limit."""


@command(
    "lag",
    "Print the lag of consumer groups, or of streaming queries. It is the number of records between what they have "
    "read and the ends of their partitions. AGE is how long ago the next record to read was written.",
    """\
examples
  {command} --bootstrap-server localhost:9092 --group etl
  {command} --bootstrap-server localhost:9092 --checkpoint s3://bucket/checkpoints/visits --json
  {command} --bootstrap-server localhost:9092 --group etl --max-lag 10000 > /dev/null || echo "etl is late"

exit status
  3 the lag of a partition is above --max-lag""",
)
@option("--group", multiple=True, metavar="ID", group=_WHOSE, help="a consumer group; the option can be repeated")
@option(
    "--checkpoint",
    multiple=True,
    metavar="DIR",
    group=_WHOSE,
    help="checkpointLocation of a streaming query, also of Spark's JVM connector: a directory, or a URL with s3, gs, "
    "abfs or hdfs; the option can be repeated",
)
@option("--max-lag", type=INT64, metavar="N", help="end with status 3 if a partition has more than N records to read")
@option(
    "--interval",
    type=click.FloatRange(min=0.1),
    metavar="S",
    help="print the lag every S seconds, until --max-lag is exceeded or the command is interrupted",
)
@json_flag
@cluster_options()
def lag(**given: Any) -> int:
    """Returns the exit status."""
    options = Options(**given)
    with open_cluster(options, ("", _ONE_BATCH)) as cluster:
        while True:
            found = [_show(cluster, whose, offsets, options) for whose, offsets in _offsets(cluster, options).items()]
            if options.max_lag is not None and max(found) > options.max_lag:
                return _ABOVE_LIMIT
            if options.interval is None:
                return 0
            time.sleep(options.interval)


def _offsets(cluster: Cluster, options: Options) -> dict[str, Mapping[TopicPartition, int]]:
    """The next offset of each partition, by group or checkpoint. Raises ToolFailure: no committed offsets."""
    found: dict[str, Mapping[TopicPartition, int]] = {each: committed_offsets(each) for each in options.checkpoint}
    for group in options.group:
        committed = fetch_offsets(cluster, group)
        if not committed:
            raise ToolFailure(f"--group {group}: the group has no committed offsets")
        found[group] = {partition: commit.offset for partition, commit in committed.items()}
    return found


def _show(cluster: Cluster, whose: str, offsets: Mapping[TopicPartition, int], options: Options) -> int:
    """Print the lag of one group or checkpoint; return the largest of a partition."""
    topics = cluster.metadata({partition.topic for partition in offsets}, missing_ok=True)
    led = topics.leaders(offsets)
    for partition in sorted(offsets.keys() - led.keys()):
        complain(f"{whose}: {partition} does not exist, or has no leader")
    ends = offsets_at(cluster, dict.fromkeys(led, LATEST))
    for partition, end in sorted(ends.items()):
        if offsets[partition] > end:
            problem = f"{partition} ends at {end}, before offset {offsets[partition]}: was its topic recreated?"
            complain(f"{whose}: {problem}")
    lags = {partition: max(end - offsets[partition], 0) for partition, end in ends.items()}
    unread = {partition: offsets[partition] for partition, count in lags.items() if count}
    ages = _ages(cluster, whose, unread, ends)
    rows: list[list[Cell]] = [
        [whose, part.topic, part.partition, offset, ends.get(part), lags.get(part), ages.get(part)]
        for part, offset in sorted(offsets.items())
    ]
    name = "group" if options.group else "checkpoint"
    columns = [
        Column(name.upper(), name, 15, grows=True),
        TOPIC,
        PARTITION,
        *LAG_COLUMNS,
        Column("AGE (S)", "ageSeconds"),
    ]
    Table(columns, rows).show(as_json=options.as_json)
    return max(lags.values(), default=0)


def _ages(
    cluster: Cluster, whose: str, unread: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """How many seconds ago the next record of each partition was written; none if all records were deleted."""
    firsts = offsets_at(cluster, dict.fromkeys(unread, EARLIEST))
    for partition, first in sorted(firsts.items()):
        if first > unread[partition]:
            lost = f"offsets {unread[partition]} to {first - 1} were deleted before they were read"
            complain(f"{whose}: {partition}: {lost}")
    ranges = [
        PartitionRange(partition=each, from_offset=max(unread[each], first), until_offset=ends[each])
        for each, first in firsts.items()
        if first < ends[each]
    ]
    ages: dict[TopicPartition, int] = {}
    with Fetcher(cluster, ranges, columns=["timestamp"]) as fetcher:
        while True:
            try:
                found = next(iter(fetcher), None)
            except OffsetOutOfRange as error:  # the records were deleted meanwhile
                fetcher.remove(error.partition)
                continue
            if found is None:
                return ages
            partition, rows = found
            written_ms = rows.column("timestamp")[0].value
            if written_ms is not None:  # messages of Kafka before 0.10 have no time
                ages[partition] = max(0, round(time.time() - written_ms / 1000))
            fetcher.remove(partition)
