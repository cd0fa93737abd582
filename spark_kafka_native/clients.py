"""Kafka clients without Spark: ``Producer``, ``ConsumerConnector`` and ``SimpleConsumer``. See docs/clients.md."""

from spark_kafka_native._client.admin.committed_offsets import OffsetAndMetadata
from spark_kafka_native._client.cluster.metadata import ClusterMetadata, Node
from spark_kafka_native._client.errors import (
    BatchTooLarge,
    CorruptRecords,
    DeliveryTimeout,
    NoBrokersFound,
    NoSuchPartition,
    NotAReplica,
    OffsetOutOfRange,
    ProduceError,
    RebalanceFailed,
)
from spark_kafka_native._client.groups.topic_filters import Blacklist, TopicFilter, Whitelist
from spark_kafka_native._client.partitioning.partitioner_names import PartitionerError
from spark_kafka_native._net.errors import AuthenticationFailed, BrokerUnreachable, ConfigError
from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._record_clients.consumer.connector import ConsumerConnector
from spark_kafka_native._record_clients.consumer.fetches import FetchRequest, FetchResult
from spark_kafka_native._record_clients.consumer.rebalance_listener import RebalanceListener
from spark_kafka_native._record_clients.consumer.simple import SimpleConsumer
from spark_kafka_native._record_clients.consumer.streams import MessageStream
from spark_kafka_native._record_clients.errors import (
    ClientClosed,
    CommitFailed,
    ConsumerTimeout,
    DeserializationError,
    NoOffset,
    QueueFull,
    RebalanceListenerError,
    SerializationError,
)
from spark_kafka_native._record_clients.producer.futures import RecordFuture
from spark_kafka_native._record_clients.producer.handlers import CallbackHandler, EventHandler, QueuedRecord
from spark_kafka_native._record_clients.producer.producer import Producer, ProducerMetrics
from spark_kafka_native._record_clients.records import ConsumerRecord, ProducerRecord, RecordMetadata

__all__ = [
    "AuthenticationFailed",
    "BatchTooLarge",
    "Blacklist",
    "BrokerUnreachable",
    "CallbackHandler",
    "ClientClosed",
    "ClusterMetadata",
    "CommitFailed",
    "ConfigError",
    "ConsumerConnector",
    "ConsumerRecord",
    "ConsumerTimeout",
    "CorruptRecords",
    "DeliveryTimeout",
    "DeserializationError",
    "EventHandler",
    "FetchRequest",
    "FetchResult",
    "KafkaError",
    "MessageStream",
    "NoBrokersFound",
    "NoOffset",
    "NoSuchPartition",
    "Node",
    "NotAReplica",
    "OffsetAndMetadata",
    "OffsetOutOfRange",
    "PartitionerError",
    "ProduceError",
    "Producer",
    "ProducerMetrics",
    "ProducerRecord",
    "QueueFull",
    "QueuedRecord",
    "RebalanceFailed",
    "RebalanceListener",
    "RebalanceListenerError",
    "RecordFuture",
    "RecordMetadata",
    "SerializationError",
    "SimpleConsumer",
    "TopicFilter",
    "TopicPartition",
    "Whitelist",
]
