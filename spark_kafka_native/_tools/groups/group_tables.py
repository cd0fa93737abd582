"""The tables that ``kafka-consumer-groups`` prints, with the columns, widths and blank lines of Apache Kafka's."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from spark_kafka_native._client.admin.committed_offsets import OffsetAndMetadata
from spark_kafka_native._client.admin.groups import GroupDescription, GroupListing, GroupMember
from spark_kafka_native._command_line.output import complain
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._tools.tables import Cell, Column, Table

_MORE_IN_LISTS: Final = 10
"""How much wider than its contents the first column of a list of groups is."""
_REBALANCING: Final = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})

_GROUP: Final = Column("GROUP", "group", 15, grows=True)
TOPIC: Final = Column("TOPIC", "topic", 15, grows=True)
PARTITION: Final = Column("PARTITION", "partition", 10)
LAG_COLUMNS: Final = (
    Column("CURRENT-OFFSET", "currentOffset", 15),
    Column("LOG-END-OFFSET", "logEndOffset", 15),
    Column("LAG", "lag", 15),
)
_CONSUMER_ID: Final = Column("CONSUMER-ID", "consumerId", 15, grows=True)
_HOST: Final = Column("HOST", "host", 15, grows=True)
_INSTANCE: Final = (Column("GROUP-INSTANCE-ID", None, 17, grows=True), Column(None, "groupInstanceId"))
_NO_TITLE: Final = Column("", None)


def groups_table(groups: Sequence[GroupListing], *, types: bool, states: bool) -> Table:
    """Groups with their types, states or both."""
    longest = max((len(group.group_id) for group in groups), default=0)
    columns = [Column("GROUP", "group", max(15, longest) + _MORE_IN_LISTS)]
    columns += [Column("TYPE", "type", 20)] if types else []
    columns += [Column("STATE", "state", 20)] if states else []
    rows: list[list[Cell]] = []
    for group in groups:
        of_type: list[Cell] = [group.type.capitalize() or "Unknown"] if types else []
        rows.append([group.group_id, *of_type, *([group.state or "Unknown"] if states else [])])
    return Table(columns, rows)


def offsets_table(
    group: GroupDescription,
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    ends: Mapping[TopicPartition, int],
    *,
    verbose: bool,
) -> Table:
    """The partitions of a group, those with members first. Those that ``ends`` lacks have no end and no lag."""
    rows = []
    for member in sorted(group.members, key=lambda member: -len(member.partitions)):
        who = (member.member_id, member.host, member.client_id)
        rows += [_offsets_row(group, each, committed, ends, who, verbose=verbose) for each in sorted(member.partitions)]
    assigned = {partition for member in group.members for partition in member.partitions}
    left = sorted(partition for partition in committed if partition not in assigned)
    rows += [_offsets_row(group, each, committed, ends, (None,) * 3, verbose=verbose) for each in left]
    epoch = [Column("LEADER-EPOCH", "leaderEpoch", 15)] if verbose else []
    last = Column("CLIENT-ID", "clientId")
    return Table([_GROUP, TOPIC, PARTITION, *epoch, *LAG_COLUMNS, _CONSUMER_ID, _HOST, last], rows)


def _offsets_row(
    group: GroupDescription,
    partition: TopicPartition,
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    ends: Mapping[TopicPartition, int],
    who: Sequence[str | None],
    *,
    verbose: bool,
) -> list[Cell]:
    found, end = committed.get(partition), ends.get(partition)
    offset = None if found is None else found.offset
    epoch = None if found is None or found.leader_epoch < 0 else found.leader_epoch
    lag = None if offset is None or end is None else end - offset
    return [group.group_id, partition.topic, partition.partition, *([epoch] if verbose else []), offset, end, lag, *who]


def members_table(group: GroupDescription, *, verbose: bool) -> Table:
    """The members of a group; with ``verbose`` their partitions and epochs."""
    instances = any(member.instance_id for member in group.members)
    mixed = {member.upgraded for member in group.members} >= {True, False}
    columns = [_GROUP, _CONSUMER_ID, *(_INSTANCE if instances else []), _HOST]
    columns += [Column("CLIENT-ID", "clientId", 15, grows=True), Column("#PARTITIONS", "partitionCount", 15)]
    if verbose:
        columns += [Column("CURRENT-EPOCH", "currentEpoch", 15)]
        columns += [Column("CURRENT-ASSIGNMENT", "currentAssignment", 20, grows=True)]
        columns += [Column("TARGET-EPOCH", "targetEpoch", 15)]
        columns += [Column("TARGET-ASSIGNMENT", "targetAssignment", 20, grows=True)]
        columns += [Column("UPGRADED", "upgraded")] if mixed else []
    else:
        columns.append(_NO_TITLE)
    rows = []
    for member in group.members:
        row: list[Cell] = [group.group_id, member.member_id]
        row += [*([member.instance_id or "", member.instance_id] if instances else []), member.host, member.client_id]
        row.append(len(member.partitions))
        rows.append([*row, *(_details(group, member, mixed=mixed) if verbose else [""])])
    return Table(columns, rows)


def _details(group: GroupDescription, member: GroupMember, *, mixed: bool) -> list[Cell]:
    shown: list[Cell] = [member.epoch, member.partitions, group.assignment_epoch, member.target]
    return [*shown, *([member.upgraded] if mixed else [])]


def state_table(group: GroupDescription, coordinator: str | None, *, verbose: bool) -> Table:
    """The state of a group. ``coordinator`` is the address of its coordinator, if it is known."""
    columns = [
        _GROUP,
        Column("COORDINATOR (ID)", None, 25, grows=True),
        Column(None, "coordinator"),
        Column(None, "coordinatorId"),
        Column("ASSIGNMENT-STRATEGY", "assignmentStrategy", 20),
        Column("STATE", "state", 20),
    ]
    row: list[Cell] = [group.group_id, f"{coordinator or '-'}  ({group.coordinator})", coordinator, group.coordinator]
    row += [group.assignor or None, group.state]
    if verbose:
        columns += [Column("GROUP-EPOCH", "groupEpoch", 15)]
        columns += [Column("TARGET-ASSIGNMENT-EPOCH", "targetAssignmentEpoch", 25)]
        row += [group.epoch, group.assignment_epoch]
    return Table([*columns, Column("#MEMBERS", "memberCount")], [[*row, len(group.members)]])


def new_offsets_table(offsets: Iterable[tuple[str, TopicPartition, int]]) -> Table:
    """The offsets that groups get."""
    rows: list[list[Cell]] = [[group, each.topic, each.partition, offset] for group, each, offset in offsets]
    return Table([_GROUP, TOPIC, PARTITION, Column("NEW-OFFSET", "newOffset")], rows)


def deleted_offsets_table(group: str, results: Mapping[TopicPartition, ErrorCode]) -> Table:
    """The result of each partition whose offset was to be deleted."""
    rows: list[list[Cell]] = []
    for each, code in sorted(results.items()):
        error = None if code is ErrorCode.NONE else code.name
        rows.append([group, each.topic, each.partition, f"Error: {error}" if error else "Successful", error])
    status = (Column("STATUS", None, 15), Column(None, "error"))
    return Table([Column(None, "group"), TOPIC, PARTITION, *status], rows)


def complain_of_state(group: GroupDescription) -> None:
    """Print on stderr that a group has no members, or that they get other partitions at the moment."""
    if group.state == "Empty":
        complain(f"\nConsumer group '{group.group_id}' has no active members.")
    elif group.state in _REBALANCING:
        complain(f"\nWarning: Consumer group '{group.group_id}' is rebalancing.")
