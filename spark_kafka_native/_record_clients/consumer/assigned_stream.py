"""What a member of a group needs of a stream, which returns records, or forwards them to another cluster."""

import threading
from collections.abc import Collection, Mapping
from typing import Protocol

from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._record_clients.records import ConsumerRecord


class AssignedStream(Protocol):
    """A stream of partitions. All methods are for any thread."""

    @property
    def assigned(self) -> list[TopicPartition]:
        """The assigned partitions."""

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The next offset to process of each assigned partition, which is the one to commit."""

    @property
    def in_process(self) -> ConsumerRecord | None:
        """The record that is being processed; its partition may be lost."""

    @property
    def is_unread(self) -> bool:
        """Whether it has partitions, and no thread has ever requested a record."""

    def assign(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Read these partitions, too, each from its offset on."""

    def stop(self, partitions: Collection[TopicPartition]) -> None:
        """Begin to process no more records of these partitions."""

    def is_processing(self, partitions: Collection[TopicPartition]) -> bool:
        """Whether records of these partitions are being processed."""

    def remove(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Read these partitions no more -> the offset after the last processed record of each that has one."""

    def acknowledge(self, thread: threading.Thread) -> None:
        """Count the record that a thread processes as processed."""

    def wake(self) -> None:
        """Advance the positions."""

    def fail(self, error: Exception) -> None:
        """Let the reader of the stream raise an error."""

    def end(self) -> None:
        """Process no record any more. Takes no lock: a handler of a signal may call it."""

    def close(self) -> None:
        """As ``end``, and release connections and descriptors."""
