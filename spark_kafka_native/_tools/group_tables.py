"""The tables that ``kafka-consumer-groups`` prints, with the columns, widths and blank lines of Apache Kafka's."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from spark_kafka_native._client.admin.committed_offsets import CommittedOffset
from spark_kafka_native._client.admin.groups import GroupDescription, GroupListing, GroupMember
from spark_kafka_native._command_line.output import complain, say
from spark_kafka_native._protocol.topic import TopicPartition, by_topic

_NONE: Final = "-"
_MORE_IN_LISTS: Final = 10
"""How much wider than its contents the first column of a list of groups is."""
_REBALANCING: Final = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})


class Column(NamedTuple):
    """A column: its title, and its least width. Unless it ``grows``, longer cells move the rest of their line."""

    title: str
    width: int = 0
    grows: bool = False


_GROUP: Final = Column("GROUP", 15, grows=True)
_TOPIC: Final = Column("TOPIC", 15, grows=True)
_PARTITION: Final = Column("PARTITION", 10)
_CONSUMER_ID: Final = Column("CONSUMER-ID", 15, grows=True)
_HOST: Final = Column("HOST", 15, grows=True)
_NO_TITLE: Final = Column("")


def print_groups(groups: Sequence[GroupListing], *, types: bool, states: bool) -> None:
    """Print groups with their types, states or both."""
    longest = max((len(group.group_id) for group in groups), default=0)
    columns = [Column("GROUP", max(15, longest) + _MORE_IN_LISTS)]
    columns += [Column(title, 20) for title, wanted in (("TYPE", types), ("STATE", states)) if wanted]
    rows = []
    for group in groups:
        of_type = [group.type.capitalize() or "Unknown"] if types else []
        rows.append([group.group_id, *of_type, *([group.state or "Unknown"] if states else [])])
    for line in _lines(columns, rows):
        say(line)


def print_offsets(
    group: GroupDescription,
    committed: Mapping[TopicPartition, CommittedOffset],
    ends: Mapping[TopicPartition, int],
    *,
    verbose: bool,
) -> None:
    """Print the partitions of a group, those with members first. Those that ``ends`` lacks have no end and no lag."""
    rows = []
    for member in sorted(group.members, key=lambda member: -len(member.partitions)):
        who = (member.member_id, member.host, member.client_id)
        rows += [_offsets_row(group, each, committed, ends, who, verbose=verbose) for each in sorted(member.partitions)]
    assigned = {partition for member in group.members for partition in member.partitions}
    left = sorted(partition for partition in committed if partition not in assigned)
    rows += [_offsets_row(group, each, committed, ends, (_NONE,) * 3, verbose=verbose) for each in left]
    _complain_of_state(group)
    if not rows:
        return
    numbers = [Column(title, 15) for title in ("CURRENT-OFFSET", "LOG-END-OFFSET", "LAG")]
    epoch = [Column("LEADER-EPOCH", 15)] if verbose else []
    last = Column("CLIENT-ID")
    print_table([_GROUP, _TOPIC, _PARTITION, *epoch, *numbers, _CONSUMER_ID, _HOST, last], rows)


def _offsets_row(
    group: GroupDescription,
    partition: TopicPartition,
    committed: Mapping[TopicPartition, CommittedOffset],
    ends: Mapping[TopicPartition, int],
    who: Sequence[str],
    *,
    verbose: bool,
) -> list[str]:
    found, end = committed.get(partition), ends.get(partition)
    offset = None if found is None else found.offset
    epoch = None if found is None or found.leader_epoch < 0 else found.leader_epoch
    lag = None if offset is None or end is None else end - offset
    numbers = [*([epoch] if verbose else []), offset, end, lag]
    return [group.group_id, partition.topic, str(partition.partition), *map(_shown, numbers), *who]


def print_members(group: GroupDescription, *, verbose: bool) -> None:
    """Print the members of a group; with ``verbose`` their partitions and epochs."""
    instances = any(member.instance_id for member in group.members)
    mixed = {member.upgraded for member in group.members} >= {True, False}
    columns = [_GROUP, _CONSUMER_ID, *([Column("GROUP-INSTANCE-ID", 17, grows=True)] if instances else []), _HOST]
    columns += [Column("CLIENT-ID", 15, grows=True), Column("#PARTITIONS", 15)]
    if verbose:
        columns += [Column("CURRENT-EPOCH", 15), Column("CURRENT-ASSIGNMENT", 20, grows=True)]
        columns += [Column("TARGET-EPOCH", 15), Column("TARGET-ASSIGNMENT", 20, grows=True)]
        columns += [Column("UPGRADED")] if mixed else []
    else:
        columns.append(_NO_TITLE)
    _complain_of_state(group)
    rows = []
    for member in group.members:
        row = [group.group_id, member.member_id, *([member.instance_id or ""] if instances else []), member.host]
        row += [member.client_id, str(len(member.partitions))]
        rows.append([*row, *(_details(group, member, mixed=mixed) if verbose else [""])])
    print_table(columns, rows)


def _details(group: GroupDescription, member: GroupMember, *, mixed: bool) -> list[str]:
    epochs = _shown(member.epoch), _shown(group.assignment_epoch)
    shown = [epochs[0], _assignment(member.partitions), epochs[1], _assignment(member.target)]
    return [*shown, *([_NONE if member.upgraded is None else str(member.upgraded).lower()] if mixed else [])]


def _assignment(partitions: Iterable[TopicPartition]) -> str:
    """Partitions as ``a:0,1;b:2``."""
    topics = by_topic(sorted(partitions)).items()
    return ";".join(f"{name}:{','.join(str(part.partition) for part in parts)}" for name, parts in topics) or _NONE


def print_state(group: GroupDescription, coordinator: str, *, verbose: bool) -> None:
    """Print the state of a group. ``coordinator`` is the address of its coordinator, or ``-``."""
    columns = [_GROUP, Column("COORDINATOR (ID)", 25, grows=True), Column("ASSIGNMENT-STRATEGY", 20)]
    columns.append(Column("STATE", 20))
    row = [group.group_id, f"{coordinator}  ({group.coordinator})", group.assignor or _NONE, group.state]
    if verbose:
        columns += [Column("GROUP-EPOCH", 15), Column("TARGET-ASSIGNMENT-EPOCH", 25)]
        row += [_shown(group.epoch), _shown(group.assignment_epoch)]
    _complain_of_state(group)
    print_table([*columns, Column("#MEMBERS")], [[*row, str(len(group.members))]])


def print_new_offsets(offsets: Iterable[tuple[str, TopicPartition, int]]) -> None:
    """Print the offsets that groups get."""
    rows = [[group, each.topic, str(each.partition), str(offset)] for group, each, offset in offsets]
    print_table([_GROUP, _TOPIC, _PARTITION, Column("NEW-OFFSET")], rows)


def print_outcomes(outcomes: Mapping[TopicPartition, str]) -> None:
    """Print what came of each partition."""
    rows = [[each.topic, str(each.partition), outcome] for each, outcome in sorted(outcomes.items())]
    print_table([_TOPIC, _PARTITION, Column("STATUS", 15)], rows)


def print_table(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> None:
    """Print a blank line, the titles and the rows."""
    say("")
    for line in _lines(columns, rows):
        say(line)


def _lines(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> list[str]:
    """Cells that fill their columns, trailing blanks included, because Apache Kafka prints them."""
    lines = [[column.title for column in columns], *rows]
    widths = [
        max(column.width, *(len(line[index]) for line in lines)) if column.grows else column.width
        for index, column in enumerate(columns)
    ]
    return [" ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]


def _complain_of_state(group: GroupDescription) -> None:
    if group.state == "Empty":
        complain(f"\nConsumer group '{group.group_id}' has no active members.")
    elif group.state in _REBALANCING:
        complain(f"\nWarning: Consumer group '{group.group_id}' is rebalancing.")


def _shown(number: int | None) -> str:
    return _NONE if number is None else str(number)
