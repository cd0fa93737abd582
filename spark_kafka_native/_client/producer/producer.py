"""Writing rows: whole Arrow batches in, acknowledged records out.

    rows -> partition ids -> sorted by partition -> rows that fill no batch wait -> encode, compress -> Sender

Everything happens in the caller's thread: ``send`` takes rows and sends full batches, ``flush`` sends all rows and
waits for the acknowledgements. Between two calls nothing is sent, and no deadline runs.
"""

import logging
import time
from collections.abc import Iterable, Sequence
from typing import Self

import numpy as np
import pyarrow as pa

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.config import ClientConfig
from spark_kafka_native._client.errors import ProduceError
from spark_kafka_native._client.partitioning.key_hashes import I32, I64
from spark_kafka_native._client.partitioning.partitioners import TopicPartitioners
from spark_kafka_native._client.producer.accumulator import Accumulator, Waiting, group
from spark_kafka_native._client.producer.assignment import PartitionAssigner, check_topic_name
from spark_kafka_native._client.producer.encoding import NO_TIMESTAMP, encode_runs, max_batch_bytes
from spark_kafka_native._client.producer.partition_queue import OutgoingBatch
from spark_kafka_native._client.producer.routing import Rows, check_sizes, group_by_partition, pieces
from spark_kafka_native._client.producer.sender import ProduceMetrics, Sender
from spark_kafka_native._client.transactions.scope import TransactionScope
from spark_kafka_native._protocol.errors import counted
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._records.arrow.encode import EncodedBatch, MeasuredRows
from spark_kafka_native._records.batch import RECORD_BATCH_OVERHEAD

_log = logging.getLogger(__name__)


