"""From offset limits to offsets, looked up in a cluster through ``OffsetSource``."""

import time
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol, assert_never
from uuid import UUID

from spark_kafka_native._client.admin.committed_offsets import OffsetAndMetadata
from spark_kafka_native._client.cluster.metadata import PartitionLeader
from spark_kafka_native._protocol.topic import TopicPartition, listed
from spark_kafka_native._spark.errors import PlanError
from spark_kafka_native._spark.offsets import (
    EARLIEST_OFFSET,
    LATEST_OFFSET,
    Ago,
    BeforeLatest,
    Committed,
    Earliest,
    GlobalTimestamp,
    Latest,
    NoMatch,
    OffsetLimit,
    OffsetMap,
    PartitionTimestamps,
    Position,
    SpecificOffsets,
)

_SETTLING_TRIES: Final = 5
_NO_RECORD = -1
"""The offset that ListOffsets returns for a timestamp later than that of every record."""


class Clock:
    """The clock of planning, of batches and streams. Tests replace it."""

    def now_ms(self) -> float:
        """Milliseconds of the monotonic clock."""
        return time.monotonic() * 1000

    def epoch_ms(self) -> float:
        """Milliseconds since 1970, as in the timestamps of records."""
        return time.time() * 1000

    def sleep_ms(self, duration_ms: float) -> None:
        """Block the calling thread."""
        time.sleep(duration_ms / 1000)


class OffsetSource(Protocol):
    """The lookups that planning needs from a cluster. Calls block, retry within the client's deadlines, then raise."""

    def topics(self, names: Iterable[str] | None) -> dict[str, tuple[int, ...]]:
        """Partition numbers of the named topics that exist, or of all but the internal ones."""
        ...

    def list_offsets(self, wanted: Mapping[TopicPartition, int]) -> OffsetMap:
        """Offsets for -2 (first), -1 (end) or an epoch ms.

        -1 if no record is at or after a timestamp. Partitions that do not exist are left out.
        """
        ...

    def leaders(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, PartitionLeader]:
        """The leader of each of ``partitions``."""
        ...

    def latest_timestamps(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The largest timestamp of each partition, in ms; left out if unknown."""
        ...

    def ends_of_epochs(self, epochs: Mapping[TopicPartition, int]) -> OffsetMap:
        """The end offset of each leader epoch in the present leader's log; left out if unknown."""
        ...

    def topic_ids(self, topics: Iterable[str]) -> Mapping[str, UUID]:
        """Ids of topics in the last result of ``topics``; topics without an id are left out."""
        ...

    def committed(
        self, group_id: str, partitions: Iterable[TopicPartition], *, timeout_ms: float | None = None
    ) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """The committed offsets of a consumer group; partitions without a commit are left out."""
        ...

    def commit(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata], *, timeout_ms: float | None = None
    ) -> None:
        """Commit offsets for a group without members."""
        ...


class Edge(Enum):
    """The start or the end of a query."""

    STARTING = "start"
    ENDING = "end"

    @property
    def option(self) -> str:
        """The option for its offsets."""
        return "startingOffsets" if self is Edge.STARTING else "endingOffsets"


def bind_limit(
    limit: OffsetLimit, partitions: Sequence[TopicPartition], source: OffsetSource, clock: Clock, edge: Edge
) -> OffsetMap:
    """One offset for each of ``partitions``; -2 and -1 are kept, other limits are looked up.

    A partition that was deleted before the lookup is left out. Raises PlanError: the limit names other partitions, or
    all records are earlier than a starting timestamp.
    """
    match limit:
        case Earliest():
            return dict.fromkeys(partitions, EARLIEST_OFFSET)
        case Latest():
            return dict.fromkeys(partitions, LATEST_OFFSET)
        case BeforeLatest():
            return _settle(dict.fromkeys(partitions, limit), source)
        case SpecificOffsets():
            return _settle(_specific(limit, partitions, edge), source)
        case GlobalTimestamp(timestamp_ms=moment, no_match=no_match):
            timestamp_ms = int(clock.epoch_ms()) - moment.duration_ms if isinstance(moment, Ago) else moment
            return _at_timestamps(dict.fromkeys(partitions, timestamp_ms), no_match, source, edge)
        case PartitionTimestamps(timestamps=timestamps, no_match=no_match, default=default):
            code = "KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED"
            _check_same(timestamps.keys(), partitions, code, edge, f"{edge.option}ByTimestamp", default)
            others = _settle({tp: default for tp in partitions if tp not in timestamps and default is not None}, source)
            return _at_timestamps(dict(timestamps), no_match, source, edge) | others
        case Committed(group_id=group_id, otherwise=otherwise):
            committed = {tp: commit.offset for tp, commit in source.committed(group_id, partitions).items()}
            others = bind_limit(otherwise, [tp for tp in partitions if tp not in committed], source, clock, edge)
            return committed | others
        case _:
            assert_never(limit)


