"""The records that a batch query need not read, because its filters drop them.

A narrowing is not exact: Spark must still filter the records that are read. It is correct for timestamps in any order.
All records before the first record at or after time T are earlier than T, so a lower bound on time gives a start. An
upper bound gives no end, because a later record may have an earlier timestamp, even with LogAppendTime, because clocks
are set back and leaders change. Option ``endingTimestamp`` ends there if the user wants that.
"""

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.offsets import EARLIEST_OFFSET, LATEST_OFFSET, OffsetMap
from spark_kafka_native._spark.planning.bounds import OffsetSource
from spark_kafka_native._spark.planning.ranges import OffsetRange

_NOTHING_FOUND: Final = -1


class Operator(Enum):
    """Operators of conditions."""

    EQUAL = "="
    IN = "in"
    LESS = "<"
    AT_MOST = "<="
    MORE = ">"
    AT_LEAST = ">="


_HOLDS: Final[Mapping[Operator, Callable[[Any, Any], bool]]] = {
    Operator.EQUAL: operator.eq,
    Operator.IN: lambda found, values: found in values,
    Operator.LESS: operator.lt,
    Operator.AT_MOST: operator.le,
    Operator.MORE: operator.gt,
    Operator.AT_LEAST: operator.ge,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """``column`` compared with ``value``, as in ``partition < 3``; a tuple of values for IN."""

    column: str
    operator: Operator
    value: Any

    def holds(self, found: object) -> bool:
        """Whether a row with ``found`` in the column is wanted."""
        return _HOLDS[self.operator](found, self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowing:
    """Conditions that all wanted records meet. The default has none."""

    on_partition: tuple[Condition, ...] = ()
    """Conditions on the columns ``topic`` and ``partition``; all must hold."""
    from_offset: int = 0
    until_offset: int | None = None
    """Offsets that are wanted in every partition; None: to the end."""
    from_timestamp_ms: int | None = None
    """At least 0. Earlier records, and records without a timestamp, are not wanted."""

    def wants(self, tp: TopicPartition) -> bool:
        """Whether any record of a partition may be wanted."""
        values = {"topic": tp.topic, "partition": tp.partition}
        return all(condition.holds(values[condition.column]) for condition in self.on_partition)


EVERYTHING: Final = Narrowing()


def narrow(ranges: Iterable[OffsetRange], narrowing: Narrowing, source: OffsetSource) -> list[OffsetRange]:
    """The ranges of a batch query, narrowed by its filters; ``LATEST_OFFSET`` is kept if possible.

    Offsets are looked up only if the filters bound offsets or times. Narrowed ranges are within the present offsets of
    their partitions, so that no loss is reported for records that are not wanted.
    """
    wanted = list(ranges)
    if narrowing.on_partition:
        wanted = [piece for piece in wanted if narrowing.wants(piece.topic_partition)]
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
        if not 0 <= piece.from_offset < first[tp]:  # else wanted records may be among the deleted ones
            lowest = max(lowest, by_time.get(tp, 0))
        cut = _cut(piece, (first[tp], last[tp]), lowest, narrowing.until_offset)
        if cut is not None:
            narrowed.append(cut)
    return narrowed


def _cut(piece: OffsetRange, bounds: tuple[int, int], lowest: int, until_offset: int | None) -> OffsetRange | None:
    """A range from ``lowest`` to ``until_offset``, both within the present offsets; None: nothing is wanted."""
    first, last = bounds
    from_offset, end = piece.from_offset, piece.until_offset
    known_from = first if from_offset == EARLIEST_OFFSET else from_offset
    known_end = last if end == LATEST_OFFSET else end
    if lowest > known_from:
        # A range must not start after the end, where no records exist; from the end it reads only later records.
        from_offset = known_from = min(lowest, max(known_end, known_from))
    if until_offset is not None and until_offset < known_end:
        end = known_end = max(until_offset, known_from)
    if known_from >= known_end and end != LATEST_OFFSET:
        return None
    from_earliest = piece.from_earliest or piece.from_offset == EARLIEST_OFFSET
    return piece._replace(from_offset=from_offset, until_offset=end, from_earliest=from_earliest)


def _lowest_by_time(ranges: Sequence[OffsetRange], timestamp_ms: int | None, source: OffsetSource) -> OffsetMap:
    """The offset below which all records are earlier than ``timestamp_ms``; left out if unknown."""
    if timestamp_ms is None or not ranges:
        return {}
    found = _first_at([piece.topic_partition for piece in ranges], timestamp_ms, source)
    changed = _in_another_log(ranges, source)
    return {tp: offset for tp, offset in found.items() if tp not in changed}


def _in_another_log(ranges: Sequence[OffsetRange], source: OffsetSource) -> set[TopicPartition]:
    """Partitions whose topic id or leader epoch has changed since their ranges were planned.

    Offsets by time are not valid for these ranges. Their tasks read the whole ranges and report the loss. Without their
    ranges the loss would not be reported.
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
    """The first offset of a record at or after a time; the end if it is certain that there is no such record."""
    try:
        ends = source.list_offsets(dict.fromkeys(partitions, LATEST_OFFSET))
        found = source.list_offsets(dict.fromkeys(partitions, timestamp_ms))
    except KafkaError as error:
        if error.code in {ErrorCode.UNSUPPORTED_VERSION, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT}:
            return {}
        raise
    without = [tp for tp, offset in found.items() if offset == _NOTHING_FOUND and tp in ends]
    # No offset does not prove that: brokers stop at a segment in an old format, although later segments have records.
    latest = source.latest_timestamps(without) if without else {}
    passed = {tp: ends[tp] for tp, time_ms in latest.items() if time_ms < timestamp_ms}
    return {tp: offset for tp, offset in found.items() if offset >= 0} | passed