class Producer:
    """Writes rows to topics. Use it as a context manager, or call ``close``.

    Rows of a partition are written in the order in which they were sent, each once (idempotence, the default) or,
    without idempotence, at least once. After a ProduceError nothing more is sent, so that no row is written before one
    that failed.
    """

    def __init__(
        self,
        cluster: Cluster | ClientConfig,
        *,
        partitioner: str | TopicPartitioners | None = None,
        scope: TransactionScope | None = None,
        reuse_producer_id: bool = False,
    ) -> None:
        """A given cluster stays open after ``close``; one made here from a configuration is closed.

        ``partitioner``: a name, ``module:function`` or partitioners by topic (see ``partitioners``); None:
        ``partitioner.class``.
        ``scope``: all rows are written in its transactions (see ``client.producer.transactional_producer``).
        ``reuse_producer_id``: begin with the producer id of an earlier producer of the same cluster, if there is one,
        and leave it to a later one (see ``client.cluster.kept_producers``).
        """
        self._owns_cluster = isinstance(cluster, ClientConfig)
        self._cluster = Cluster(cluster) if isinstance(cluster, ClientConfig) else cluster
        self._config = config = self._cluster.config
        self._batch_bytes = max_batch_bytes(config)
        self._records_bytes = max(self._batch_bytes - RECORD_BATCH_OVERHEAD, 1)
        self._accumulator = Accumulator(self._records_bytes, config.linger_ms / 1000)
        self._scope = scope
        self._sender = Sender(self._cluster, scope, reuse_producer_id=reuse_producer_id)
        self._assigner = PartitionAssigner(self._cluster, partitioner)
        self._failure: ProduceError | None = None
        self._closed = False

    @property
    def metrics(self) -> ProduceMetrics:
        """Counters from the start."""
        return self._sender.metrics

    @property
    def unacknowledged(self) -> int:
        """Rows that were handed over and that no broker has confirmed yet."""
        return self._accumulator.rows + self._sender.buffered_records

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def send(self, topic: str, rows: pa.RecordBatch) -> None:
        """Hand over rows with the columns of ``records.arrow.encode``, maybe ``partition``: integers, null for none.

        A partition that is given wins over the key's. Returns while rows may still be on their way, but not before they
        and earlier ones fit into ``buffer.memory``.

        Raises, before any row is taken: ValueError for columns, RecordTooLarge naming the row, NoSuchPartition,
        PartitionerError, KafkaError for a topic that is unknown after ``max.block.ms``, invalid or forbidden.
        ProduceError: rows of this or an earlier call could not be written.
        """
        self._check_usable()
        found = Rows.of(rows, int(time.time() * 1000))
        check_sizes(topic, found, self._config.max_request_size, option_prefix=self._config.option_prefix)
        ids = self._assigner.assign(topic, found)
        try:
            for piece in pieces(found.sizes, max(self._config.buffer_memory // 4, self._batch_bytes)):
                self._take(topic, found, piece, ids[piece])
                self._make_space()
            self._encode(self._accumulator.overdue(time.monotonic()))
            self._sender.pump(wait=False)
        except ProduceError as error:
            raise self._fail(error) from error.__cause__

    def send_batches(self, partition: TopicPartition, batches: Iterable[EncodedBatch]) -> None:
        """Hand over batches that are encoded already, as those of a mirror; they follow earlier rows of the partition.

        Returns as ``send`` does. Raises ProduceError: rows or batches of this or an earlier call could not be written.
        """
        self._check_usable()
        try:
            self._encode(self._accumulator.release([partition]))
            expires_at = self._sender.now() + self._config.delivery_timeout_ms / 1000
            for batch in batches:
                self._sender.add(partition, OutgoingBatch(encoded=batch, expires_at=expires_at))
                self._make_space()
            self._sender.pump(wait=False)
        except ProduceError as error:
            raise self._fail(error) from error.__cause__

    def look_up(self, topics: Iterable[str]) -> None:
        """Look up topics with one Metadata request, where ``send`` would send one request for each topic.

        Raises KafkaError as ``send`` does for a topic.
        """
        names = list(topics)
        for name in names:
            check_topic_name(name)
        self._cluster.topics(names, create=True, timeout_ms=self._config.max_block_ms)

    def flush(self) -> None:
        """Return once every row handed over is acknowledged. Raises ProduceError."""
        self._check_usable()
        try:
            for waiting in group(self._accumulator.drain(), self._config.max_request_size):
                self._encode(waiting)
                # Enough for a request: it travels while the next partitions are encoded.
                self._sender.pump(wait=False)
            while self._sender.buffered_records:
                self._sender.pump(wait=True)
        except ProduceError as error:
            raise self._fail(error) from error.__cause__

    def close(self) -> None:
        """Flush, unless the producer has failed before, and give the connections back. Raises ProduceError."""
        if self._closed:
            return
        try:
            if self._failure is None:
                self.flush()
                self._sender.give_back_producer_id()
        finally:
            self._release()

    def abort(self) -> None:
        """Give up every row that is not acknowledged, which is logged, and give the connections back."""
        if self._closed:
            return
        if self._failure is None and self.unacknowledged:
            _log.warning("producer aborted: %s not acknowledged", counted(self.unacknowledged, "record"))
        self._release()

    def discard(self) -> None:
        """Give up every row that is not acknowledged, but wait until no broker can take one of them any more."""
        if not self._closed:
            self._sender.settle()
            self._release()

    # --- inside

    def _check_usable(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._closed:
            raise ValueError("the producer is closed")

    def _take(self, topic: str, rows: Rows, piece: slice, ids: I32) -> None:
        """Encode the rows of a piece that fill batches, and leave the others to the accumulator."""
        now = time.monotonic()
        for runs in group_by_partition(rows.sizes[piece], ids, piece.start, self._accumulator.full_bytes):
            partitions = [TopicPartition(topic, number) for number in runs.partitions]
            if runs.fills_batches:
                self._encode(self._accumulator.release(partitions))
                self._encode_runs(partitions, rows.measured, runs.rows, runs.starts)
                continue
            records = runs.take(rows.records)
            stops = [*runs.starts[1:].tolist(), len(runs.rows)]
            for partition, start, stop, size in zip(partitions, runs.starts.tolist(), stops, runs.sizes, strict=True):
                self._encode(self._accumulator.add(partition, records.slice(start, stop - start), size, now))

    def _encode(self, waiting: Iterable[Waiting]) -> None:
        for together in group(waiting, self._config.max_request_size):
            starts = np.cumsum([0, *(each.rows for each in together[:-1])])
            partitions = [each.partition for each in together]
            begin = 0
            for records in _combine([part for each in together for part in each.parts]):
                end = begin + records.num_rows
                runs = slice(starts.searchsorted(begin, side="right") - 1, starts.searchsorted(end))
                measured = MeasuredRows(records, NO_TIMESTAMP)
                self._encode_runs(partitions[runs], measured, None, np.maximum(starts[runs] - begin, 0))
                begin = end

    def _encode_runs(
        self, partitions: Sequence[TopicPartition], measured: MeasuredRows, rows: I64 | None, starts: I64
    ) -> None:
        """Encode rows of several partitions at once: the first ones are ``partitions[0]``'s, and so on."""
        expires_at = self._sender.now() + self._config.delivery_timeout_ms / 1000
        for partition, batch in encode_runs(measured, self._config, partitions, rows=rows, starts=starts):
            self._sender.add(partition, OutgoingBatch(encoded=batch, expires_at=expires_at))

    def _make_space(self) -> None:
        """Wait for acknowledgements until the buffered rows fit into ``buffer.memory``."""
        if self._accumulator.size_bytes + self._sender.buffered_bytes > self._config.buffer_memory:
            self._encode(self._accumulator.drain())
        self._sender.pump(wait=False)
        while self._sender.buffered_bytes > self._config.buffer_memory:
            self._sender.pump(wait=True)

    def _fail(self, error: ProduceError) -> ProduceError:
        """The error to raise, which counts all rows that are lost. Nothing is sent any more.

        In a transaction ``discard`` waits for what is in flight before the connections go.
        """
        self._failure = error.with_unacknowledged(self.unacknowledged)
        if self._scope is None:
            self._sender.release()
        return self._failure

    def _release(self) -> None:
        self._closed = True
        self._sender.release()
        if self._owns_cluster:
            self._cluster.close()


def _combine(parts: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The same rows in one record batch; in several if a column has more bytes than 32-bit offsets can address."""
    if len(parts) == 1:
        return parts
    return pa.Table.from_batches(parts).combine_chunks().to_batches()
