"""Errors of the record clients that are not about a broker."""

from collections.abc import Sequence

from spark_kafka_native._record_clients.records import ConsumerRecord


class SerializationError(ValueError):
    """A serializer failed, or did not return bytes or None. Its record was not sent."""


class DeserializationError(ValueError):
    """A deserializer failed. ``record`` has the bytes; the stream continues after it."""

    def __init__(self, record: ConsumerRecord, part: str, error: Exception) -> None:
        self.record = record
        at = f"{record.topic}-{record.partition}, offset {record.offset}"
        super().__init__(f"{at}: the {part} cannot be deserialized: {error}")


class CommitFailed(RuntimeError):
    """Offsets were not committed, because the group has given the partitions to other members."""


class NoOffset(LookupError):
    """Partitions have no committed offset, or one without records, and ``auto.offset.reset`` is none."""

    def __init__(self, group: str, partitions: Sequence[str]) -> None:
        self.partitions = partitions
        super().__init__(
            f"group {group}: no offset to begin at in {', '.join(partitions)}, and auto.offset.reset is none"
        )


class RebalanceListenerError(RuntimeError):
    """A method of the rebalance listener has raised an exception, which is the cause. The member has left its group."""


class QueueFull(RuntimeError):
    """The queue of records to send was full for ``queue.enqueue.timeout.ms``. The record was not taken."""


class ConsumerTimeout(TimeoutError):
    """A stream had no record for ``consumer.timeout.ms``. The stream can be iterated again."""


class ClientClosed(RuntimeError):
    """The client was closed: by ``close``, by an error that concerns all its requests, or by the end of its process."""
