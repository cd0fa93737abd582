"""Errors of the client. Each names its topic-partition, or its broker."""

from collections.abc import Iterable

from spark_kafka_native._protocol.errors import ErrorCode, KafkaError, RestatedError, counted
from spark_kafka_native._protocol.topic import TopicPartition


class BrokerNotAvailable(KafkaError):
    """A broker that is needed is not in the cluster, or not at the moment."""

    _retriable = True
    """Brokers leave the metadata when they restart."""
    _shows_code = False

    def __init__(self, node_id: int, known: Iterable[int]) -> None:
        self.node_id = node_id
        brokers = ", ".join(map(str, sorted(known)))
        super().__init__(
            ErrorCode.BROKER_NOT_AVAILABLE, f"broker {node_id} is not in the cluster; its brokers are {brokers}"
        )


class NoBrokersFound(KafkaError):
    """ZooKeeper has no broker that the client can use, or cannot be reached. The text names the option."""

    _shows_code = False

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(ErrorCode.BROKER_NOT_AVAILABLE, problem)


class NoSuchPartition(KafkaError):
    """The topic exists and has fewer partitions."""

    _retriable = False
    """A partition does not appear by waiting."""

    def __init__(self, partition: TopicPartition, count: int) -> None:
        self.partition = partition
        self.count = count
        super().__init__(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"{partition} does not exist: the topic has {counted(count, 'partition')}",
        )


class FewerPartitionsThanTable(NoSuchPartition):
    """A look-up table has more partitions than its topic, as far as metadata in memory is up to date."""

    _shows_code = False

    def __init__(self, partition: TopicPartition, count: int, location: str) -> None:
        super().__init__(partition, count)
        self.detail = (
            f"topic {partition.topic} has {counted(count, 'partition')}, and its look-up table in {location} has "
            f"{partition.partition + 1}. If the topic was deleted and created again, delete its table, and create it "
            "again with pykafka lookup-table; else add the partitions"
        )


class NotAReplica(KafkaError):
    """A broker was named that has no replica of the partition."""

    _retriable = False
    """The request is for this broker, so no other broker can answer it."""
    _shows_code = False

    def __init__(self, partition: TopicPartition, node_id: int, replicas: Iterable[int] = ()) -> None:
        """``replicas``: the brokers that have one, as far as they are known."""
        self.partition = partition
        self.node_id = node_id
        self.replicas = tuple(replicas)
        known = f"; its replicas are on {', '.join(map(str, self.replicas))}" if self.replicas else ""
        super().__init__(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {node_id} has no replica of {partition}{known}")


class OffsetOutOfRange(KafkaError):
    """The offset to read is not in the partition, which holds ``earliest`` up to but not including ``latest``."""

    def __init__(self, partition: TopicPartition, offset: int, earliest: int, latest: int) -> None:
        self.partition = partition
        self.offset = offset
        self.earliest = earliest
        self.latest = latest
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{partition}: offset {offset} is not in the log, which has {earliest} to {latest}",
        )


class LogTruncated(KafkaError):
    """The log was truncated below ``position`` and has other records from ``diverged_at`` on (KIP-320)."""

    _retriable = False
    """What was cut off does not come back."""
    _shows_code = False

    def __init__(self, partition: TopicPartition, position: int, diverged_at: int) -> None:
        self.partition = partition
        self.position = position
        self.diverged_at = diverged_at
        super().__init__(
            ErrorCode.FENCED_LEADER_EPOCH,
            f"{partition}: the log was truncated at offset {diverged_at} by a new leader; what was known of it reached "
            f"up to offset {position}",
        )


class FetchTimeout(KafkaError):
    """A partition returned no records for too long. None was skipped: a later read can resume at ``offset``."""

    _shows_code = False

    def __init__(self, partition: TopicPartition, offset: int, waited_ms: int, state: str) -> None:
        self.partition = partition
        self.offset = offset
        self.state = state
        super().__init__(
            ErrorCode.REQUEST_TIMED_OUT,
            f"{partition}: nothing to read at offset {offset} within {waited_ms} ms; {state}",
        )


