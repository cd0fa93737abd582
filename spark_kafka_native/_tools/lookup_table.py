"""``kafka-lookup-table``: create, reorganize, describe, verify and delete tables of the partitioner ``lookup``."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.consumer.cursor import PartitionRange
from spark_kafka_native._client.consumer.offsets import EARLIEST, LATEST, offsets_at
from spark_kafka_native._client.consumer.row_fetcher import row_fetcher
from spark_kafka_native._client.lookup_tables.stores import Store, store_of
from spark_kafka_native._client.partitioning.bucket_table import DEFAULT_BUCKETS, BucketTable
from spark_kafka_native._client.partitioning.partitioner_names import LookupTableError, TableLocation
from spark_kafka_native._command_line.commands import Options
from spark_kafka_native._command_line.output import FAILED, InvalidOption, ToolFailed, complain, say, say_json
from spark_kafka_native._command_line.parameters import POSITIVE, flag, option
from spark_kafka_native._protocol.errors import counted
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._records.arrow.views import nulls
from spark_kafka_native._tools.connection import open_cluster
from spark_kafka_native._tools.options import ACTIONS, chosen_action, cluster_options, command
from spark_kafka_native._tools.tables import Column, Table, json_flag

_TOPIC: Final = Column("TOPIC", "topic", 15, grows=True)
_PARTITION: Final = Column("PARTITION", "partition", 9)
_SHOWN_MOVES: Final = 10
"""Of those that no reorganization can have made, in an error. The table has all."""


@command(
    "kafka-lookup-table",
    "Create, reorganize and verify tables of the partitioner lookup. A table has the partition of each of a fixed "
    "number of buckets of keys. A reorganization moves buckets to partitions that were added to the topic, and to no "
    "other partition.",
    """\
examples
  {command} --bootstrap-server localhost:9092 --lookup-table topic:lookup-tables --create --topic events
  {command} --bootstrap-server localhost:9092 --lookup-table topic:lookup-tables --reorganize --topic events --dry-run
  {command} --bootstrap-server localhost:9092 --lookup-table file:/srv/tables.json --verify --topic events --json

