"""``kafka-consumer-groups.sh``: list, describe, reset and delete consumer groups."""

import argparse
from collections.abc import Iterable, Sequence
from typing import Final

from spark_kafka_native.client.cluster import Cluster
from spark_kafka_native.client.group_admin import (
    GroupDescription,
    delete_group,
    delete_offsets,
    describe_group,
    list_groups,
)
from spark_kafka_native.client.groups import fetch_offsets
from spark_kafka_native.client.offsets import LATEST, list_offsets
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError
from spark_kafka_native.protocol.topic import TopicPartition
from spark_kafka_native.tools.connection import INT64, ToolError, ToolParser, complain, run, say
from spark_kafka_native.tools.offset_reset import add_positions, chosen_partitions, reset

_TOOL: Final = "kafka-consumer-groups"
_EMPTY: Final = frozenset({"Empty", "Dead"})


def main(arguments: Sequence[str]) -> int:
    """Do one thing with groups; the exit status. 0: done. 1: the cluster refused it. 2: a bad option."""
    return run(_parser(), arguments)


def _parser() -> ToolParser:
    parser = ToolParser(_TOOL, "List, describe, reset and delete consumer groups.")
    parser.add_cluster()
    parser.add_actions(
        ("--list", _list, "print the ids of groups"),
        ("--describe", _describe, "print offsets and lag, members or state"),
        ("--delete", _delete, "delete groups without members"),
        ("--delete-offsets", _delete_offsets, "delete offsets of topics that the group does not read"),
        ("--reset-offsets", _reset, "commit other offsets for a group without members"),
    )
    parser.add_argument("--group", action="append", default=[], metavar="ID", help="the group; may be said repeatedly")
    parser.add_argument("--all-groups", action="store_true", help="every group")
    parser.add_argument("--state", nargs="?", const="", metavar="STATE", help="print states; with --list only of STATE")
    parser.add_argument("--type", nargs="?", const="", metavar="TYPE", help="with --list: only of TYPE")
    parser.add_argument("--members", action="store_true", help="with --describe: the members")
    parser.add_argument("--offsets", action="store_true", help="with --describe: offsets and lag, as by default")
    parser.add_argument("--verbose", action="store_true", help="with --members: their partitions too")
    parser.add_argument("--topic", action="append", default=[], metavar="TOPIC[:0,1]", help="partitions to act on")
    parser.add_argument("--all-topics", action="store_true", help="all partitions that the group has offsets for")
    parser.add_argument("--timeout", type=INT64, metavar="MS", help="how long to try")
    add_positions(parser)
    return parser


def _list(cluster: Cluster, options: argparse.Namespace) -> None:
    groups = list_groups(cluster, timeout_ms=options.timeout)
    wanted = {part.strip().lower() for part in (options.state or "").split(",") if part.strip()}
    types = {part.strip().lower() for part in (options.type or "").split(",") if part.strip()}
    chosen = [
        group
        for group in groups
        if (not wanted or group.state.lower() in wanted) and (not types or group.type.lower() in types)
    ]
    if options.state is None and options.type is None:
        for group in chosen:
            say(group.group_id)
        return
    rows = [(group.group_id, *_if(options, group.type, group.state)) for group in chosen]
    _table(("GROUP", *_if(options, "TYPE", "STATE")), rows)


def _if(options: argparse.Namespace, of_type: str, of_state: str) -> tuple[str, ...]:
    return (() if options.type is None else (of_type,)) + (() if options.state is None else (of_state,))


def _groups(cluster: Cluster, options: argparse.Namespace) -> list[str]:
    if options.all_groups:
        return [group.group_id for group in list_groups(cluster, timeout_ms=options.timeout)]
    if not options.group:
        raise ToolError("--group: say which group, or --all-groups")
    return list(options.group)


def _describe(cluster: Cluster, options: argparse.Namespace) -> None:
    for group_id in _groups(cluster, options):
        group = describe_group(cluster, group_id, timeout_ms=options.timeout)
        if options.state is not None:
            columns = ("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS")
            node = cluster.metadata([]).brokers.get(group.coordinator)
            place = f"{node.address if node else '-'} ({group.coordinator})"
            _table(columns, [(group_id, place, group.assignor, group.state, str(len(group.members)))])
        elif options.members:
            _print_members(group, verbose=options.verbose)
        else:
            _print_offsets(cluster, group)


