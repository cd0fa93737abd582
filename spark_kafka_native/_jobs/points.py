"""From the points of the command line, a time or offsets, to offsets of the cluster's partitions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from spark_kafka_native._client.cluster.metadata import PartitionLeader
from spark_kafka_native._command_line.output import InvalidOption
from spark_kafka_native._protocol.topic import TopicPartition, listed
from spark_kafka_native._protocol.wire import ZERO_UUID
from spark_kafka_native._spark.offsets import (
    EARLIEST_OFFSET,
    LATEST_OFFSET,
    Ago,
    BeforeLatest,
    Earliest,
    Latest,
    OffsetMap,
    Position,
    SpecificOffsets,
    parse_offset_limit,
)
from spark_kafka_native._spark.options.values import point_in_time
from spark_kafka_native._spark.planning.bounds import OffsetSource, look_up_bounds


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """The cluster's state of the chosen partitions."""

    first: Mapping[TopicPartition, int]
    end: Mapping[TopicPartition, int]
    """With read_committed the last stable offset."""
    topic_ids: Mapping[str, str]
    """Only of brokers that have ids (Kafka 2.8 and later)."""
    leaders: Mapping[TopicPartition, PartitionLeader] = field(default_factory=dict)
    """Those whose logs have the ``end`` offsets."""


@dataclass(frozen=True, slots=True)
class AtTime:
    """Each partition at its first record of this time or later; at its end where there is none."""

    at: int | Ago

    def milliseconds(self, now: int) -> int:
        """The time in milliseconds since 1970, at least 0. ``now`` is the present time in the same unit."""
        return max(now - self.at.duration_ms, 0) if isinstance(self.at, Ago) else self.at


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """Each partition at its own position; nothing about partitions that are not named."""

    limit: Earliest | Latest | BeforeLatest | SpecificOffsets


Point = AtTime | AtOffsets


def parse_point(text: str) -> Point:
    """``earliest``, ``latest``, ``latest-100``, offset JSON or a time -> a point. Raises ValueError."""
    stripped = text.strip()
    if stripped.startswith("{") or stripped[:1].lower() in {"e", "l"}:
        return parse_offsets(stripped)
    return AtTime(point_in_time(stripped))


def parse_offsets(text: str) -> AtOffsets:
    """As ``parse_point``, without points in time. Raises ValueError."""
    limit = parse_offset_limit(text)
    assert isinstance(limit, Earliest | Latest | BeforeLatest | SpecificOffsets)
    return AtOffsets(limit)


def point_of(option: str, text: str | None, parse: Callable[[str], Point] = parse_point) -> Point | None:
    """The point in an option; None if it is not given. Raises InvalidOption."""
    try:
        return None if text is None else parse(text)
    except ValueError as error:
        raise InvalidOption(f"{option}: {error}") from None


def cluster_state(source: OffsetSource, partitions: Sequence[TopicPartition]) -> ClusterState:
    """First and end offsets, leaders and topic ids. Raises KafkaError."""
    bounds = look_up_bounds(source, partitions)
    ids = {tp.topic: str(leader.topic_id) for tp, leader in bounds.leaders.items() if leader.topic_id != ZERO_UUID}
    return ClusterState(first=bounds.earliest, end=bounds.latest, topic_ids=ids, leaders=bounds.leaders)


def resolve(
    source: OffsetSource,
    state: ClusterState,
    start: Point | None,
    until: Point | None,
    *,
    start_option: str = "--from",
    now_ms: float,
) -> tuple[OffsetMap, OffsetMap]:
    """The offsets of two points; none of a point that is None. Raises InvalidOption, KafkaError."""
    now = round(now_ms)
    if isinstance(start, AtTime) and isinstance(until, AtTime):
        begin_ms, end_ms = start.milliseconds(now), until.milliseconds(now)
        if end_ms < begin_ms:
            raise InvalidOption(f"--until: {end_ms} ms since 1970 is before {start_option}, {begin_ms}")
    return (
        _offsets(source, state, start, start_option, now) if start else {},
        _offsets(source, state, until, "--until", now) if until else {},
    )


def _offsets(source: OffsetSource, state: ClusterState, point: Point, option: str, now: int) -> OffsetMap:
    partitions = sorted(state.first.keys() & state.end.keys())
    match point if isinstance(point, AtTime) else point.limit:
        case AtTime() as time_limit:
            found = source.list_offsets(dict.fromkeys(partitions, time_limit.milliseconds(now)))
            # An open transaction may have records of that time after the last stable offset.
            ends = {tp: state.end[tp] for tp in partitions}
            return {tp: min(found.get(tp, -1), end) if found.get(tp, -1) >= 0 else end for tp, end in ends.items()}
        case SpecificOffsets() as limit:
            if unknown := _named(limit) - {tp.topic for tp in partitions}:
                raise InvalidOption(f"{option}: names topics that were not chosen: {listed(unknown)}")
            if missing := limit.offsets.keys() - set(partitions):
                raise InvalidOption(f"{option}: names partitions that do not exist: {listed(missing)}")
            positions: Mapping[TopicPartition, Position | None] = {tp: limit.position(tp) for tp in partitions}
            return {tp: _bind(state, tp, where) for tp, where in positions.items() if where is not None}
        case Earliest():
            return {tp: state.first[tp] for tp in partitions}
        case Latest():
            return {tp: state.end[tp] for tp in partitions}
        case BeforeLatest() as limit:
            return {tp: _bind(state, tp, limit) for tp in partitions}
        case other:
            assert_never(other)


def _named(limit: SpecificOffsets) -> set[str]:
    return {*limit.topics, *(tp.topic for tp in limit.offsets)}


def _bind(state: ClusterState, tp: TopicPartition, where: Position) -> int:
    if isinstance(where, BeforeLatest):
        return max(state.end[tp] - where.count, state.first[tp])
    return {EARLIEST_OFFSET: state.first[tp], LATEST_OFFSET: state.end[tp]}.get(where, where)
