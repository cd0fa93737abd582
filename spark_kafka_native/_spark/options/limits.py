"""The offset limits in the options of a query, and their validation for a batch query."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from spark_kafka_native._protocol.topic import TopicPartition, listed
from spark_kafka_native._spark.errors import OptionError
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
    PartitionTimestamps,
    Position,
    SpecificOffsets,
)

_STARTING_TIMES: Final = frozenset({"startingTimestamp", "startingOffsetsByTimestamp"})


def starting_limit(values: Mapping[str, Any], *, default: Earliest | Latest) -> OffsetLimit:
    """The start of a query. A timestamp for all overrides timestamps by partition, and both override offsets."""
    no_match = values.get("startingOffsetsByTimestampStrategy", NoMatch.ERROR)
    if values.get("startingOffsets") == "committed" and not values.keys() & _STARTING_TIMES:
        otherwise = values.get("startingOffsetsWithoutCommit", default)
        return Committed(group_id=values["kafka.group.id"], otherwise=otherwise)
    return _limit(values, "starting", no_match, default)


def ending_limit(values: Mapping[str, Any]) -> OffsetLimit:
    """The end of a query, as ``starting_limit``. Without a record at or after a timestamp it is the partition's end."""
    return _limit(values, "ending", NoMatch.LATEST, Latest())


def _limit(values: Mapping[str, Any], edge: str, no_match: NoMatch, default: OffsetLimit) -> OffsetLimit:
    if (timestamp_ms := values.get(f"{edge}Timestamp")) is not None:
        return GlobalTimestamp(timestamp_ms=timestamp_ms, no_match=no_match)
    for_others = values.get(f"{edge}OffsetsDefault")
    if (timestamps := values.get(f"{edge}OffsetsByTimestamp")) is not None:
        return PartitionTimestamps(timestamps=timestamps, no_match=no_match, default=for_others)
    limit: OffsetLimit = values.get(f"{edge}Offsets", default)
    return replace(limit, default=for_others) if isinstance(limit, SpecificOffsets) else limit


def check_batch_limits(starting: OffsetLimit, ending: OffsetLimit) -> None:
    """Raise OptionError if no offset can be between the limits of a batch query."""
    _check_not(starting, Latest(), "startingOffsets")
    _check_not(ending, Earliest(), "endingOffsets")
    match starting, ending:
        case SpecificOffsets(), SpecificOffsets():
            if not starting.topics and not ending.topics and starting.default is None and ending.default is None:
                _check_same_partitions(starting.offsets, ending.offsets, "Offsets")
            _check_order(starting.offsets, ending.offsets, "Offsets", "offset")
        case PartitionTimestamps(), PartitionTimestamps():
            if starting.default is None and ending.default is None:
                _check_same_partitions(starting.timestamps, ending.timestamps, "OffsetsByTimestamp")
            _check_order(starting.timestamps, ending.timestamps, "OffsetsByTimestamp", "timestamp")
        case GlobalTimestamp(timestamp_ms=start), GlobalTimestamp(timestamp_ms=end):
            if _later(start, end):
                text = f"the start timestamp {_format(start)} is greater than the end timestamp {_format(end)}"
                raise OptionError("endingTimestamp", text)
        case BeforeLatest(), BeforeLatest():
            if _later(starting, ending):
                text = f"the start {_format(starting)} is greater than the end {_format(ending)}"
                raise OptionError("endingOffsets", text)
        case _:
            pass


def _check_not(limit: OffsetLimit, edge: Earliest | Latest, option: str) -> None:
    """Raise OptionError if ``limit`` is ``edge``, for all partitions or for some."""
    where = _naming(limit, edge)
    if limit == edge or where:
        name = "earliest" if edge == Earliest() else "latest"
        raise OptionError(option, f"cannot be {name} in a batch query{where}: there would be nothing to read")


def _naming(limit: OffsetLimit, edge: Earliest | Latest) -> str:
    """`` for a-0, topicB`` if a limit is ``edge`` for them; empty if for none."""
    if not isinstance(limit, SpecificOffsets | PartitionTimestamps):
        return ""
    special = EARLIEST_OFFSET if edge == Earliest() else LATEST_OFFSET
    found = ["partitions that are not named"] if limit.default == special else []
    if isinstance(limit, SpecificOffsets):
        topics = [topic for topic, offset in limit.topics.items() if offset == special]
        names = [tp for tp, offset in limit.offsets.items() if offset == special]
        found = [listed(part) for part in (names, topics) if part] + found
    return f" for {', '.join(found)}" if found else ""


def _check_same_partitions(start: Mapping[TopicPartition, Any], end: Mapping[TopicPartition, Any], what: str) -> None:
    if one_sided := start.keys() ^ end.keys():
        text = f"must name the same partitions as 'starting{what}'; not in both: {listed(one_sided)}"
        raise OptionError(f"ending{what}", text)


def _check_order(
    start: Mapping[TopicPartition, Position], end: Mapping[TopicPartition, Position], options: str, what: str
) -> None:
    for tp in sorted(start.keys() & end.keys()):
        if _later(start[tp], end[tp]):
            text = f"the start {what} {_format(start[tp])} is greater than the end {what} {_format(end[tp])} for {tp}"
            raise OptionError(f"ending{options}", text)


def _later(start: Position | Ago, end: Position | Ago) -> bool:
    """Whether ``start`` is greater than ``end``; False if that depends on the topic or the time."""
    match start, end:
        case int(), int():
            return 0 <= end < start
        case BeforeLatest(count=more), BeforeLatest(count=less):
            return more < less
        case Ago(duration_ms=more), Ago(duration_ms=less):
            return more < less
        case _:
            return False


def _format(position: Position | Ago) -> str:
    match position:
        case BeforeLatest(count=count):
            return f"latest-{count}"
        case Ago(duration_ms=duration_ms):
            return f"-{duration_ms}ms"
        case _:
            return str(position)