def _print_members(group: GroupDescription, *, verbose: bool) -> None:
    columns = ["GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
    rows = []
    for member in group.members:
        row = [group.group_id, member.member_id, member.instance_id or "-", member.host, member.client_id]
        row.append(str(len(member.partitions)))
        if verbose:
            row.append(", ".join(map(str, sorted(member.partitions))) or "-")
        rows.append(tuple(row))
    if not rows:
        complain(f"Consumer group '{group.group_id}' has no active members.")
    _table((*columns, *(("ASSIGNMENT",) if verbose else ())), rows)


def _print_offsets(cluster: Cluster, group: GroupDescription) -> None:
    committed = fetch_offsets(cluster, group.group_id)
    owners = {partition: member for member in group.members for partition in member.partitions}
    ends = _ends(cluster, {*committed, *owners})
    rows = []
    for partition in sorted({*committed, *owners}):
        owner = owners.get(partition)
        position = committed[partition].offset if partition in committed else None
        end = ends.get(partition)
        lag = "-" if position is None or end is None else str(end - position)
        place = (partition.topic, str(partition.partition))
        who = (owner.member_id, owner.host, owner.client_id) if owner else ("-", "-", "-")
        rows.append((group.group_id, *place, _shown(position), _shown(end), lag, *who))
    if group.state in _EMPTY:
        complain(f"Consumer group '{group.group_id}' has no active members.")
    columns = ("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST")
    _table((*columns, "CLIENT-ID"), rows)


def _shown(number: int | None) -> str:
    return "-" if number is None else str(number)


def _ends(cluster: Cluster, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """The ends of the partitions that are still there."""
    there = cluster.metadata(sorted({partition.topic for partition in partitions}), missing_ok=True).topics
    wanted = {
        partition: LATEST
        for partition in partitions
        if partition.topic in there and partition.partition in there[partition.topic].partitions
    }
    return {partition: found.offset for partition, found in list_offsets(cluster, wanted).items()}


def _delete(cluster: Cluster, options: argparse.Namespace) -> None:
    failed: KafkaError | None = None
    for group_id in _groups(cluster, options):
        try:
            delete_group(cluster, group_id, timeout_ms=options.timeout)
            say(f"Deletion of requested consumer groups ('{group_id}') was successful.")
        except KafkaError as error:
            complain(f"Error: Deletion of group '{group_id}' failed due to: {error}")
            failed = error
    if failed is not None:
        raise failed


def _delete_offsets(cluster: Cluster, options: argparse.Namespace) -> None:
    (group_id,) = _one(_groups(cluster, options))
    partitions = chosen_partitions(cluster, group_id, options)
    results = delete_offsets(cluster, group_id, partitions, timeout_ms=options.timeout)
    rows = [
        (partition.topic, str(partition.partition), "Successful" if code is ErrorCode.NONE else f"Error: {code.name}")
        for partition, code in sorted(results.items())
    ]
    _table(("TOPIC", "PARTITION", "STATUS"), rows)
    failed = next((code for code in results.values() if code is not ErrorCode.NONE), None)
    if failed is not None:
        raise KafkaError(failed, f"group {group_id}: not all offsets could be deleted")


def _reset(cluster: Cluster, options: argparse.Namespace) -> None:
    rows = []
    for group_id in _groups(cluster, options):
        for partition, offset in sorted(reset(cluster, group_id, options).items()):
            rows.append((group_id, partition.topic, str(partition.partition), str(offset)))
    _table(("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"), rows)


def _one(groups: Sequence[str]) -> Sequence[str]:
    if len(groups) != 1:
        raise ToolError(f"--group: one group, not {len(groups)}")
    return groups


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Columns as wide as what is in them, a blank line before: as programs that read this expect."""
    lines = [columns, *rows]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    say("")
    for line in lines:
        say(" ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
