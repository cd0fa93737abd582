"""``pykafka lag``: the records between what groups or streaming queries have read and the ends of their partitions."""

import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

import click

from spark_kafka_native._client.admin.committed_offsets import fetch_offsets
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.config import READ_UNCOMMITTED
from spark_kafka_native._client.consumer.cursor import PartitionRange
from spark_kafka_native._client.consumer.offsets import EARLIEST, LATEST, offsets_at
from spark_kafka_native._client.consumer.row_fetcher import row_fetcher
from spark_kafka_native._client.errors import FetchTimeout
from spark_kafka_native._command_line.commands import Options
from spark_kafka_native._command_line.output import ToolFailed, complain
from spark_kafka_native._command_line.parameters import INT64, OptionGroup, flag, option
from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._tools.connection import open_cluster
from spark_kafka_native._tools.groups.group_tables import LAG_COLUMNS, PARTITION, TOPIC
from spark_kafka_native._tools.groups.query_checkpoint import Checkpoint
from spark_kafka_native._tools.options import cluster_options, command
from spark_kafka_native._tools.tables import Cell, Column, Table, json_flag

_DAY_S: Final = 86_400
_ABOVE_LIMIT: Final = 3
"""The exit status if the lag of a partition is above --max-lag, or unknown."""
_WHOSE: Final = OptionGroup("Group or checkpoint", exclusive=True, required=True)
_AGES_TIMEOUT_MS: Final = 10_000
"""The longest time without progress in which the next records are read for their ages."""
_FETCH_BYTES: Final = {"max.partition.fetch.bytes": "16384"}
"""The ages need one batch of a partition, and a response should have those of many partitions."""


@command(
    "lag",
    "Print the lag of consumer groups, or of streaming queries. It is the number of records between what they have "
    "read and the ends of their partitions.",
    """\
examples
  {command} --bootstrap-server localhost:9092 --group etl
  {command} --bootstrap-server localhost:9092 --checkpoint s3://bucket/checkpoints/visits --age --json
  {command} --bootstrap-server localhost:9092 --group etl --max-lag 10000 > /dev/null || echo "etl is late"

exit status
  3 the lag of a partition is above --max-lag, or unknown""",
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
@flag("--age", help="print how long ago the next record to read was written, too; reads a batch of each partition")
@option("--max-lag", type=INT64, metavar="N", help="end with status 3 if a partition has more than N records to read")
@option(
    "--interval",
    type=click.IntRange(1, _DAY_S),
    metavar="S",
    help="print the lag every S seconds, until --max-lag is exceeded, an error occurs or the command is interrupted",
)
@json_flag
@cluster_options()
def lag(**given: Any) -> int:
    """Returns the exit status."""
    options = Options(**given)
    checkpoints = [Checkpoint(location) for location in options.checkpoint]
    with open_cluster(options, ("", _FETCH_BYTES)) as cluster:
        while True:
            found: list[int | None] = []
            for checkpoint in checkpoints:
                found += _show(cluster, str(checkpoint), checkpoint.committed_offsets(), options)
            for group in options.group:
                found += _show(cluster, group, _committed_offsets(cluster, group), options)
            if options.max_lag is not None and any(each is None or each > options.max_lag for each in found):
                return _ABOVE_LIMIT
            if options.interval is None:
                return 0
            time.sleep(options.interval)


def _committed_offsets(cluster: Cluster, group: str) -> dict[TopicPartition, int]:
    """The offsets of a group. Raises ToolFailed: it has none."""
    committed = fetch_offsets(cluster, group)
    if not committed:
        raise ToolFailed(f"--group {group}: the group has no committed offsets")
    return {partition: commit.offset for partition, commit in committed.items()}


def _show(
    cluster: Cluster, whose: str, offsets: Mapping[TopicPartition, int], options: Options
) -> Iterable[int | None]:
    """Print the lag of one group or checkpoint; the lags of its partitions, None where they are unknown."""
    led = cluster.metadata({partition.topic for partition in offsets}, missing_ok=True).leaders(offsets)
    ends = offsets_at(cluster, dict.fromkeys(led, LATEST), isolation=READ_UNCOMMITTED)
    firsts = offsets_at(cluster, dict.fromkeys(led, EARLIEST))
    lags: dict[TopicPartition, int | None] = {}
    for partition, offset in sorted(offsets.items()):
        first, end = firsts.get(partition), ends.get(partition)
        lags[partition] = None if end is None or offset > end else end - offset
        if first is None or end is None:
            complain(f"{whose}: {partition} does not exist, or has no leader")
        elif offset > end:
            complain(f"{whose}: {partition} ends at {end}, before offset {offset}: was its topic recreated?")
        elif first > offset:
            complain(f"{whose}: {partition}: offsets {offset} to {first - 1} were deleted before they were read")
    ages: Mapping[TopicPartition, int] = {}
    if options.age:
        unread = {each: max(offsets[each], firsts[each]) for each, count in lags.items() if count}
        ages = _ages(cluster, whose, unread, ends)
    rows: list[list[Cell]] = []
    for each, offset in sorted(offsets.items()):
        row: list[Cell] = [whose, each.topic, each.partition, offset, ends.get(each), lags[each]]
        rows.append([*row, ages.get(each)] if options.age else row)
    name = "group" if options.group else "checkpoint"
    whose_column = Column(name.upper(), name, 15, grows=True)
    age = [Column("AGE (S)", "ageSeconds")] if options.age else []
    Table([whose_column, TOPIC, PARTITION, *LAG_COLUMNS, *age], rows).show(as_json=options.as_json)
    return lags.values()


def _ages(
    cluster: Cluster, whose: str, unread: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """How many seconds ago the next record of each partition was written; none of partitions that cannot be read."""
    ranges = [
        PartitionRange(partition=partition, from_offset=offset, until_offset=ends[partition])
        for partition, offset in unread.items()
        if offset < ends[partition]
    ]
    ages: dict[TopicPartition, int] = {}
    with row_fetcher(cluster, ranges, columns=["timestamp"], timeout_ms=_AGES_TIMEOUT_MS) as fetcher:
        while True:
            try:
                found = next(iter(fetcher), None)
            except KafkaError as error:
                complain(f"{whose}: no age: {error}")
                if fetcher.failed is None or isinstance(error, FetchTimeout):
                    return ages
                fetcher.remove(fetcher.failed)
                continue
            if found is None:
                return ages
            partition, rows = found
            written_ms = rows.column("timestamp")[0].value
            if written_ms is not None:  # messages of Kafka before 0.10 have no time
                ages[partition] = max(0, round(time.time() - written_ms / 1000))
            fetcher.remove(partition)
