"""What a batch query needs not read, because its filters drop those records anyway.

A narrowing only says what may be left out: whoever narrows must still filter what is read. It is safe with record
times in any order: the first offset with a record of time T or later has only earlier times before it, so a lower bound
on time is a place to start. An upper bound is not a place to end, since a later record may have an earlier time; not
even where brokers stamp the records, because clocks step back and leaders change. Option ``endingTimestamp`` ends
there for those who want that.
"""

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from spark_kafka_native.protocol.errors import ErrorCode, KafkaError
from spark_kafka_native.protocol.topic import TopicPartition
from spark_kafka_native.spark.offsets import EARLIEST_OFFSET, LATEST_OFFSET, OffsetMap
from spark_kafka_native.spark.planning.bounds import OffsetSource
from spark_kafka_native.spark.planning.ranges import OffsetRange

_NOTHING_FOUND: Final = -1


class Comparison(Enum):
    """How a column is compared with a value."""

    EQUAL = "="
    IN = "in"
    LESS = "<"
    AT_MOST = "<="
    MORE = ">"
    AT_LEAST = ">="


_HOLDS: Final[Mapping[Comparison, Callable[[Any, Any], bool]]] = {
    Comparison.EQUAL: operator.eq,
    Comparison.IN: lambda found, values: found in values,
    Comparison.LESS: operator.lt,
    Comparison.AT_MOST: operator.le,
    Comparison.MORE: operator.gt,
    Comparison.AT_LEAST: operator.ge,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """``column`` compared with ``value``, as in ``partition < 3``; a tuple of values for IN."""

    column: str
    comparison: Comparison
    value: Any

    def holds(self, found: object) -> bool:
        """Whether a row with ``found`` in the column is wanted."""
        return _HOLDS[self.comparison](found, self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowing:
    """What all wanted records have in common. The default wants everything."""

    on_partition: tuple[Condition, ...] = ()
    """Conditions on the columns ``topic`` and ``partition``; all must hold."""
    from_offset: int = 0
    until_offset: int | None = None
    """Offsets that are wanted, in every partition alike; None: to the end."""
    from_timestamp_ms: int | None = None
    """Records of earlier times are not wanted, nor such without a time. At least 0."""

    def wants(self, tp: TopicPartition) -> bool:
        """Whether any record of a partition may be wanted."""
        values = {"topic": tp.topic, "partition": tp.partition}
        return all(condition.holds(values[condition.column]) for condition in self.on_partition)


EVERYTHING: Final = Narrowing()


def narrow(ranges: Iterable[OffsetRange], narrowing: Narrowing, source: OffsetSource) -> list[OffsetRange]:
    """The ranges of a batch query without what its filters would drop; ends that are open stay so where they may.

    The cluster is asked only if the filters bound offsets or times. Ranges keep from being taken for lost what is
    merely not wanted: none ends up outside what its partition has now.
    """
    wanted = [piece for piece in ranges if narrowing.wants(piece.topic_partition)]
    by_time = _lowest_by_time(wanted, narrowing.from_timestamp_ms, source)
    if not wanted or not (narrowing.from_offset or any(by_time.values()) or narrowing.until_offset is not None):
        return wanted
    partitions = [piece.topic_partition for piece in wanted]
    first = source.list_offsets(dict.fromkeys(partitions, EARLIEST_OFFSET))
    last = source.list_offsets(dict.fromkeys(partitions, LATEST_OFFSET))
    narrowed: list[OffsetRange] = []
    for piece in wanted:
        tp = piece.topic_partition
        if tp not in first or tp not in last:
            narrowed.append(piece)
            continue
        lowest = narrowing.from_offset
        if not 0 <= piece.from_offset < first[tp]:  # else records of the time may be among those that are gone
            lowest = max(lowest, by_time.get(tp, 0))
        cut = _cut(piece, (first[tp], last[tp]), lowest, narrowing.until_offset)
        if cut is not None:
            narrowed.append(cut)
    return narrowed


def _cut(piece: OffsetRange, bounds: tuple[int, int], lowest: int, until_offset: int | None) -> OffsetRange | None:
    """A range from ``lowest`` to ``until_offset``, both moved into what there is; None: nothing of it is wanted."""
    first, last = bounds
    from_offset, end = piece.from_offset, piece.until_offset
    known_from = first if from_offset == EARLIEST_OFFSET else from_offset
    known_end = last if end == LATEST_OFFSET else end
    if lowest > known_from:
        # Beyond the end a range would ask for records that do not exist; from the end on, only for those that come.
        from_offset = known_from = min(lowest, max(known_end, known_from))
    if until_offset is not None and until_offset < known_end:
        end = known_end = max(until_offset, known_from)
    if known_from >= known_end and end != LATEST_OFFSET:
        return None
    from_earliest = piece.from_earliest or piece.from_offset == EARLIEST_OFFSET
    return piece._replace(from_offset=from_offset, until_offset=end, from_earliest=from_earliest)


def _lowest_by_time(ranges: Sequence[OffsetRange], timestamp_ms: int | None, source: OffsetSource) -> OffsetMap:
    """Before which offset a partition has no record of ``timestamp_ms`` or later; left out where that is not known."""
    if timestamp_ms is None or not ranges:
        return {}
    found = _first_at([piece.topic_partition for piece in ranges], timestamp_ms, source)
    others = _in_another_log(ranges, source)
    return {tp: offset for tp, offset in found.items() if tp not in others}


def _in_another_log(ranges: Sequence[OffsetRange], source: OffsetSource) -> set[TopicPartition]:
    """Partitions that do not have the topic id and the leader epoch that their ranges were planned with.

    Offsets of a time that were looked up before say nothing of these ranges. Read whole, they are compared by their
    tasks, which report the loss; left out, they would be missing without an error.
    """
    planned = {piece.topic_partition: piece.leader for piece in ranges if piece.leader is not None}
    if not planned:
        return set()
    present = source.topics(sorted({tp.topic for tp in planned}))
    leaders = source.leaders([tp for tp in planned if tp.partition in present.get(tp.topic, ())])
    return {
        tp
        for tp, known in planned.items()
        if tp not in leaders or (leaders[tp].topic_id, leaders[tp].leader_epoch) != (known.topic_id, known.leader_epoch)
    }


def _first_at(partitions: list[TopicPartition], timestamp_ms: int, source: OffsetSource) -> OffsetMap:
    """The first offset with a record of a time or later; of partitions without one the end, if that is certain."""
    try:
        ends = source.list_offsets(dict.fromkeys(partitions, LATEST_OFFSET))
        found = source.list_offsets(dict.fromkeys(partitions, timestamp_ms))
    except KafkaError as error:
        if error.code in {ErrorCode.UNSUPPORTED_VERSION, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT}:
            return {}
        raise
    without = [tp for tp, offset in found.items() if offset == _NOTHING_FOUND and tp in ends]
    # "None" alone is no proof: brokers give up at a segment in an old format, though later segments have records.
    latest = source.latest_timestamps(without) if without else {}
    passed = {tp: ends[tp] for tp, time_ms in latest.items() if time_ms < timestamp_ms}
    return {tp: offset for tp, offset in found.items() if offset >= 0} | passed
