"""``kafka-consumer-groups.sh``: list, describe, reset and delete consumer groups."""

from collections.abc import Iterable, Sequence
from typing import Final

from spark_kafka_native._client.admin.committed_offsets import fetch_offsets
from spark_kafka_native._client.admin.groups import (
    GroupListing,
    delete_group,
    delete_offsets,
    describe_group,
    list_groups,
)
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.consumer.offsets import LATEST, list_offsets
from spark_kafka_native._command_line.commands import Options
from spark_kafka_native._command_line.output import ToolError, complain, say
from spark_kafka_native._command_line.parameters import flag, option
from spark_kafka_native._protocol.consumer_protocol import CONSUMER_PROTOCOL
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._tools.connection import on_cluster
from spark_kafka_native._tools.group_tables import (
    print_groups,
    print_members,
    print_new_offsets,
    print_offsets,
    print_outcomes,
    print_state,
)
from spark_kafka_native._tools.offset_reset import chosen_partitions, position_options, reset
from spark_kafka_native._tools.options import ACTIONS, chosen, cluster_options, command, timeout_option

_PROTOCOL_TYPES: Final = frozenset({"", CONSUMER_PROTOCOL})
_TYPES: Final = frozenset({"", "classic", "consumer"})
"""Of groups of consumers. Brokers before 3.8 do not say a type."""


@command("kafka-consumer-groups", "List, describe, reset and delete consumer groups.")
@flag("--list", group=ACTIONS, help="print the ids of groups")
@flag("--describe", group=ACTIONS, help="print offsets and lag, members or state")
@flag("--delete", group=ACTIONS, help="delete groups without members")
@flag("--delete-offsets", group=ACTIONS, help="delete offsets of topics that the group does not read")
@flag("--reset-offsets", group=ACTIONS, help="commit other offsets for a group without members")
@option(
    "--group",
    multiple=True,
    may_be_empty=True,  # old consumers may have committed offsets for it
    metavar="ID",
    help="a group; the option can be repeated",
)
@flag("--all-groups", help="all groups")
@option(
    "--state",
    is_flag=False,
    flag_value="",
    may_be_empty=True,
    metavar="[STATE]",
    help="print the states of groups; with --list STATE: only groups in these states",
)
@option(
    "--type",
    is_flag=False,
    flag_value="",
    may_be_empty=True,
    metavar="[TYPE]",
    help="with --list: print the types of groups; with TYPE: only groups of these types",
)
@flag("--members", help="with --describe: print the members")
@flag("--offsets", help="with --describe: print offsets and lag, which is the default")
@flag("--verbose", help="with --describe: also print epochs, and the partitions of members")
@option(
    "--topic",
    multiple=True,
    metavar="TOPIC[:0,1]",
    help="the topic, or some of its partitions, for --reset-offsets and --delete-offsets",
)
@flag("--all-topics", help="all partitions for which the group has committed offsets")
@position_options
@cluster_options()
@timeout_option
@on_cluster
def consumer_groups(cluster: Cluster, options: Options) -> None:
    """One action with one or more groups."""
    actions = {
        "list": _list,
        "describe": _describe,
        "delete": _delete,
        "delete_offsets": _delete_offsets,
        "reset_offsets": _reset,
    }
    chosen(actions, options)(cluster, options)


def _list(cluster: Cluster, options: Options) -> None:
    groups = _consumer_groups(cluster)
    wanted = {part.strip().lower() for part in (options.state or "").split(",") if part.strip()}
    types = {part.strip().lower() for part in (options.type or "").split(",") if part.strip()}
    found = [
        group
        for group in groups
        if (not wanted or group.state.lower() in wanted) and (not types or group.type.lower() in types)
    ]
    if options.state is None and options.type is None:
        for group in found:
            say(group.group_id)
        return
    print_groups(found, types=options.type is not None, states=options.state is not None)


def _consumer_groups(cluster: Cluster) -> list[GroupListing]:
    """The groups of consumers, without those of Kafka Connect, of share groups and of streams groups."""
    groups = list_groups(cluster)
    return [each for each in groups if each.protocol_type in _PROTOCOL_TYPES and each.type.lower() in _TYPES]


def _groups(cluster: Cluster, options: Options) -> list[str]:
    if options.all_groups:
        return [group.group_id for group in _consumer_groups(cluster)]
    if not options.group:
        raise ToolError("--group or --all-groups is required")
    return list(options.group)


def _describe(cluster: Cluster, options: Options) -> None:
    for group_id in _groups(cluster, options):
        group = describe_group(cluster, group_id)
        if options.members:
            print_members(group, verbose=options.verbose)
        elif options.state is not None and not options.offsets:
            node = cluster.metadata([]).brokers.get(group.coordinator)
            print_state(group, str(node.address) if node else "-", verbose=options.verbose)
        else:
            committed = fetch_offsets(cluster, group_id)
            assigned = {partition for member in group.members for partition in member.partitions}
            ends = _ends(cluster, {*committed, *assigned})
            print_offsets(group, committed, ends, verbose=options.verbose)


def _ends(cluster: Cluster, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """The ends of the partitions that have a leader. Partitions without one, or that do not exist, are left out."""
    topics = sorted({partition.topic for partition in partitions})
    led = cluster.metadata(topics, missing_ok=True).leaders(partitions)
    found = list_offsets(cluster, dict.fromkeys(led, LATEST))
    return {partition: end.offset for partition, end in found.items()}


def _delete(cluster: Cluster, options: Options) -> None:
    failed: KafkaError | None = None
    for group_id in _groups(cluster, options):
        try:
            delete_group(cluster, group_id)
            say(f"Deletion of requested consumer groups ('{group_id}') was successful.")
        except KafkaError as error:
            complain(f"Error: Deletion of group '{group_id}' failed due to: {error}")
            failed = error
    if failed is not None:
        raise failed


def _delete_offsets(cluster: Cluster, options: Options) -> None:
    (group_id,) = _one(_groups(cluster, options))
    partitions = chosen_partitions(cluster, group_id, options)
    results = delete_offsets(cluster, group_id, partitions)
    failed = next((code for code in results.values() if code is not ErrorCode.NONE), None)
    if failed is None:
        say(f"Request succeeded for deleting offsets from group {group_id}.")
    outcomes = {
        partition: "Successful" if code is ErrorCode.NONE else f"Error: {code.name}"
        for partition, code in results.items()
    }
    print_outcomes(outcomes)
    if failed is not None:
        raise KafkaError(failed, f"group {group_id}: not all offsets could be deleted")


def _reset(cluster: Cluster, options: Options) -> None:
    offsets = [
        (group_id, partition, offset)
        for group_id in _groups(cluster, options)
        for partition, offset in sorted(reset(cluster, group_id, options).items())
    ]
    print_new_offsets(offsets)


def _one(groups: Sequence[str]) -> Sequence[str]:
    if len(groups) != 1:
        raise ToolError(f"--delete-offsets takes one group, not {len(groups)}")
    return groups
