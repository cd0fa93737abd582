"""From the points of the command line, a time or offsets, to offsets of the cluster's partitions."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from spark_kafka_native._client.cluster.metadata import NO_EPOCH, PartitionLeader
from spark_kafka_native._jobs.batch_reload.errors import ReloadError, UsageError, changed
from spark_kafka_native._jobs.batch_reload.plan import ClusterState, Plan, Wanted
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


@dataclass(frozen=True, slots=True)
class AtTime:
    """Each partition at its first record of this time or later; at its end where there is none."""

    at: int | Ago

    def milliseconds(self, now: int) -> int:
        """The time in milliseconds since 1970, at least 0. ``now`` is the present time in the same unit."""
        return max(now - self.at.duration_ms, 0) if isinstance(self.at, Ago) else self.at


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """Each partition at its own position; partitions that are not named where the last run ended."""

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


def cluster_state(source: OffsetSource, partitions: Sequence[TopicPartition]) -> ClusterState:
    """First and end offsets, leaders and topic ids. Raises KafkaError."""
    bounds = look_up_bounds(source, partitions)
    ids = {tp.topic: str(leader.topic_id) for tp, leader in bounds.leaders.items() if leader.topic_id != ZERO_UUID}
    return ClusterState(first=bounds.earliest, end=bounds.latest, topic_ids=ids, leaders=bounds.leaders)


def check_unchanged(source: OffsetSource, plan: Plan) -> None:
    """Check that the topics and logs of a plan have not changed since the plan was made.

    Without topic ids (brokers before 2.8) a recreated topic is found by a missing partition, an earlier leader epoch or
    an earlier end, and otherwise not found.
    Raises ReloadError: a topic was deleted or recreated, or a log was truncated; KafkaError.
    """
    _check_topics(source, plan)
    leaders = {piece.topic_partition: piece.leader for piece in plan.pieces if piece.leader is not None}
    if not leaders:
        return
    ends = _ends_of_planned_epochs(source, leaders)
    for part in plan.partitions:
        end = ends.get(part.partition)
        if end is not None and end < part.until_offset:
            raise changed(f"the log of {part.partition} was truncated at offset {end}")


def _check_topics(source: OffsetSource, plan: Plan) -> None:
    """Look up all topics of the plan without cached metadata; ``leaders`` are up to date after that."""
    topics = {part.partition.topic for part in plan.partitions}
    present = source.topics(sorted(topics))
    ids = source.topic_ids(topics)
    for part in plan.partitions:
        topic, number = part.partition
        if topic not in present:
            raise changed(f"topic {topic} was deleted")
        planned = plan.topic_ids.get(topic)
        if number not in present[topic] or (planned is not None and str(ids.get(topic)) != planned):
            raise _recreated(topic)


def _ends_of_planned_epochs(source: OffsetSource, planned: Mapping[TopicPartition, PartitionLeader]) -> OffsetMap:
    """The offsets up to which each log is the same as in the plan.

    The end of an earlier leader epoch never increases. So if the present log has the planned epoch up to the planned
    end, it had it all the time.
    """
    leaders = source.leaders(planned)
    epochs: dict[TopicPartition, int] = {}
    for tp, leader in planned.items():
        if NO_EPOCH < leaders[tp].leader_epoch < leader.leader_epoch:
            raise _recreated(tp.topic)
        if NO_EPOCH < leader.leader_epoch < leaders[tp].leader_epoch:
            epochs[tp] = leader.leader_epoch
    ends = source.list_offsets(dict.fromkeys(planned, LATEST_OFFSET))
    if gone := planned.keys() - ends.keys():
        raise changed(f"topic {min(gone).topic} was deleted")
    epoch_ends = source.ends_of_epochs(epochs) if epochs else {}
    return {tp: min(end, epoch_ends.get(tp, end)) for tp, end in ends.items()}


def _recreated(topic: str) -> ReloadError:
    return changed(f"topic {topic} was deleted and created again")


def resolve_wanted(
    source: OffsetSource,
    state: ClusterState,
    start: Point | None,
    until: Point | None,
    *,
    accept_loss: bool,
    start_option: str = "--from",
    now_ms: Callable[[], float] = lambda: time.time() * 1000,
) -> Wanted:
    """The limits of a run in offsets; ``start`` None: since the last run. Raises UsageError, KafkaError."""
    now = round(now_ms())
    if isinstance(start, AtTime) and isinstance(until, AtTime):
        begin_ms, end_ms = start.milliseconds(now), until.milliseconds(now)
        if end_ms < begin_ms:
            raise UsageError(f"--until: {end_ms} ms since 1970 is before {start_option}, {begin_ms}")
    return Wanted(
        points=_offsets(source, state, start, start_option, now) if start else {},
        ends=_offsets(source, state, until, "--until", now) if until else {},
        accept_loss=accept_loss,
        start_option=start_option,
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
                raise UsageError(f"{option}: names topics that are not loaded: {listed(unknown)}")
            if missing := limit.offsets.keys() - set(partitions):
                raise UsageError(f"{option}: names partitions that do not exist: {listed(missing)}")
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