exit status
  1 the command failed; with --verify: also if a key moves to a partition that existed before""",
)
@flag("--create", group=ACTIONS, help="create the table of a topic, for the partitions that it has")
@flag("--reorganize", group=ACTIONS, help="move buckets to the partitions that were added to a topic")
@flag("--describe", group=ACTIONS, help="print the buckets of each partition, and what the last reorganization moved")
@flag("--verify", group=ACTIONS, help="read a topic, and print how many records have keys that moved, and where to")
@flag("--delete", group=ACTIONS, help="delete the table of a topic")
@option("--lookup-table", metavar="LOCATION", help="where the tables are: topic:NAME or file:/PATH (required)")
@option("--topic", help="the topic; optional with --describe")
@option("--buckets", type=POSITIVE, metavar="N", help=f"with --create: the number of buckets ({DEFAULT_BUCKETS})")
@flag("--dry-run", help="with --reorganize: print what would move, and change nothing")
@json_flag
@cluster_options()
def lookup_table(**given: Any) -> int:
    """Returns the exit status."""
    options = Options(**given)
    actions = {
        "create": _create,
        "reorganize": _reorganize,
        "describe": _describe,
        "verify": _verify,
        "delete": _delete,
    }
    action = chosen_action(actions, options)
    location = _checked(options)
    with open_cluster(options) as cluster, _failing():
        return action(cluster, store_of(cluster, location), options)


def _checked(options: Options) -> TableLocation:
    """The location. Raises InvalidOption for options that do not belong to the action."""
    if options.lookup_table is None:
        raise InvalidOption("--lookup-table is required: topic:NAME or file:/PATH")
    try:
        location = TableLocation.parse(options.lookup_table)
    except ValueError as error:
        raise InvalidOption(f"--lookup-table: {error}") from error
    if options.topic is None and not options.describe:
        raise InvalidOption("--topic is required")
    if options.buckets is not None and not options.create:
        raise InvalidOption("--buckets is an option of --create")
    if options.dry_run and not options.reorganize:
        raise InvalidOption("--dry-run is an option of --reorganize")
    return location


@contextmanager
def _failing() -> Iterator[None]:
    try:
        yield
    except LookupTableError as error:
        raise ToolFailed(str(error)) from error


def _create(cluster: Cluster, store: Store, options: Options) -> int:
    table = BucketTable.create(options.topic, _partitions(cluster, options.topic), options.buckets or DEFAULT_BUCKETS)

    def change(before: BucketTable | None) -> BucketTable:
        if before is not None:
            raise LookupTableError(
                f"topic {options.topic} has a table in {store}, of {counted(before.partition_count, 'partition')}; "
                "--reorganize changes it for more partitions"
            )
        return table

    store.change(options.topic, change)
    _show([table], options)
    return 0


def _reorganize(cluster: Cluster, store: Store, options: Options) -> int:
    partitions = _partitions(cluster, options.topic)

    before: BucketTable | None = None

    def change(found: BucketTable | None) -> BucketTable:
        nonlocal before
        before = _existing(found, store, options.topic)
        return before.reorganize(partitions)

    if options.dry_run:
        after: BucketTable | None = change(store.read([options.topic]).get(options.topic))
    else:
        after = store.change(options.topic, change)
    assert after is not None, "the change returns a table"
    if after is before:
        complain(f"topic {options.topic} has {counted(partitions, 'partition')}, as its table; no bucket moves")
    _show([after], options)
    return 0


def _describe(cluster: Cluster, store: Store, options: Options) -> int:
    found = store.read(None if options.topic is None else [options.topic])
    if options.topic is not None:
        _existing(found.get(options.topic), store, options.topic)
    _show([table for _, table in sorted(found.items())], options)
    sizes = cluster.metadata(found, missing_ok=True).topics if found else {}
    for name, table in sorted(found.items()):
        partitions = len(sizes[name].partitions) if name in sizes else 0
        if not partitions:
            complain(f"topic {name} does not exist; --delete deletes its table")
        elif partitions > table.partition_count:
            complain(
                f"topic {name} has {counted(partitions, 'partition')}, and its table {table.partition_count}: keys go "
                "to the added partitions after --reorganize"
            )
        elif missing := _missing_partitions(table, partitions):
            complain(missing)
    return 0


def _missing_partitions(table: BucketTable, partitions: int) -> str:
    """The problem of a topic with fewer partitions than its table; empty without it."""
    if partitions >= table.partition_count:
        return ""
    return (
        f"topic {table.topic} has {counted(partitions, 'partition')}, fewer than its table, {table.partition_count}: a "
        "write with the table fails. If the topic was deleted and created again, --delete and --create its table"
    )


def _delete(_: Cluster, store: Store, options: Options) -> int:
    def change(before: BucketTable | None) -> None:
        if before is None:
            raise LookupTableError(f"topic {options.topic} has no table in {store}; nothing was deleted")

    store.change(options.topic, change)
    if options.as_json:
        say_json({"topic": options.topic, "deleted": True})
    else:
        say(f"Deleted the table of topic {options.topic}.")
    return 0


def _partitions(cluster: Cluster, topic: str) -> int:
    return len(cluster.metadata([topic]).topics[topic].partitions)


def _existing(table: BucketTable | None, store: Store, topic: str) -> BucketTable:
    if table is None:
        raise LookupTableError(f"topic {topic} has no table in {store}; --create creates it")
    return table


def _show(tables: list[BucketTable], options: Options) -> None:
    """Print a line for each partition: its buckets, and how many of them the last reorganization moved, and where."""
    rows = []
    for table in tables:
        moves = table.moves()
        came: Counter[int] = Counter()
        for to_new in moves.values():
            came.update(to_new)
        for partition, buckets in enumerate(table.bucket_counts().tolist()):
            to_new = moves.get(partition, {})
            rows.append((table, partition, buckets, came[partition], to_new))
    if options.as_json:
        for table, partition, buckets, count, to_new in rows:
            say_json(
                {
                    "topic": table.topic,
                    "version": table.version,
                    "partition": partition,
                    "buckets": buckets,
                    "bucketsMovedHere": count,
                    "bucketsMovedTo": _keyed(to_new),
                }
            )
        return
    columns = [
        _TOPIC, Column("VERSION", None, 7), _PARTITION, Column("BUCKETS", None, 7), Column("MOVED HERE", None, 10),
        Column("MOVED TO PARTITION:BUCKETS", None),
    ]  # fmt: skip
    lines = [
        (table.topic, table.version, partition, buckets, count, _text(to_new))
        for table, partition, buckets, count, to_new in rows
    ]
    Table(columns, lines).show(as_json=False, blank_line=False)


def _keyed(counts: Mapping[int, int]) -> dict[str, int]:
    return {str(partition): count for partition, count in sorted(counts.items())}


def _text(counts: Mapping[int, int]) -> str:
    return ",".join(f"{partition}:{count}" for partition, count in sorted(counts.items())) or "-"


# --- verification


@dataclass(slots=True)
class _Found:
    """The records of a partition: by whether their keys belong to it by the table."""

    records: int = 0
    without_key: int = 0
    stay: int = 0
    moved: Counter[int] = field(default_factory=Counter)
    """Partition by the table -> records."""


def _verify(cluster: Cluster, store: Store, options: Options) -> int:
    """Fails if the key of a record moves to a partition that was there when the record's partition was added."""
    topic = options.topic
    table = _existing(store.read([topic]).get(topic), store, topic)
    found = _read(cluster, table)
    rows = []
    for partition, each in sorted(found.items()):
        row = (topic, partition, each.records, each.without_key, each.stay)
        rows.append((*row, _text(each.moved)))
        if options.as_json:
            names = ("topic", "partition", "records", "withoutKey", "stay")
            say_json({**dict(zip(names, row, strict=True)), "movedTo": _keyed(each.moved)})
    if not options.as_json:
        columns = [
            _TOPIC, _PARTITION, Column("RECORDS", None, 10), Column("WITHOUT KEY", None, 11), Column("STAY", None, 10),
            Column("MOVED TO PARTITION:RECORDS", None),
        ]  # fmt: skip
        Table(columns, rows).show(as_json=False, blank_line=False)
    wrong = [
        (f"{old}->{new}", count)
        for old, each in sorted(found.items())
        for new, count in sorted(each.moved.items())
        if not table.may_move(old, new)
    ]
    if wrong:
        moves = ", ".join(move for move, _ in wrong[:_SHOWN_MOVES]) + (", ..." if len(wrong) > _SHOWN_MOVES else "")
        records = counted(sum(count for _, count in wrong), "record")
        complain(
            f"topic {topic}: {records} with keys that no reorganization has moved, in partition->partition by the "
            f"table: {moves}. Another partitioner or table was used for them"
        )
    missing = _missing_partitions(table, len(found))
    if missing:
        complain(missing)
    return FAILED if wrong or missing else 0


def _read(cluster: Cluster, table: BucketTable) -> dict[int, _Found]:
    """Read the keys of all records of a topic, a record batch at a time."""
    numbers = cluster.metadata([table.topic]).topics[table.topic].partitions
    partitions = [TopicPartition(table.topic, number) for number in numbers]
    begins = offsets_at(cluster, dict.fromkeys(partitions, EARLIEST))
    ends = offsets_at(cluster, dict.fromkeys(partitions, LATEST))
    ranges = [PartitionRange(partition=each, from_offset=begins[each], until_offset=ends[each]) for each in partitions]
    found = {number: _Found() for number in numbers}
    with row_fetcher(cluster, ranges, columns=("key",)) as fetcher:
        for partition, rows in fetcher:
            keys = rows.column("key")
            each = found[partition.partition]
            absent = nulls(keys)
            targets = table.partitions_of(keys)
            if absent is not None:
                targets = targets[~absent]
            counts = np.bincount(targets, minlength=table.partition_count)
            each.records += rows.num_rows
            each.without_key += rows.num_rows - len(targets)
            for target in np.flatnonzero(counts).tolist():
                if target == partition.partition:
                    each.stay += int(counts[target])
                else:
                    each.moved[target] += int(counts[target])
    return found
