"""Requests and results of the simple consumer."""

import dataclasses
import functools
from typing import Self

import pyarrow as pa

from spark_kafka_native._client.config_def import INT32_MAX, INT64_MAX
from spark_kafka_native._client.consumer.offsets import EARLIEST, LATEST
from spark_kafka_native._client.consumer.stateless_fetch import FetchedRecords
from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._record_clients.arguments import check_integer, check_partition
from spark_kafka_native._record_clients.consumer.record_rows import records_of
from spark_kafka_native._record_clients.records import ConsumerRecord


@dataclasses.dataclass(frozen=True, slots=True)
class FetchRequest:
    """The records of a partition from ``offset`` on.

    ``max_bytes``: bytes of record batches, compressed, by default ``max.partition.fetch.bytes``. The first batch is
    returned whole even if it is larger.
    """

    topic: str
    partition: int
    offset: int
    max_bytes: int | None = None

    def check(self) -> TopicPartition:
        """The partition. Raises TypeError or ValueError that names the wrong field."""
        partition = check_partition((self.topic, self.partition))
        if self.offset in {EARLIEST, LATEST}:
            raise ValueError(
                f"{partition}: offset is {self.offset}; offsets_before returns the first and the last offset"
            )
        check_integer(f"{partition}: offset", self.offset, 0, INT64_MAX)
        if self.max_bytes is not None:
            check_integer(f"{partition}: max_bytes", self.max_bytes, 1, INT32_MAX)
        return partition


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class FetchResult:
    """The records of one FetchRequest, or its error. All properties but ``request`` and ``error`` raise the error."""

    request: FetchRequest
    error: KafkaError | None = None
    _fetched: FetchedRecords | None = dataclasses.field(default=None, repr=False)

    @classmethod
    def of(cls, request: FetchRequest, fetched: FetchedRecords | KafkaError) -> Self:
        """The result of a request."""
        if isinstance(fetched, KafkaError):
            return cls(request=request, error=fetched)
        return cls(request=request, _fetched=fetched)

    @functools.cached_property
    def records(self) -> list[ConsumerRecord]:
        """The records, in the order of their offsets."""
        return records_of(TopicPartition(self.request.topic, self.request.partition), self.to_arrow())

    def to_arrow(self) -> pa.RecordBatch:
        """The records as columns: key, value, offset, timestamp (ms, UTC), timestamp_type and headers."""
        return self._success.records

    @property
    def next_offset(self) -> int:
        """The offset at which to continue.

        It can be greater than the requested offset although ``records`` is empty: aborted records and the markers of
        transactions are skipped. It is the requested offset at the end of the partition, and if ``multifetch`` had
        no memory left for the partition: compare it with ``high_watermark``.
        """
        return self._success.next_offset

    @property
    def high_watermark(self) -> int:
        """The offset after the last record that all in-sync replicas have, when the broker responded."""
        return self._success.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """The first offset of the first open transaction, or ``high_watermark``; -1 before Kafka 0.11."""
        return self._success.last_stable_offset

    @property
    def log_start_offset(self) -> int:
        """The first offset of the partition; -1 before Kafka 1.0."""
        return self._success.log_start_offset

    @property
    def _success(self) -> FetchedRecords:
        if self.error is not None:
            raise self.error.with_traceback(None)
        assert self._fetched is not None
        return self._fetched
