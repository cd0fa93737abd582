"""Reading partitions for a Fetch, within its limits, and again after appends.

The first batch of a response is complete even if it exceeds the limits (KIP-74), so that a large batch does not stop a
consumer. If the first batch of a later partition exceeds the remaining limit, the partition returns no records.
"""

from collections.abc import Awaitable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from broker_embedded._log.view import FirstBatch
from broker_embedded._platform.cancellation import NEVER_CANCELLED, Cancellation
from broker_embedded._replica.delayed import DelayedOperations
from broker_embedded._replica.down_conversion import down_convert
from broker_embedded._replica.fetch_sessions import FetchedPartition
from broker_embedded._replica.partitions import LocalPartition, Partitions
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.fetch import AbortedTransaction, EpochEndOffset
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._protocol.wire import FileRegion, RecordsValue

CONSUMER: Final = -1
DEBUGGER: Final = -2
_ANY_EPOCH: Final = -1
_MISSING: Final = {ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


class FetchLimits(NamedTuple):
    """The limits of a Fetch, its replica id and its isolation level.

    ``replica_id`` is a broker's, or `CONSUMER` or `DEBUGGER`. ``cuts_first``: the limit truncates even the first batch,
    as before Fetch v3.
    """

    max_bytes: int
    min_bytes: int
    replica_id: int = CONSUMER
    committed: bool = False
    by_id: bool = False
    cuts_first: bool = False

    @property
    def first_batch(self) -> FirstBatch:
        """How the first batch of the response is read."""
        return FirstBatch.CUT if self.cuts_first else FirstBatch.WHOLE


@dataclass(slots=True, eq=False)
class PartitionRead:
    """The result of the last read of one partition.

    ``partition`` is None if it does not exist. ``records`` are the bytes to send of ``regions``, which have ``size``
    bytes.
    """

    fetched: FetchedPartition
    partition: LocalPartition | None = None
    error_code: int = ErrorCode.NONE
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    size: int = 0
    regions: tuple[FileRegion, ...] = ()
    records: RecordsValue = ()
    aborted: tuple[AbortedTransaction, ...] | None = None
    diverging_epoch: EpochEndOffset | None = None

    @property
    def is_missing(self) -> bool:
        """Whether the partition did not exist when the request was received."""
        return self.partition is None and self.error_code in _MISSING

    @property
    def diverges(self) -> bool:
        """Whether the client must truncate its log."""
        return self.diverging_epoch is not None

    def fail(self, code: int) -> None:
        """Set an error as the result."""
        self.error_code = code
        self.high_watermark = self.last_stable_offset = self.log_start_offset = -1
        self.size, self.regions, self.records = 0, (), ()
        self.aborted = self.diverging_epoch = None


class Reading:
    """The partitions of one Fetch request, which may be read several times."""

    def __init__(self, partitions: Partitions, fetched: Sequence[FetchedPartition], limits: FetchLimits) -> None:
        self._partitions = partitions
        self._limits = limits
        self._reads: dict[TopicPartition, PartitionRead] = {}
        self._missing: list[PartitionRead] = []
        self._results: list[PartitionRead] | None = None
        self._done = False
        self._bytes = 0
        for each in fetched:
            self._add(each)

    def _add(self, fetched: FetchedPartition) -> None:
        """A missing partition gets an error, but does not end the wait for the other ones."""
        read = PartitionRead(fetched)
        if fetched.topic is None:
            read.fail(ErrorCode.UNKNOWN_TOPIC_ID)
        elif not self._partitions.has(fetched.topic, fetched.request.partition):
            read.fail(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        else:
            self._reads[TopicPartition(fetched.topic, fetched.request.partition)] = read
            return
        self._missing.append(read)

    @property
    def results(self) -> list[PartitionRead]:
        """Every partition in the order of the response, missing ones last."""
        if self._results is None:
            self._results = [*self._reads.values(), *self._missing]
        return self._results

    @property
    def is_done(self) -> bool:
        """Whether to respond now: min_bytes are there, a partition has an error, or none can be waited for."""
        return self._done or not self._reads or self._bytes >= self._limits.min_bytes

    def read(self) -> None:
        """Read all existing partitions, within the limits."""
        left, first_batch = self._limits.max_bytes, self._limits.first_batch
        self._bytes, self._done = 0, False
        for read in self._reads.values():
            self._read(read, left, first_batch)
            size = read.size
            if size:
                self._bytes += size
                left = max(0, left - size)
                first_batch = FirstBatch.CUT if self._limits.cuts_first else FirstBatch.FITTING

    @property
    def to_convert(self) -> list[PartitionRead]:
        """The partitions whose records may have to be converted for old clients."""
        return [read for read in self._reads.values() if read.partition is not None and read.size]

    def convert(self, read: PartitionRead, magic: int, cancellation: Cancellation = NEVER_CANCELLED) -> None:
        """Down-convert the records of one partition. Blocks. Raises WorkCancelled."""
        assert read.partition is not None
        log, offset = read.partition.log, read.fetched.request.fetch_offset
        try:
            read.records = down_convert(
                log,
                offset,
                read.regions,
                magic=magic,
                until_offset=self._visible_until(read.partition),
                cancellation=cancellation,
            )
        except KafkaError as error:
            read.fail(error.code)

    def wait(self, delayed: DelayedOperations, max_wait_ms: int) -> Coroutine[None, None, None]:
        """Wait from this call on for min_bytes or max_wait_ms, then read again."""
        return self._read_after(delayed.wait(self._reads, max_wait_ms, self._is_enough))

    async def _read_after(self, enough: Awaitable[None]) -> None:
        await enough
        self.read()

    def _is_enough(self, changed: TopicPartition) -> bool:
        """Read the changed partition again; whether to respond now."""
        read = self._reads[changed]
        before = read.size
        self._read(read, self._limits.max_bytes, self._limits.first_batch)
        self._bytes += read.size - before
        return self.is_done

    def _read(self, read: PartitionRead, left: int, first_batch: FirstBatch) -> None:
        try:
            self._read_log(read, self._partition_of(read.fetched), left, first_batch)
            self._done = self._done or read.diverges
        except KafkaError as error:
            read.fail(error.code)
            self._done = True

    def _partition_of(self, fetched: FetchedPartition) -> LocalPartition:
        """The present partition. Raises KafkaError: it was deleted, or another topic has the name."""
        assert fetched.topic is not None
        partition = self._partitions.get(fetched.topic, fetched.request.partition)
        if self._limits.by_id and partition.topic_id != fetched.topic_id:
            detail = f"{partition.id} has topic id {partition.topic_id}, not {fetched.topic_id}"
            raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID, detail)
        return partition

    def _read_log(self, read: PartitionRead, partition: LocalPartition, left: int, first_batch: FirstBatch) -> None:
        read.partition = partition
        request, log = read.fetched.request, partition.log
        partition.check_leader_epoch(max(_ANY_EPOCH, request.current_leader_epoch))
        until = self._visible_until(partition)
        read.diverging_epoch = None if request.last_fetched_epoch < 0 else _divergence(partition, read.fetched)
        if read.diverging_epoch is None:
            found = log.reader.read(
                request.fetch_offset,
                max_bytes=min(request.partition_max_bytes, left),
                first_batch=first_batch,
                upper_bound_offset=until,
                with_aborted=self._limits.committed,
            )
            aborted = found.aborted
            read.size, read.regions, read.records = found.size, found.regions, found.regions
        else:
            aborted = ()
            read.size, read.regions, read.records = 0, (), ()
        read.error_code = ErrorCode.NONE
        read.high_watermark = log.high_watermark
        read.last_stable_offset = log.last_stable_offset
        read.log_start_offset = log.log_start_offset
        if self._limits.committed:
            read.aborted = tuple(
                AbortedTransaction(producer_id=item.producer_id, first_offset=item.first_offset) for item in aborted
            )

    def _visible_until(self, partition: LocalPartition) -> int:
        """The offset after the last record that the client may read."""
        if self._limits.replica_id >= 0:  # no partition here has followers
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if self._limits.replica_id == DEBUGGER:
            return partition.log.log_end_offset
        return partition.log.last_stable_offset if self._limits.committed else partition.log.high_watermark


def _divergence(partition: LocalPartition, fetched: FetchedPartition) -> EpochEndOffset | None:
    """The diverging epoch and its end offset, if the client's log diverges before its fetch offset (KIP-595).

    Raises KafkaError OFFSET_OUT_OF_RANGE: the last fetched epoch is unknown, or the offset is before the log start.
    """
    request, log = fetched.request, partition.log
    found = log.end_of_leader_epoch(request.last_fetched_epoch)
    if found is None:
        detail = f"{partition.id}: the end offset of leader epoch {request.last_fetched_epoch} is unknown"
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, detail)
    if request.fetch_offset < log.log_start_offset:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{partition.id} starts at {log.log_start_offset}")
    epoch, end_offset = found
    if epoch < request.last_fetched_epoch or end_offset < request.fetch_offset:
        return EpochEndOffset(epoch=epoch, end_offset=end_offset)
    return None