def resolve(offsets: Mapping[TopicPartition, int], source: OffsetSource) -> OffsetMap:
    """Offsets with every -2 and -1 looked up; of these, partitions that the cluster does not have are left out."""
    special = {tp: offset for tp, offset in offsets.items() if offset < 0}
    looked_up = source.list_offsets(special) if special else {}
    return {tp: looked_up.get(tp, offset) for tp, offset in offsets.items() if offset >= 0 or tp in looked_up}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Earliest and latest offsets of partitions, and the leaders that returned the ``latest`` offsets."""

    earliest: OffsetMap
    latest: OffsetMap
    leaders: Mapping[TopicPartition, PartitionLeader]
    """Of the partitions that have offsets."""

    def of(self, tp: TopicPartition) -> tuple[int, int]:
        """First and end offset of a partition."""
        return self.earliest[tp], self.latest[tp]


def look_up_bounds(source: OffsetSource, partitions: Sequence[TopicPartition]) -> Bounds:
    """Earliest and latest offsets, and the leaders; a partition that does not exist is left out.

    If a leader changes during the lookup, it is repeated. If leaders keep changing, the earlier leaders are returned. A
    reader may then report a truncation that did not happen, but never misses one.
    """
    leaders = source.leaders(partitions)
    for _ in range(_SETTLING_TRIES):
        before = leaders
        earliest = source.list_offsets(dict.fromkeys(partitions, EARLIEST_OFFSET))
        latest = source.list_offsets(dict.fromkeys(partitions, LATEST_OFFSET))
        leaders = source.leaders(latest)
        if all(before.get(tp) == leader for tp, leader in leaders.items()):
            break
    existing = {tp: leader for tp, leader in before.items() if tp in earliest and tp in latest}
    return Bounds(earliest=earliest, latest=latest, leaders=existing)


def may_move(limit: OffsetLimit, tp: TopicPartition) -> bool:
    """Whether a second lookup of ``limit`` can return a later offset although no record was deleted."""
    match limit:
        case Earliest():
            return False
        case Latest() | BeforeLatest() | Committed():
            return True
        case SpecificOffsets():
            return _position_may_move(limit.position(tp))
        case PartitionTimestamps(timestamps=timestamps, default=default) if tp not in timestamps:
            return _position_may_move(default)
        case GlobalTimestamp(timestamp_ms=Ago()):
            return True
        case GlobalTimestamp(no_match=no_match) | PartitionTimestamps(no_match=no_match):
            return no_match is NoMatch.LATEST
        case _:
            assert_never(limit)


def _position_may_move(position: Position | None) -> bool:
    return position == LATEST_OFFSET or isinstance(position, BeforeLatest)


def _settle(positions: Mapping[TopicPartition, Position], source: OffsetSource) -> OffsetMap:
    """Positions as offsets; ``BeforeLatest`` is looked up."""
    settled = {tp: position for tp, position in positions.items() if isinstance(position, int)}
    counts = {tp: position.count for tp, position in positions.items() if isinstance(position, BeforeLatest)}
    if counts:
        ends = source.list_offsets(dict.fromkeys(counts, LATEST_OFFSET))
        firsts = source.list_offsets(dict.fromkeys(ends, EARLIEST_OFFSET))
        settled |= {tp: max(first, ends[tp] - counts[tp]) for tp, first in firsts.items()}
    return settled


def _specific(
    limit: SpecificOffsets, partitions: Sequence[TopicPartition], edge: Edge
) -> Mapping[TopicPartition, Position]:
    if unknown := limit.topics.keys() - {tp.topic for tp in partitions}:
        raise PlanError(
            "KAFKA_TOPIC_OFFSET_DOES_NOT_MATCH_ASSIGNED",
            f"option '{edge.option}' names topics that the query does not read: {listed(unknown)}",
        )
    named = limit.offsets.keys() | {tp for tp in partitions if tp.topic in limit.topics}
    code = f"KAFKA_{edge.value.upper()}_OFFSET_DOES_NOT_MATCH_ASSIGNED"
    _check_same(named, partitions, code, edge, edge.option, limit.default)
    positions = {tp: limit.position(tp) for tp in partitions}
    return {tp: position for tp, position in positions.items() if position is not None}


def _check_same(
    named: Set[TopicPartition],
    assigned: Sequence[TopicPartition],
    code: str,
    edge: Edge,
    option: str,
    default: Position | None,
) -> None:
    """Raise PlanError for partitions that are ``named`` and not ``assigned``, or, without a default, the reverse."""
    surplus = named - set(assigned)
    missing = set(assigned) - named if default is None else set()
    if not missing and not surplus:
        return
    parts = [f"not given: {listed(missing)} (option '{edge.option}Default' sets their position)"] if missing else []
    parts += [f"given but not read by the query: {listed(surplus)}"] if surplus else []
    must = "must name every partition that the query reads, and no other"
    raise PlanError(code, f"option '{option}' {must}; {'; '.join(parts)}")


def _at_timestamps(wanted: OffsetMap, no_match: NoMatch, source: OffsetSource, edge: Edge) -> OffsetMap:
    found = source.list_offsets(wanted)
    without = [tp for tp, offset in found.items() if offset == _NO_RECORD]
    if without and edge is Edge.STARTING and no_match is NoMatch.ERROR:
        tp = min(without)
        raise PlanError(
            "KAFKA_NO_OFFSET_FOR_TIMESTAMP",
            f"no offset matched: {tp} has no record with timestamp {wanted[tp]} or later. Set option "
            "'startingOffsetsByTimestampStrategy' to latest to start at the end of such partitions",
        )
    return {tp: LATEST_OFFSET if offset == _NO_RECORD else offset for tp, offset in found.items()}
