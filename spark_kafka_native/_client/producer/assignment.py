"""Partitions for rows, by the cluster's metadata and a partitioner for each topic."""

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.cluster.metadata import NO_LEADER, TopicMetadata
from spark_kafka_native._client.config import ClientConfig
from spark_kafka_native._client.errors import NoSuchPartition
from spark_kafka_native._client.partitioning.key_hashes import I32
from spark_kafka_native._client.partitioning.partitioner_names import DEFAULT
from spark_kafka_native._client.partitioning.partitioners import Partitioner, TopicPartitioners, make_partitioner
from spark_kafka_native._client.producer.encoding import max_batch_bytes
from spark_kafka_native._client.producer.routing import Rows, partition_ids
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.topic import topic_name_problem
from spark_kafka_native._records.batch import RECORD_BATCH_OVERHEAD


class PartitionAssigner:
    """Assigns a partition to each row of a topic."""

    def __init__(self, cluster: Cluster, partitioner: str | TopicPartitioners | None) -> None:
        """``partitioner``: a name or ``module:function`` (see ``partitioners``); None: ``partitioner.class``."""
        self._cluster = cluster
        self._partitioner: str | TopicPartitioners = partitioner or _configured_partitioner(cluster.config)
        self._records_bytes = max(max_batch_bytes(cluster.config) - RECORD_BATCH_OVERHEAD, 1)
        self._partitioners: dict[str, Partitioner] = {}

    def assign(self, topic: str, rows: Rows) -> I32:
        """Each row's partition: int32[n]. Creates the topic where brokers do so.

        Raises NoSuchPartition, PartitionerError, KafkaError for a topic that is unknown after ``max.block.ms``, invalid
        or forbidden.
        """
        check_topic_name(topic)
        return self.assign_fresh(self._topic(topic), rows)

    def assign_fresh(self, topic: TopicMetadata, rows: Rows) -> I32:
        """As ``assign``, by this metadata; with a request only if a partition or a look-up table does not fit it."""
        try:
            return self._assign(topic, rows)
        except NoSuchPartition:
            return self._assign(self.refreshed(topic.name), rows)  # it may have been added since

    def refreshed(self, topic: str) -> TopicMetadata:
        """New metadata of a topic. Raises KafkaError."""
        self._cluster.mark_stale(topic)
        return self._topic(topic)

    def _assign(self, topic: TopicMetadata, rows: Rows) -> I32:
        partitioner = self._partitioners.get(topic.name)
        if partitioner is None:
            partitioner = self._partitioners[topic.name] = make_partitioner(
                self._partitioner, self._records_bytes, topic=topic.name
            )
        led = [number for number, partition in topic.partitions.items() if partition.leader_id != NO_LEADER]
        return partition_ids(
            topic.name,
            rows,
            partitions=len(topic.partitions),
            available=led or list(topic.partitions),
            partitioner=partitioner,
        )

    def _topic(self, name: str) -> TopicMetadata:
        return self._cluster.topic(name, create=True, timeout_ms=self._cluster.config.max_block_ms)


def topic_metadata(cluster: Cluster, name: str, timeout_ms: float | None = None) -> TopicMetadata:
    """A topic from memory, however old its metadata is; else of a request, which creates it where brokers do so.

    So a record of the producer of single records waits for no broker if its topic is in memory. Raises KafkaError:
    invalid, forbidden, or unknown after ``timeout_ms``, by default ``max.block.ms``.
    """
    known = cluster.topic_in_memory(name)
    if known is not None:
        return known
    check_topic_name(name)
    return cluster.topic(
        name, create=True, timeout_ms=cluster.config.max_block_ms if timeout_ms is None else timeout_ms
    )


def check_topic_name(topic: str) -> None:
    """Raise KafkaError: topics cannot have this name."""
    problem = topic_name_problem(topic)
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)


def _configured_partitioner(config: ClientConfig) -> str:
    """As in Kafka, ``partitioner.ignore.keys`` is about the default partitioner alone."""
    if config.partitioner_class:
        return config.partitioner_class
    return "sticky" if config.partitioner_ignore_keys else DEFAULT
