"""Which offsets a group gets by ``kafka-consumer-groups --reset-offsets``."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from spark_kafka_native._client.admin.committed_offsets import OffsetAndMetadata, commit_offsets, fetch_offsets
from spark_kafka_native._client.admin.groups import describe_group
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.consumer.offsets import EARLIEST, LATEST, offsets_at
from spark_kafka_native._command_line.commands import Options
from spark_kafka_native._command_line.output import InvalidOption, ToolFailed, complain
from spark_kafka_native._command_line.parameters import INT64, OptionGroup, flag, option, together
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.topic import TopicPartition

_RESETTABLE: Final = frozenset({"Empty", "Dead"})
_DURATION: Final = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")
Offsets = dict[TopicPartition, int]


_WHERE: Final = OptionGroup("New offsets", exclusive=True)
_DOING: Final = OptionGroup("Commit", exclusive=True)
position_options = together(
    flag("--to-earliest", group=_WHERE, help="to the earliest offsets"),
    flag("--to-latest", group=_WHERE, help="to the latest offsets"),
    flag(
        "--to-current",
        group=_WHERE,
        help="to the committed offsets; to the latest offsets of partitions without a commit",
    ),
    option(
        "--to-offset",
        type=INT64,
        metavar="N",
        group=_WHERE,
        help="to offset N, or the nearest offset of the partition",
    ),
    option("--shift-by", type=INT64, metavar="N", group=_WHERE, help="by N offsets; back if N is negative"),
    option(
        "--to-datetime",
        metavar="2026-01-31T12:00:00.000",
        group=_WHERE,
        help="to the first record since this time (UTC)",
    ),
    option(
        "--by-duration",
        metavar="PnDTnHnMnS",
        group=_WHERE,
        help="to the first record of the last days, hours, minutes and seconds",
    ),
    flag("--execute", group=_DOING, help="commit the offsets"),
    flag("--dry-run", group=_DOING, help="only print the offsets, which is the default"),
)
"""The options for the new offsets, and ``--execute``."""


def reset(cluster: Cluster, group_id: str, options: Options) -> Offsets:
    """The new offsets of a group, committed with ``--execute``.

    Raises ToolFailed: the group has members, a partition has no leader.
    """
    state = _state(cluster, group_id)
    if state not in _RESETTABLE:
        raise ToolFailed(f"group {group_id} is {state}: offsets are reset while a group has no members")
    partitions = chosen_partitions(cluster, group_id, options)
    offsets = new_offsets(cluster, group_id, partitions, options)
    if options.execute:
        commits = {partition: OffsetAndMetadata(offset=offset) for partition, offset in offsets.items()}
        commit_offsets(cluster, group_id, commits)
    return offsets


def chosen_partitions(cluster: Cluster, group_id: str, options: Options) -> list[TopicPartition]:
    """What ``--topic`` or ``--all-topics`` stands for. Raises InvalidOption, KafkaError."""
    if options.all_topics:
        return sorted(fetch_offsets(cluster, group_id))
    if not options.topic:
        raise InvalidOption("--topic or --all-topics is required")
    chosen: list[TopicPartition] = []
    for item in options.topic:
        name, _, numbers = item.partition(":")
        there = cluster.metadata([name]).topics[name].partitions
        try:
            wanted = [int(number) for number in numbers.split(",")] if numbers else sorted(there)
        except ValueError:
            raise InvalidOption(f"--topic: {item!r} is not TOPIC or TOPIC:0,1") from None
        missing = [number for number in wanted if number not in there]
        if missing:
            raise InvalidOption(f"--topic: topic {name} has no partition {missing[0]}")
        chosen += [TopicPartition(name, number) for number in wanted]
    return chosen


def new_offsets(cluster: Cluster, group_id: str, partitions: list[TopicPartition], options: Options) -> Offsets:
    """The offsets that the options of ``position_options`` stand for, within what the partitions have."""
    _refuse_leaderless(cluster, group_id, partitions)
    first = offsets_at(cluster, dict.fromkeys(partitions, EARLIEST))
    last = offsets_at(cluster, dict.fromkeys(partitions, LATEST))
    if options.to_earliest:
        return first
    if options.to_latest:
        return last
    wanted = _wanted(cluster, group_id, partitions, options, last)
    return {each: _within(each, offset, first[each], last[each]) for each, offset in wanted.items()}


def _within(partition: TopicPartition, offset: int, first: int, last: int) -> int:
    """The nearest offset that the partition has. Warns as Apache Kafka does."""
    found = min(max(offset, first), last)
    if found != offset:
        problem = "higher than latest" if offset > last else "lower than earliest"
        text = (
            f"New offset ({offset}) is {problem} offset for topic partition {partition}. Value will be set to {found}"
        )
        complain(f"WARNING: {text}")
    return found


def _wanted(
    cluster: Cluster, group_id: str, partitions: list[TopicPartition], options: Options, last: Offsets
) -> Offsets:
    if options.to_offset is not None:
        return dict.fromkeys(partitions, options.to_offset)
    if options.to_datetime is not None or options.by_duration is not None:
        since_ms = _since_ms(options)
        found = offsets_at(cluster, dict.fromkeys(partitions, since_ms))
        return {partition: offset if offset >= 0 else last[partition] for partition, offset in found.items()}
    there = fetch_offsets(cluster, group_id, partitions)
    committed = {partition: found.offset for partition, found in there.items()}
    if options.to_current:
        return {partition: committed.get(partition, last[partition]) for partition in partitions}
    if options.shift_by is not None:
        without = [partition for partition in partitions if partition not in committed]
        if without:
            raise ToolFailed(f"--shift-by: group {group_id} has no offset for {without[0]}")
        return {partition: offset + options.shift_by for partition, offset in committed.items()}
    raise InvalidOption(
        "--reset-offsets needs one of --to-earliest, --to-latest, --to-current, --to-offset, --shift-by, --to-datetime "
        "and --by-duration"
    )


def _since_ms(options: Options) -> int:
    if options.by_duration is not None:
        return round((datetime.now(UTC) - parse_duration(options.by_duration)).timestamp() * 1000)
    try:
        moment = datetime.fromisoformat(options.to_datetime)
    except ValueError:
        raise InvalidOption(f"--to-datetime: {options.to_datetime!r} is not like 2026-01-31T12:00:00.000") from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def parse_duration(text: str) -> timedelta:
    """An ISO 8601 duration of days and smaller. Raises InvalidOption."""
    match = _DURATION.fullmatch(text.strip().upper())
    if match is None or not any(match.groups()):
        raise InvalidOption(f"--by-duration: {text!r} is not like P1DT2H30M")
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)


def _refuse_leaderless(cluster: Cluster, group_id: str, partitions: list[TopicPartition]) -> None:
    """Raise ToolFailed if partitions exist and have no leader, as Apache Kafka does. Their offsets are unknown."""
    metadata = cluster.metadata({partition.topic for partition in partitions})
    led = metadata.leaders(partitions)
    without = sorted(
        each for each in partitions if each not in led and each.partition in metadata.topics[each.topic].partitions
    )
    if without:
        names = ", ".join(map(str, without))
        raise ToolFailed(f"group {group_id}: no offset was reset, because these partitions have no leader: {names}")


def _state(cluster: Cluster, group_id: str) -> str:
    try:
        return describe_group(cluster, group_id).state
    except KafkaError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return "Dead"  # one that is made by the commit
        raise
