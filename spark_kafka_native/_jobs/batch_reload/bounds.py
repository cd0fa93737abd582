"""Which offsets a run loads, and whether the topics have changed since."""

import time
from collections.abc import Callable, Mapping

from spark_kafka_native._client.cluster.metadata import NO_EPOCH, PartitionLeader
from spark_kafka_native._jobs.batch_reload.errors import ReloadError, changed
from spark_kafka_native._jobs.batch_reload.plan import Plan, Wanted
from spark_kafka_native._jobs.points import ClusterState, Point, resolve
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.offsets import LATEST_OFFSET, OffsetMap
from spark_kafka_native._spark.planning.bounds import OffsetSource


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
    """The limits of a run in offsets; ``start`` None: since the last run. Raises InvalidOption, KafkaError."""
    points, ends = resolve(source, state, start, until, start_option=start_option, now_ms=now_ms())
    return Wanted(points=points, ends=ends, accept_loss=accept_loss, start_option=start_option)


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
