"""The producer of single records: ``spark_kafka_native.clients.Producer``."""

import dataclasses
import os
import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from spark_kafka_native._client.cluster.metadata import MetadataListener
from spark_kafka_native._record_clients.errors import ClientClosed
from spark_kafka_native._record_clients.producer.config import ProducerConfig
from spark_kafka_native._record_clients.producer.connections import Connections
from spark_kafka_native._record_clients.producer.futures import RecordFuture
from spark_kafka_native._record_clients.producer.handlers import CallbackHandler, QueuedRecord
from spark_kafka_native._record_clients.producer.send_thread import SendThread
from spark_kafka_native._record_clients.records import ProducerRecord
from spark_kafka_native._record_clients.serializers import default_encoder


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProducerMetrics:
    """Counters of a producer from its start, and two gauges: ``queued`` and ``unacknowledged`` records."""

    records: int
    """Acknowledged records."""
    batches: int
    bytes_sent: int
    """Bytes of acknowledged batches, compressed."""
    requests: int
    retries: int
    failed: int
    """Records whose future has an error."""
    dropped: int
    """Records that the full queue did not take."""
    queued: int
    unacknowledged: int


class Producer:
    """Sends single records. Threads may share it. Use it as a context manager, or call ``close``.

    ::

        with Producer({"bootstrap.servers": "localhost:9092"}) as producer:
            future = producer.send("events", b"value", key=b"key")
            print(future.result().offset)

    ``options`` are Kafka's producer properties; docs/options.md lists those of this class. By default each send returns
    a future at once, and a thread sends what has waited ``linger.ms``. With ``producer.type=sync`` a send returns when
    brokers have its record.

    Records of a partition are written in the order in which they were sent; with idempotence, the default, none is
    written twice. A partition in error fails its unacknowledged records. Later ones are tried again.
    """

    def __init__(self, options: Mapping[str, object]) -> None:
        """Does not connect yet. Raises ConfigError naming the option."""
        self._config = ProducerConfig.parse(options)
        self._callbacks = self._config.callback_handler or CallbackHandler()
        self._connections = Connections(self._config)
        self._thread = SendThread(self._config, self._connections)
        self._pid = os.getpid()
        # A producer that is forgotten without close() sends what is left; the end of the process waits for it.
        weakref.finalize(self, self._thread.end).atexit = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> RecordFuture:
        """Send a record (see ``ProducerRecord``). Its future has the RecordMetadata, or the error of the record.

        Raises, before the record is taken: TypeError or ValueError for a wrong argument; KafkaError for a topic that is
        unknown after ``max.block.ms``, invalid or forbidden; QueueFull; ClientClosed. With ``producer.type=sync`` it
        raises the error of the record, too.
        """
        queued = self._prepared(ProducerRecord(topic, value, key, partition, timestamp_ms, headers))
        if (error := self._thread.send([queued])) is not None:
            raise error
        return queued

    def send_all(self, records: Iterable[ProducerRecord]) -> Sequence[RecordFuture]:
        """Send records. Their futures, in the same order; with ``producer.type=sync`` all have their results.

        Raises as ``send`` does, before any record is taken. After that the error of a record, as QueueFull, is only in
        its future.
        """
        queued = [self._prepared(record) for record in records]
        self._thread.send(queued)
        return queued

    def flush(self, timeout_ms: float | None = None) -> None:
        """Send the waiting records at once, and return when all records sent before have their results.

        Raises TimeoutError: some have none after ``timeout_ms``. The errors of records are in their futures.
        """
        self._check_usable()
        if not self._thread.flush(_seconds(timeout_ms)):
            raise TimeoutError(f"not all records were acknowledged within {timeout_ms} ms")

    def close(self, timeout_ms: float | None = None) -> None:
        """Send what is left, and give the connections back. Records without a result after ``timeout_ms`` fail."""
        if self._pid == os.getpid():
            self._thread.close(_seconds(timeout_ms))

    def partitions_for(self, topic: str) -> list[int]:
        """The topic's partitions, ascending. Raises KafkaError as ``send``."""
        self._check_usable()
        return list(self._connections.look_up(topic).partitions)

    def add_metadata_listener(self, listener: MetadataListener) -> None:
        """Call ``listener`` with brokers, topics, partitions and leaders whenever those of the producer have changed.

        It is called in the thread that has received the metadata, and must not wait for the producer.
        """
        self._check_usable()
        self._connections.cluster.metadata_listeners.add(listener)

    @property
    def metrics(self) -> ProducerMetrics:
        """The counters now."""
        sender = self._thread.sender
        return ProducerMetrics(
            **dataclasses.asdict(sender.metrics),
            failed=sender.failed,
            dropped=self._thread.dropped,
            queued=self._thread.queued,
            unacknowledged=sender.unacknowledged,
        )

    # --- inside

    def _prepared(self, record: ProducerRecord) -> QueuedRecord:
        self._check_usable()
        if not isinstance(record, ProducerRecord):
            raise TypeError(f"a record must be a ProducerRecord, not {type(record).__name__}")
        record = self._callbacks.before_enqueue(record)
        if not isinstance(record, ProducerRecord):
            raise TypeError(f"before_enqueue must return a ProducerRecord, not {type(record).__name__}")
        record.check()
        self._check_bytes(record)
        self._connections.look_up(record.topic, record.partition)
        return self._thread.sender.make(record)

    def _check_bytes(self, record: ProducerRecord) -> None:
        for part, data, encode in (
            ("key", record.key, self._config.key_serializer),
            ("value", record.value, self._config.value_serializer),
        ):
            if encode is default_encoder and not isinstance(data, bytes | bytearray | memoryview | None):
                kind = type(data).__name__
                raise TypeError(f"topic {record.topic}: {part} is {kind}; set {part}.serializer, or pass bytes")

    def _check_usable(self) -> None:
        if self._thread.is_closing:
            raise ClientClosed("the producer is closed") from self._thread.failure
        if (failure := self._connections.failure) is not None:
            raise ClientClosed(f"the producer has failed: {failure}") from failure
        if self._pid != os.getpid():
            raise ClientClosed("the producer belongs to the process before fork(); make one in each process")


def _seconds(timeout_ms: float | None) -> float | None:
    return None if timeout_ms is None else min(max(timeout_ms / 1000, 0.0), threading.TIMEOUT_MAX)
