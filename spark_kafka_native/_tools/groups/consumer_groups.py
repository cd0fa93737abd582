"""``kafka-consumer-groups.sh``: list, describe, reset and delete consumer groups."""

from collections.abc import Iterable, Sequence
from typing import Final

from spark_kafka_native._client.admin.committed_offsets import fetch_offsets
from spark_kafka_native._client.admin.groups import (
    GroupDescription,
    GroupListing,
    delete_group,
    delete_offsets,
    describe_group,
    list_groups,
)
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.consumer.offsets import LATEST, offsets_at
from spark_kafka_native._command_line.commands import Options
from spark_kafka_native._command_line.output import InvalidOption, complain, say, say_record
from spark_kafka_native._command_line.parameters import flag, option
from spark_kafka_native._protocol.consumer_protocol import CONSUMER_PROTOCOL
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._tools.connection import on_cluster
from spark_kafka_native._tools.groups.group_tables import (
    complain_of_state,
    deleted_offsets_table,
    groups_table,
    members_table,
    new_offsets_table,
    offsets_table,
    state_table,
)
from spark_kafka_native._tools.groups.offset_reset import chosen_partitions, position_options, reset
from spark_kafka_native._tools.options import ACTIONS, chosen_action, cluster_options, command, timeout_option
from spark_kafka_native._tools.tables import Table, json_flag

_PROTOCOL_TYPES: Final = frozenset({"", CONSUMER_PROTOCOL})
_ALL: Final = "*"
"""The value of --state and --type without one."""
_TYPES: Final = frozenset({"", "classic", "consumer"})
"""Of groups of consumers. Brokers before 3.8 do not say a type."""


@command(
    "kafka-consumer-groups",
    "List, describe, reset and delete consumer groups.",
    """\
examples
  {command} --bootstrap-server localhost:9092 --list --state
  {command} --bootstrap-server localhost:9092 --describe --group etl
  {command} --bootstrap-server localhost:9092 --reset-offsets --group etl --topic events --to-earliest --execute""",
)
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
    flag_value=_ALL,
    metavar="[STATE]",
    help="print the states of groups; with --list STATE: only groups in these states",
)
@option(
    "--type",
    is_flag=False,
    flag_value=_ALL,
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
@json_flag
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
    chosen_action(actions, options)(cluster, options)


def _list(cluster: Cluster, options: Options) -> None:
    groups = _consumer_groups(cluster)
    wanted, types = _words(options.state), _words(options.type)
    found = [
        group
        for group in groups
        if (not wanted or group.state.lower() in wanted) and (not types or group.type.lower() in types)
    ]
    if options.as_json:
        groups_table(found, types=True, states=True).show(as_json=True)
    elif options.state is None and options.type is None:
        for group in found:
            say(group.group_id)
    else:
        shown = groups_table(found, types=options.type is not None, states=options.state is not None)
        shown.show(as_json=False, blank_line=False)


def _words(text: str | None) -> set[str]:
    """The states or types of an option, in lower case; empty for all."""
    return {part.strip().lower() for part in (text or "").split(",")} - {"", _ALL}


def _consumer_groups(cluster: Cluster) -> list[GroupListing]:
    """The groups of consumers, without those of Kafka Connect, of share groups and of streams groups."""
    groups = list_groups(cluster)
    return [each for each in groups if each.protocol_type in _PROTOCOL_TYPES and each.type.lower() in _TYPES]


def _groups(cluster: Cluster, options: Options) -> list[str]:
    if options.all_groups:
        return [group.group_id for group in _consumer_groups(cluster)]
    if not options.group:
        raise InvalidOption("--group or --all-groups is required")
    return list(options.group)


def _describe(cluster: Cluster, options: Options) -> None:
    for group_id in _groups(cluster, options):
        group = describe_group(cluster, group_id)
        complain_of_state(group)
        table = _description(cluster, group, options)
        if table.rows or options.members:
            table.show(as_json=options.as_json)


def _description(cluster: Cluster, group: GroupDescription, options: Options) -> Table:
    if options.members:
        return members_table(group, verbose=options.verbose)
    if options.state is not None and not options.offsets:
        node = cluster.metadata([]).brokers.get(group.coordinator)
        return state_table(group, str(node.address) if node else None, verbose=options.verbose)
    committed = fetch_offsets(cluster, group.group_id)
    assigned = {partition for member in group.members for partition in member.partitions}
    return offsets_table(group, committed, _ends(cluster, {*committed, *assigned}), verbose=options.verbose)


def _ends(cluster: Cluster, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """The ends of the partitions that have a leader. Partitions without one, or that do not exist, are left out."""
    led = cluster.metadata({partition.topic for partition in partitions}, missing_ok=True).leaders(partitions)
    return offsets_at(cluster, dict.fromkeys(led, LATEST))


def _delete(cluster: Cluster, options: Options) -> None:
    failed: KafkaError | None = None
    for group_id in _groups(cluster, options):
        try:
            delete_group(cluster, group_id)
            text = f"Deletion of requested consumer groups ('{group_id}') was successful."
            say_record({"group": group_id, "deleted": True}, text, as_json=options.as_json)
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
    if failed is None and not options.as_json:
        say(f"Request succeeded for deleting offsets from group {group_id}.")
    deleted_offsets_table(group_id, results).show(as_json=options.as_json)
    if failed is not None:
        raise KafkaError(failed, f"group {group_id}: not all offsets could be deleted")


def _reset(cluster: Cluster, options: Options) -> None:
    offsets = [
        (group_id, partition, offset)
        for group_id in _groups(cluster, options)
        for partition, offset in sorted(reset(cluster, group_id, options).items())
    ]
    new_offsets_table(offsets).show(as_json=options.as_json)


def _one(groups: Sequence[str]) -> Sequence[str]:
    if len(groups) != 1:
        raise InvalidOption(f"--delete-offsets takes one group, not {len(groups)}")
    return groups
