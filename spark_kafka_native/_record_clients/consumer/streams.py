"""The streams of a group consumer: iterators over the records of the partitions that are assigned to them."""

from typing import Self

from spark_kafka_native._protocol.topic import TopicPartition, listed
from spark_kafka_native._record_clients.consumer.stream_partitions import StreamPartitions
from spark_kafka_native._record_clients.deserializers import Deserializer, default_decoder, deserialize
from spark_kafka_native._record_clients.errors import DeserializationError
from spark_kafka_native._record_clients.records import ConsumerRecord


class MessageStream:
    """An iterator over records, for one thread. It ends after ``ConsumerConnector.shutdown``.

    A record is being processed until the next one is requested.
    """

    def __init__(
        self,
        partitions: StreamPartitions,
        key_deserializer: Deserializer,
        value_deserializer: Deserializer,
        *,
        consumer: object = None,
    ) -> None:
        """Use ``ConsumerConnector``. ``consumer`` leaves its group when it is collected as garbage."""
        self._partitions = partitions
        self._deserializers = key_deserializer, value_deserializer
        self._is_raw = key_deserializer is value_deserializer is default_decoder
        self._consumer = consumer

    def __repr__(self) -> str:
        return f"<MessageStream of {listed(sorted(self.partitions)) or 'no partitions'}>"

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
        if not self._is_raw:
            try:
                record = deserialize(record, *self._deserializers)
            except DeserializationError:
                self._partitions.is_returned = True  # the error has the record
                raise
        # No call, so no signal handler, between this and the caller's next statement.
        self._partitions.is_returned = True
        return record