class BatchTooLarge(KafkaError):
    """A record batch of a partition decompresses to more than ``max_bytes``. ``offset`` is the one in its header."""

    _shows_code = False

    def __init__(self, partition: TopicPartition, offset: int, max_bytes: int) -> None:
        self.partition = partition
        self.offset = offset
        self.max_bytes = max_bytes
        super().__init__(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"{partition}: the record batch at offset {offset} decompresses to more than {max_bytes} bytes",
        )


class CorruptRecords(KafkaError):
    """The same bytes of a partition could not be read twice in a row. ``offset`` is where the reader stands."""

    _retriable = False
    """It was tried again."""

    def __init__(self, partition: TopicPartition, offset: int, reason: str) -> None:
        self.partition = partition
        self.offset = offset
        self.reason = reason
        super().__init__(ErrorCode.CORRUPT_MESSAGE, f"{partition}: records at offset {offset} are corrupt: {reason}")


class TopicRecreated(KafkaError):
    """The topic was deleted and created again: offsets that were planned for the old topic mean nothing now."""

    _retriable = False
    """The old topic does not come back."""

    def __init__(self, partition: TopicPartition, planned: str, found: str) -> None:
        self.partition = partition
        self.found = found
        super().__init__(
            ErrorCode.INCONSISTENT_TOPIC_ID,
            f"{partition}: the topic was deleted and created again (its id was {planned}, it is {found} now)",
        )


class RecordTooLarge(KafkaError):
    """A record cannot be sent: alone it would exceed ``max.request.size``. Nothing of its batch was sent.

    ``option`` is the name of that property in the user's options.
    """

    _shows_code = False

    def __init__(
        self,
        topic: str,
        row: int,
        size_bytes: int,
        max_request_size: int,
        *,
        key_bytes: int = 0,
        value_bytes: int = 0,
        option: str = "max.request.size",
    ) -> None:
        self.topic = topic
        self.row = row
        self.size_bytes = size_bytes
        self.max_request_size = max_request_size
        self.key_bytes = key_bytes
        self.value_bytes = value_bytes
        super().__init__(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"row {row} for topic {topic} takes {size_bytes} bytes (key {key_bytes}, value {value_bytes}), more than "
            f"{option} ({max_request_size}); no row of this batch was sent",
        )


class ProduceError(RestatedError):
    """Records could not be written, or whether they were is unknown, because of ``reason``.

    ``unacknowledged`` counts every record of the producer that no broker has confirmed; all others were written.
    """

    _retriable = False
    """The producer has tried again for as long as it may."""

    def __init__(self, partition: TopicPartition, code: ErrorCode, reason: str, unacknowledged: int) -> None:
        self.partition = partition
        self.reason = reason
        self.unacknowledged = unacknowledged
        verb = "is" if unacknowledged == 1 else "are"
        records = f"{counted(unacknowledged, 'record')} {verb} not acknowledged"
        super().__init__(code, f"{partition}: {reason}; {records}")

    def with_unacknowledged(self, unacknowledged: int) -> "ProduceError":
        """The same error with another number of records."""
        return type(self)(self.partition, self.code, self.reason, unacknowledged)


class DeliveryTimeout(ProduceError):
    """A batch was not acknowledged within ``delivery.timeout.ms``. The client found that out, not a broker."""


class RebalanceFailed(KafkaError):
    """A member of a group in ZooKeeper got no partitions within ``rebalance.max.retries`` attempts."""

    _shows_code = False
    _retriable = False

    def __init__(self, group_id: str, consumer_id: str, attempts: int, problem: str) -> None:
        tried = f"could not rebalance in {attempts} attempts (rebalance.max.retries)"
        super().__init__(ErrorCode.REBALANCE_IN_PROGRESS, f"group {group_id}: {consumer_id} {tried}: {problem}")
