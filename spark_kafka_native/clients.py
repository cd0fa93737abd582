"""Kafka clients for single records, without Spark: ``Producer``. See docs/clients.md."""

from spark_kafka_native._client.cluster.metadata import ClusterMetadata
from spark_kafka_native._client.errors import DeliveryTimeout, NoBrokersFound, NoSuchPartition, ProduceError
from spark_kafka_native._client.partitioning.partitioner_names import PartitionerError
from spark_kafka_native._net.errors import AuthenticationFailed, BrokerUnreachable, ConfigError
from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._record_clients.errors import ClientClosed, QueueFull, SerializationError
from spark_kafka_native._record_clients.producer.futures import RecordFuture
from spark_kafka_native._record_clients.producer.handlers import CallbackHandler, EventHandler, QueuedRecord
from spark_kafka_native._record_clients.producer.producer import Producer, ProducerMetrics
from spark_kafka_native._record_clients.records import ProducerRecord, RecordMetadata

__all__ = [
    "AuthenticationFailed",
    "BrokerUnreachable",
    "CallbackHandler",
    "ClientClosed",
    "ClusterMetadata",
    "ConfigError",
    "DeliveryTimeout",
    "EventHandler",
    "KafkaError",
    "NoBrokersFound",
    "NoSuchPartition",
    "PartitionerError",
    "ProduceError",
    "Producer",
    "ProducerMetrics",
    "ProducerRecord",
    "QueueFull",
    "QueuedRecord",
    "RecordFuture",
    "RecordMetadata",
    "SerializationError",
]
