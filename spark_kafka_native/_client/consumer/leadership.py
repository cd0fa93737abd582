"""The leaders of the partitions that are read, and truncation checks of their logs (KIP-320)."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from spark_kafka_native._client.cluster.cluster import UNKNOWN_TOPIC_TRIES, Cluster
from spark_kafka_native._client.cluster.metadata import NO_EPOCH, PartitionLeader
from spark_kafka_native._client.config import READ_UNCOMMITTED
from spark_kafka_native._client.consumer.cursor import Cursor
from spark_kafka_native._client.consumer.leader_epochs import ends_in_logs_of
from spark_kafka_native._client.consumer.offsets import EARLIEST, LATEST, list_offsets
from spark_kafka_native._client.errors import LogTruncated, NoSuchPartition, OffsetOutOfRange, TopicRecreated
from spark_kafka_native._client.retry import is_transient
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._protocol.wire import ZERO_UUID


def find_leaders(
    cluster: Cluster, cursors: Sequence[Cursor], deadline: Deadline
) -> tuple[dict[Cursor, KafkaError], dict[Cursor, KafkaError]]:
    """Set the leaders of ``cursors`` -> the errors of those without one: to be retried, and final.

    A later leader's log is compared with what was read before.
    """
    partitions = [cursor.partition for cursor in cursors if cursor.leader is None]
    leaders: Mapping[TopicPartition, PartitionLeader] = {}
    errors: Mapping[TopicPartition, KafkaError] = {}
    if partitions:
        try:
            leaders, errors = cluster.find_leaders(partitions, deadline)
        except KafkaError as unreachable:
            errors = dict.fromkeys(partitions, unreachable)
    retriable: dict[Cursor, KafkaError] = {}
    final: dict[Cursor, KafkaError] = {}
    topic_ids = cluster.topic_ids_in_memory({partition.topic for partition in partitions})
    for cursor in cursors:
        if cursor.leader is not None:
            continue
        leader, topic_id = leaders.get(cursor.partition), topic_ids.get(cursor.partition.topic, ZERO_UUID)
        error = _other_topic(cursor, topic_id) or errors.get(cursor.partition)
        if error is None:
            cursor.leader, cursor.lookups = leader, 0
            if topic_id != ZERO_UUID:
                cursor.topic_id = topic_id
            continue
        cluster.mark_stale(cursor.partition.topic)
        # Brokers learn late that a topic was created, or created again: they do not have it, or have the earlier one.
        is_late = isinstance(error, TopicRecreated) or error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        cursor.lookups += is_late
        may_pass = error.retriable or isinstance(error, TopicRecreated | NoSuchPartition)
        is_retriable = may_pass and cursor.lookups < UNKNOWN_TOPIC_TRIES
        (retriable if is_retriable else final)[cursor] = error
    for cursor, error in _compare_logs(cluster, cursors, deadline).items():
        (retriable if is_transient(error) else final)[cursor] = error
    return retriable, final


def _compare_logs(cluster: Cluster, cursors: Sequence[Cursor], deadline: Deadline) -> dict[Cursor, KafkaError]:
    """The errors of cursors whose leader epoch has increased, as ``find_divergence``.

    After a transient error the cursor has no leader, so that the leader is looked up and asked again.
    """
    later = [cursor for cursor in cursors if cursor.leader_epoch > cursor.compared_epoch]
    compared = [cursor for cursor in later if cursor.compared_epoch != NO_EPOCH]
    # The other half of the time is for the Fetches of cursors without an error, and for a retry of the others.
    errors = find_divergence(cluster, compared, Deadline.after_ms(deadline.remaining_ms / 2)) if compared else {}
    for cursor in later:
        if cursor in errors and is_transient(errors[cursor]):
            cluster.mark_stale(cursor.partition.topic)
            cursor.leader = None
        else:
            cursor.compared_epoch = cursor.leader_epoch
    return errors


def _other_topic(cursor: Cursor, topic_id: UUID) -> TopicRecreated | None:
    if ZERO_UUID in {cursor.topic_id, topic_id} or cursor.topic_id == topic_id:
        return None
    return TopicRecreated(cursor.partition, str(cursor.topic_id), str(topic_id))


def find_divergence(cluster: Cluster, cursors: Sequence[Cursor], deadline: Deadline) -> dict[Cursor, KafkaError]:
    """Lower each cursor's end offset to where its new leader's log diverges from the fetched records (KIP-320).

    Returns errors: LogTruncated if a log lacks records that were read, or all records that were to be read next; or the
    error of the leader, which may be transient. There are no retries.
    """
    read = {cursor: (cursor.epoch, cursor.position) for cursor in cursors if cursor.epoch != NO_EPOCH}
    seen = {cursor: (cursor.known_epoch, cursor.end_offset) for cursor in cursors if cursor.known_epoch != NO_EPOCH}
    # Where both epochs are the same, the larger offset is enough.
    read = {cursor: each for cursor, each in read.items() if cursor not in seen or seen[cursor][0] != each[0]}
    errors: dict[Cursor, KafkaError] = {}
    half = Deadline.after_ms(deadline.remaining_ms / 2)
    for reached, until in ((read, half if seen else deadline), (seen, deadline)):
        compared = [cursor for cursor in reached if cursor not in errors]
        leaders = {cursor.partition: cursor.leader for cursor in compared if cursor.leader is not None}
        epochs = {cursor.partition: reached[cursor][0] for cursor in compared}
        ends = ends_in_logs_of(cluster, leaders, epochs, until)
        for cursor in compared:
            end = ends.get(cursor.partition)
            if isinstance(end, KafkaError):
                errors[cursor] = end
            elif end is not None and end.end_offset < reached[cursor][1]:
                cursor.end_offset = min(cursor.end_offset, end.end_offset)
    for cursor in cursors:
        if cursor not in errors and cursor.end_offset <= cursor.position:
            errors[cursor] = LogTruncated(cursor.partition, cursor.position, cursor.end_offset)
    return errors


def check_range(cluster: Cluster, cursor: Cursor, deadline: Deadline) -> KafkaError | None:
    """The error of a partition whose leader answered OFFSET_OUT_OF_RANGE; None if the offset is in the log after all.

    It may be, shortly after an election; and a leader that does not know an epoch answers with the same error, so the
    next Fetch names none.
    """
    partition, offset = cursor.partition, cursor.next_offset
    try:
        found = list_offsets(cluster, {partition: EARLIEST}, timeout_ms=deadline.remaining_ms)
        earliest = found[partition].offset
        found = list_offsets(cluster, {partition: LATEST}, isolation=READ_UNCOMMITTED, timeout_ms=deadline.remaining_ms)
        latest = found[partition].offset
    except KafkaError as error:
        return error
    if earliest <= offset <= latest:
        cursor.epoch = cursor.next_epoch = NO_EPOCH
        cursor.state = f"the broker calls it out of range, yet says that the log has {earliest} to {latest}"
        return None
    diverged = find_divergence(cluster, [cursor], deadline) if offset > latest else {}
    return diverged.get(cursor) or OffsetOutOfRange(partition, offset, earliest, latest)
