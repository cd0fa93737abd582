"""What the threads of a producer share: the cluster, look-up tables, and the condition of all results."""

import threading

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.cluster.metadata import TopicMetadata
from spark_kafka_native._client.errors import NoSuchPartition
from spark_kafka_native._client.producer.assignment import topic_metadata
from spark_kafka_native._net.errors import AuthenticationFailed
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._record_clients.producer.config import ProducerConfig
from spark_kafka_native._record_clients.producer.futures import ResultCondition
from spark_kafka_native._record_clients.producer.lookup import CurrentTables


class Connections:
    """The connections of a producer to its brokers, and to ZooKeeper if they are found there."""

    def __init__(self, config: ProducerConfig) -> None:
        """Does not connect yet."""
        self._discovery = config.discovery.discovery()
        self.cluster = Cluster(config.client, discovery=self._discovery, warns=True)
        self.tables = None if config.lookup_table is None else CurrentTables(self.cluster, config.lookup_table)
        """The tables of ``partitioner.class=lookup``."""
        self.condition = ResultCondition()
        """Notified when records of the producer have results."""
        self._lock = threading.RLock()  # a signal handler can send while the first send has it
        self.failure: Exception | None = None
        """An error after which nothing can be sent any more, as one of authentication, which locks accounts."""

    def look_up(self, topic: str, partition: int | None = None) -> TopicMetadata:
        """Have the metadata and the table of a topic in memory.

        In the threads of ``send``, so that a new topic does not make the records of others wait. Raises KafkaError,
        also for a ``partition`` that does not exist; LookupTableError.
        """
        try:
            found = self._metadata_of(topic)
            if partition is not None and partition not in found.partitions:  # it may have been added since
                self.cluster.mark_stale(topic)
                found = self.cluster.topic(topic, timeout_ms=self.cluster.config.max_block_ms)
            if self.tables is not None:
                self.tables.refresh(topic)
        except AuthenticationFailed as error:
            self.failure = self.failure or error
            raise
        if partition is not None and partition not in found.partitions:
            raise NoSuchPartition(TopicPartition(topic, partition), len(found.partitions))
        return found

    def _metadata_of(self, topic: str) -> TopicMetadata:
        """As ``topic_metadata``; until the first response by one thread at a time: a wrong password is tried once."""
        if self.cluster.cluster_id is not None:
            return topic_metadata(self.cluster, topic)
        max_block_ms = self.cluster.config.max_block_ms
        deadline = self.cluster.deadline(max_block_ms)
        # An interrupt before ``try`` leaves the lock to this thread, whose next send can acquire it again.
        if not self._lock.acquire(timeout=min(max_block_ms / 1000, threading.TIMEOUT_MAX)):
            text = f"topic {topic}: no broker has responded to another thread within max.block.ms ({max_block_ms} ms)"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, text)
        try:
            if isinstance(self.failure, AuthenticationFailed):
                raise self.failure
            return topic_metadata(self.cluster, topic, timeout_ms=deadline.remaining_ms)
        finally:
            self._lock.release()

    def close(self) -> None:
        """Close all connections."""
        self.cluster.close()
        if self._discovery is not None:
            self._discovery.close()
