"""What users of the client are told. Every error names its topic-partition, or its broker.

The names say what happened, in Kafka's words; that they are errors shows where they are raised.
"""

from functools import partial
from typing import Any

from spark_kafka_native.protocol.errors import ErrorCode, KafkaError
from spark_kafka_native.protocol.topic import TopicPartition


class BrokerNotAvailable(KafkaError):
    """A broker that is needed is not in the cluster, or not at the moment."""

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        super().__init__(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {node_id} is not in the cluster")

    @property
    def retriable(self) -> bool:
        """True, unlike the bare code: brokers leave the metadata when they restart."""
        return True

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.node_id,)


class NoSuchPartition(KafkaError):
    """The topic exists and has fewer partitions."""

    def __init__(self, partition: TopicPartition, count: int) -> None:
        self.partition = partition
        self.count = count
        super().__init__(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{partition} does not exist: the topic has {count} partitions"
        )

    @property
    def retriable(self) -> bool:
        """False, unlike the bare code: a partition does not appear by waiting."""
        return False

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.partition, self.count)


class NotAReplica(KafkaError):
    """A broker was named that has no replica of the partition."""

    def __init__(self, partition: TopicPartition, node_id: int) -> None:
        self.partition = partition
        self.node_id = node_id
        super().__init__(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {node_id} has no replica of {partition}")

    @property
    def retriable(self) -> bool:
        """False, unlike the bare code: the broker was named, so that no other can be asked."""
        return False

    def __str__(self) -> str:
        return self.detail

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.partition, self.node_id)


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

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.partition, self.offset, self.earliest, self.latest)


class LogTruncated(KafkaError):
    """The log was cut below ``position`` and written anew from ``diverged_at`` on, by a leader that lacked the rest.

    What is at ``diverged_at`` and later now is not what was there when it was read, or planned to be read (KIP-320).
    """

    def __init__(self, partition: TopicPartition, position: int, diverged_at: int) -> None:
        self.partition = partition
        self.position = position
        self.diverged_at = diverged_at
        super().__init__(
            ErrorCode.FENCED_LEADER_EPOCH,
            f"{partition}: the log was truncated at offset {diverged_at} by a new leader; what was known of it reached "
            f"up to offset {position}",
        )

    @property
    def retriable(self) -> bool:
        """False, unlike the bare code: what was cut off does not come back."""
        return False

    def __str__(self) -> str:
        return self.detail

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.partition, self.position, self.diverged_at)


class FetchTimeout(KafkaError):
    """A partition gave nothing to read for too long. Nothing was skipped: a later read can go on at ``offset``."""

    def __init__(self, partition: TopicPartition, offset: int, waited_ms: int, state: str) -> None:
        self.partition = partition
        self.offset = offset
        self.waited_ms = waited_ms
        self.state = state
        super().__init__(
            ErrorCode.REQUEST_TIMED_OUT,
            f"{partition}: nothing to read at offset {offset} within {waited_ms} ms; {state}",
        )

    def __str__(self) -> str:
        return self.detail

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.partition, self.offset, self.waited_ms, self.state)


class BatchTooLarge(KafkaError):
    """A record batch of a partition decompresses to more than ``max_bytes``. ``offset`` is the one in its header."""

    def __init__(self, partition: TopicPartition, offset: int, max_bytes: int) -> None:
        self.partition = partition
        self.offset = offset
        self.max_bytes = max_bytes
        super().__init__(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"{partition}: the record batch at offset {offset} decompresses to more than {max_bytes} bytes",
        )

    def __str__(self) -> str:
        return self.detail

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.partition, self.offset, self.max_bytes)


class CorruptRecords(KafkaError):
    """The same bytes of a partition could not be read twice in a row. ``offset`` is where the reader stands."""

    def __init__(self, partition: TopicPartition, offset: int, trouble: str) -> None:
        self.partition = partition
        self.offset = offset
        self.trouble = trouble
        super().__init__(ErrorCode.CORRUPT_MESSAGE, f"{partition}: records at offset {offset} are corrupt: {trouble}")

    @property
    def retriable(self) -> bool:
        """False: it was tried again."""
        return False

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.partition, self.offset, self.trouble)


class TopicRecreated(KafkaError):
    """The topic was deleted and made again under its name: offsets planned for the old one mean nothing in the new."""

    def __init__(self, partition: TopicPartition, planned: str, found: str) -> None:
        self.partition = partition
        self.planned = planned
        self.found = found
        super().__init__(
            ErrorCode.INCONSISTENT_TOPIC_ID,
            f"{partition}: the topic was deleted and created again (its id was {planned}, it is {found} now)",
        )

    @property
    def retriable(self) -> bool:
        """False: the old topic does not come back."""
        return False

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.partition, self.planned, self.found)


class RecordTooLarge(KafkaError):
    """A record cannot be sent: alone it would exceed ``max.request.size``. Nothing of its batch was sent."""

    def __init__(
        self, topic: str, row: int, size_bytes: int, max_request_size: int, *, key_bytes: int = 0, value_bytes: int = 0
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
            f"max.request.size = {max_request_size}; no row of this batch was sent",
        )

    def __str__(self) -> str:
        return self.detail

    def __reduce__(self) -> tuple[Any, ...]:
        made = partial(type(self), key_bytes=self.key_bytes, value_bytes=self.value_bytes)
        return made, (self.topic, self.row, self.size_bytes, self.max_request_size)


class ProduceError(KafkaError):
    """Records could not be written, or whether they were is unknown.

    ``unacknowledged`` counts every record of the producer that no broker has confirmed; all others were written.
    """

    def __init__(self, partition: TopicPartition, code: ErrorCode, detail: str, unacknowledged: int) -> None:
        self.partition = partition
        self.reason = detail
        self.unacknowledged = unacknowledged
        super().__init__(code, f"{partition}: {detail}; {unacknowledged} records are not acknowledged")

    @property
    def retriable(self) -> bool:
        """False: the producer has tried again for as long as it may."""
        return False

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.partition, self.code, self.reason, self.unacknowledged)
