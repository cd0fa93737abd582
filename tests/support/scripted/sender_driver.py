"""Driving a sender in tests: batches by name into it, and what brokers have of them in the end."""

from typing import Self

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.producer.partition_queue import OutgoingBatch
from spark_kafka_native._client.producer.produce_request import Acknowledgement
from spark_kafka_native._client.producer.sender import Sender
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._records.arrow.encode import EncodedBatch
from tests.support.records.record_batches import batch_of
from tests.support.scripted.cluster import ScriptedCluster

PARTITIONS = 4
T = [TopicPartition("t", number) for number in range(PARTITIONS)]


class SenderDriver:
    """A sender that is given batches by name and pumped until all is done."""

    def __init__(self, brokers: ScriptedCluster, *, delivery_timeout_ms: int | None = None, **options: object) -> None:
        timeouts = {"request_timeout_ms": 30_000, "linger_ms": 0, "delivery_timeout_ms": delivery_timeout_ms or 90_000}
        self.brokers = brokers
        self.cluster = Cluster(brokers.config(**{**timeouts, **options}))
        self.acknowledged: list[Acknowledgement] = []
        self.sender = Sender(self.cluster, on_acknowledged=self.acknowledged.append)
        self.seconds = self.cluster.config.delivery_timeout_ms / 1000
        self._skipped_s = 0.0
        unshifted = self.sender.now
        self.sender.now = lambda: unshifted() + self._skipped_s

    def add(self, partition: int, *values: str, topic: str = "t") -> Self:
        """A batch for each value."""
        for value in values:
            self.add_batch(partition, value, topic=topic)
        return self

    def add_batch(self, partition: int, *values: str, topic: str = "t") -> Self:
        """One batch with all values."""
        buffer = batch_of([value.encode() for value in values])
        encoded = EncodedBatch(buffer=buffer, records_count=len(values), first_row=0)
        batch = OutgoingBatch(encoded=encoded, expires_at=self.sender.now() + self.seconds)
        self.sender.add(TopicPartition(topic, partition), batch)
        return self

    def skip(self, seconds: float) -> None:
        """Put the sender's clock forward, as if it had waited so long for a broker."""
        self._skipped_s += seconds

    def finish(self) -> None:
        while self.sender.buffered_records:
            self.sender.pump(wait=True)

    def stored(self, partition: int) -> list[str]:
        return [value.decode() for value in self.brokers.partition("t", partition).values() if value is not None]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.sender.release()
        self.cluster.close()


def names(partition: int, count: int = 30) -> list[str]:
    """Batches for a partition."""
    return [f"{partition}.{number}" for number in range(count)]


def write_and_check(driver: SenderDriver) -> None:
    """Write to all partitions, and find all of it there, in order."""
    for number in range(30):
        for partition in range(PARTITIONS):
            driver.add(partition, names(partition)[number])
    driver.finish()
    for partition in range(PARTITIONS):
        assert driver.stored(partition) == names(partition)
    assert driver.sender.metrics.records == 30 * PARTITIONS
    assert driver.sender.buffered_bytes == 0
