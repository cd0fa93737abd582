"""The streams of a group consumer: iterators over the records of the partitions that are assigned to them."""

from typing import Self

from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._record_clients.consumer.group_config import ConsumerConfig
from spark_kafka_native._record_clients.consumer.stream_partitions import StreamPartitions
from spark_kafka_native._record_clients.deserializers import default_decoder, deserialize
from spark_kafka_native._record_clients.records import ConsumerRecord


class MessageStream:
    """An iterator over records, for one thread. It ends after ``ConsumerConnector.shutdown``.

    A record is being processed until the next one is requested.
    """

    def __init__(self, consumer: object, config: ConsumerConfig, partitions: StreamPartitions) -> None:
        """Use ``ConsumerConnector``."""
        self._consumer = consumer
        """It leaves its group when it is collected as garbage, so the stream keeps it."""
        self._partitions = partitions
        self._deserializers = config.key_deserializer, config.value_deserializer
        self._is_raw = config.key_deserializer is config.value_deserializer is default_decoder

    @property
    def partitions(self) -> list[TopicPartition]:
        """The partitions that are assigned to the stream now."""
        return self._partitions.assigned

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ConsumerRecord:
        """The next record.

        Raises ConsumerTimeout after ``consumer.timeout.ms``; DeserializationError; NoOffset; KafkaError; RuntimeError:
        another thread waits for a record of this stream.
        """
        record = self._partitions.take()
        if record is None:
            raise StopIteration
        return record if self._is_raw else deserialize(record, *self._deserializers)
