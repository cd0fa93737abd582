"""Reading ranges of several partitions together: one Fetch for all that a broker leads, as long as nothing goes wrong.

Each leader has one connection. An answer's batch headers say where every partition goes on, so the next Fetch is in
flight while this answer is decoded; leaders take turns, so that one answer at a time is in memory. Partitions that got
records come last in the next request: ``fetch.max.bytes`` bounds an answer, and all get their share of it.

What is not plainly good is not dealt with here: an error, a leader that is not known, a replica to read instead, bytes
that are no whole batch, an epoch later than the leader's, an answer without anything for anybody. Such partitions are
``left``, where they stand, for a ``Fetcher`` each, which alone tries again, compares logs and words errors. A broken
connection leaves all that goes over it.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Self

import pyarrow as pa

from spark_kafka_native.client.cluster.cluster import Cluster
from spark_kafka_native.client.cluster.metadata import NO_EPOCH, PartitionLeader
from spark_kafka_native.client.config import READ_COMMITTED
from spark_kafka_native.client.consumer.fetch_request import (
    FetchMetrics,
    Wanted,
    is_throttled,
    parts_of,
    receive_fetch,
    replica_named,
    send_fetch,
)
from spark_kafka_native.client.consumer.fetcher import TARGET_ROWS
from spark_kafka_native.client.consumer.gathering import TARGET_BYTES
from spark_kafka_native.client.consumer.planned_topics import PlannedTopics
from spark_kafka_native.net.address import HostPort
from spark_kafka_native.net.blocking import Connection
from spark_kafka_native.net.deadline import Deadline
from spark_kafka_native.net.errors import AuthenticationFailed
from spark_kafka_native.protocol.errors import KafkaError
from spark_kafka_native.protocol.messages.fetch import PartitionData
from spark_kafka_native.protocol.topic import TopicPartition
from spark_kafka_native.records.aborted import AbortedTransaction
from spark_kafka_native.records.batches import Batches
from spark_kafka_native.records.compression import MAX_DECOMPRESSED_BYTES
from spark_kafka_native.records.decode import Decoded, decode
from spark_kafka_native.records.errors import UnreadableBatch
from spark_kafka_native.records.schema import ALL


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRange:
    """What is to be read of one partition. ``leader`` spares a question; its topic id is the one topic to read from."""

    partition: TopicPartition
    from_offset: int
    until_offset: int
    leader: PartitionLeader | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """How far a partition was read: to ``position``, after a record of leader epoch ``epoch`` (-1: not known).

    ``leader`` is the one that it was read from, None if there was none; the rest is to be read from the same topic id.
    """

    position: int
    epoch: int
    leader: PartitionLeader | None = dataclasses.field(default=None, compare=False)


class JointFetcher:
    """The rows of ``ranges``, each of another partition: in order within each, in turns among them.

    Iterate it once, to the end or with ``close()`` (or ``with``) after. However the iteration ends, the rows of a
    partition below its place have all been yielded and none at or beyond it has.

    Raises AuthenticationFailed while iterating; at the end also what ``PlannedTopics.check_last`` raises, and then rows
    that were yielded may be of the other topic; and no other KafkaError. ValueError: two ranges of one partition.
    """

    def __init__(
        self,
        cluster: Cluster,
        ranges: Iterable[PartitionRange],
        *,
        columns: Sequence[str] = ALL,
        isolation: int | None = None,
        target_rows: int = TARGET_ROWS,
        timeout_ms: float | None = None,
        max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
    ) -> None:
        """``columns``, ``isolation``, ``timeout_ms`` and ``max_decompressed_bytes`` are as ``Fetcher`` has them."""
        config = cluster.config
        self._ranges: dict[TopicPartition, PartitionRange] = {}
        for wanted in ranges:
            if wanted.partition in self._ranges:
                raise ValueError(f"two ranges of {wanted.partition}")
            self._ranges[wanted.partition] = wanted
        self._readings = {partition: _Reading(wanted) for partition, wanted in self._ranges.items()}
        self._terms = _Terms(
            cluster=cluster,
            planned=PlannedTopics(cluster, {wanted.partition: wanted.leader for wanted in self._ranges.values()}),
            isolation=config.isolation_level if isolation is None else isolation,
            timeout_ms=config.default_api_timeout_ms if timeout_ms is None else timeout_ms,
            decode=functools.partial(
                decode,
                columns=tuple(columns),
                check_crcs=config.check_crcs,
                max_decompressed_bytes=max_decompressed_bytes,
                target_rows=target_rows,
                target_bytes=TARGET_BYTES,
            ),
        )
        self._leaders: list[_Leader] = []

    @property
    def metrics(self) -> FetchMetrics:
        """Counters from the start of the read."""
        return self._terms.metrics

    @property
    def left(self) -> dict[TopicPartition, Place]:
        """What is not read to its end; once the iteration has come to its end, what something is wrong with."""
        return {
            partition: dataclasses.replace(reading.place, leader=reading.leader)
            for partition, reading in self._readings.items()
            if reading.place.position < reading.until_offset
        }

    @property
    def recreated(self) -> frozenset[TopicPartition]:
        """All partitions that TopicRecreated concerns, once it was raised."""
        return self._terms.planned.recreated

    def close(self) -> None:
        """Give the connections back."""
        for leader in self._leaders:
            leader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
        """Rows of one partition at a time, of one answer at most; never none."""
        try:
            for leaders in self._find_leaders():
                readings = {partition: self._readings[partition] for partition in leaders}
                self._leaders.append(_Leader(self._terms, leaders, readings))
                self._leaders[-1].ask()
            busy = self._leaders
            while busy := [leader for leader in busy if leader.is_asked]:
                # A throttled broker must not delay the partitions of the other brokers.
                for leader in [leader for leader in busy if not leader.is_throttled] or busy:
                    yield from leader.turn()
            self._terms.planned.check_last()
        finally:
            self.close()

    def _find_leaders(self) -> list[dict[TopicPartition, PartitionLeader]]:
        """The partitions that each broker leads; none that nobody is known to lead."""
        cluster, unread = self._terms.cluster, self.left
        strange = {
            partition.topic
            for partition in unread
            if self._ranges[partition].leader is None and cluster.known_leader(partition) is None
        }
        if strange:
            timeout_ms = min(self._terms.timeout_ms, cluster.config.request_timeout_ms)
            with _trouble_is_left():
                cluster.metadata(sorted(strange), missing_ok=True, timeout_ms=timeout_ms)
        found: dict[HostPort, dict[TopicPartition, PartitionLeader]] = {}
        for partition in unread:
            leader = self._ranges[partition].leader or cluster.known_leader(partition)
            if leader is not None:
                found.setdefault(leader.node.address, {})[partition] = leader
        return list(found.values())


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Terms:
    """What all leaders have in common."""

    cluster: Cluster
    planned: PlannedTopics
    isolation: int
    timeout_ms: float
    decode: Callable[..., Decoded]
    metrics: FetchMetrics = dataclasses.field(default_factory=FetchMetrics)


class _Reading:
    """One partition on its way."""

    __slots__ = ("ahead", "leader", "place", "until_offset")

    def __init__(self, wanted: PartitionRange) -> None:
        self.leader = wanted.leader
        self.until_offset = wanted.until_offset
        self.place = self.ahead = Place(position=wanted.from_offset, epoch=NO_EPOCH)
        """What has been yielded; and what will have been, once all that was received is decoded."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Received:
    """A partition's part of an answer."""

    partition: TopicPartition
    batches: Batches
    aborted: Sequence[AbortedTransaction] | None


class _Leader:
    """One broker, and the partitions that are read from it."""

    def __init__(
        self, terms: _Terms, leaders: dict[TopicPartition, PartitionLeader], readings: dict[TopicPartition, _Reading]
    ) -> None:
        self.is_asked = False
        """Whether a Fetch is in flight, or waits for the end of a throttle."""
        self._terms = terms
        self._leaders = leaders
        self._readings = readings
        for partition, reading in readings.items():
            reading.leader = leaders[partition]
        self._asked = list(readings)
        """Partitions to ask for, in the order of their turns; what is taken off is left where it stands."""
        self._connection: Connection | None = None
        self._stalled: Deadline | None = None
        """The deadline of progress, set by the first of consecutive throttled responses."""

    @property
    def is_throttled(self) -> bool:
        """Whether the broker throttles the connection now (KIP-219)."""
        return self._connection is not None and self._connection.throttle_ms > 0

    def close(self) -> None:
        """Give the connection back, or close it if an answer is outstanding."""
        connection, self._connection, self.is_asked = self._connection, None, False
        if connection is not None:
            self._terms.cluster.give_back(connection)

    def ask(self) -> None:
        """Send the next Fetch, if there is anything to ask for."""
        if not self._asked:
            return
        config = self._terms.cluster.config
        wanted = {
            partition: Wanted(
                leader=self._leaders[partition],
                offset=self._readings[partition].ahead.position,
                epoch=self._readings[partition].ahead.epoch,
                max_bytes=config.max_partition_fetch_bytes,
            )
            for partition in self._asked
        }
        with _trouble_is_left():
            if self._connection is None:
                node = self._leaders[self._asked[0]].node
                deadline = Deadline.after_ms(self._terms.timeout_ms)
                self._connection = self._terms.cluster.borrow(node, deadline)
            send_fetch(
                self._connection,
                config,
                wanted,
                planned=self._terms.planned,
                max_bytes=config.fetch_max_bytes,
                isolation=self._terms.isolation,
                deadline=self._stalled or Deadline.after_ms(self._terms.timeout_ms),
                rack=config.client_rack,
            )
            self._terms.metrics.requests += 1
            self.is_asked = True

    def turn(self) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
        """Receive an answer, ask for what comes next, and decode: the rows. After a throttled answer, ask again."""
        if self._connection is not None and not self._connection.in_flight:
            self.is_asked = False
            self.ask()
            return
        for received in self._take():
            yield from self._rows(received)

    def _take(self) -> list[_Received]:
        """The parts of the answer with records, the next Fetch being under way."""
        answer = None
        self.is_asked = False
        with _trouble_is_left():
            assert self._connection is not None
            answer = receive_fetch(self._connection, self._terms.cluster.config, self._terms.timeout_ms)
        if answer is None or answer.error_code:
            return []
        if is_throttled(answer):
            self._stalled = self._stalled or Deadline.after_ms(self._terms.timeout_ms)
            self.is_asked = not self._stalled.expired
            return []
        self._stalled = None
        parts = parts_of(answer, self._leaders)
        received: list[_Received] = []
        without: list[TopicPartition] = []
        for partition in self._asked:
            part = parts.get(partition)
            if part is None or self._is_trouble(part, self._leaders[partition]):
                continue
            records = part.records or b""
            assert isinstance(records, bytes | memoryview)
            if not records:
                without.append(partition)
            elif self._get_ahead(partition, batches := Batches.of(records)):
                committed_only = self._terms.isolation == READ_COMMITTED
                aborted = (part.aborted_transactions or ()) if committed_only else None
                received.append(_Received(partition=partition, batches=batches, aborted=aborted))
        if len(without) < len(self._asked):
            self._asked = without + [each.partition for each in received if self._goes_on(each.partition)]
            self.ask()
        return received

    def _is_trouble(self, part: PartitionData, leader: PartitionLeader) -> bool:
        is_cut = part.diverging_epoch.end_offset >= 0
        return bool(part.error_code) or is_cut or replica_named(part, leader) is not None

    def _get_ahead(self, partition: TopicPartition, batches: Batches) -> bool:
        """Take note of where ``batches`` end. Whether they are whole, go on, and are of no later leader's."""
        reading, known_epoch = self._readings[partition], self._leaders[partition].leader_epoch
        end, epoch, trouble = batches.reach(reading.ahead.position, reading.ahead.epoch)
        if trouble is not None or end == reading.ahead.position or NO_EPOCH < known_epoch < epoch:
            return False
        reading.ahead = Place(position=end, epoch=epoch)
        self._terms.metrics.bytes_fetched += batches.size
        return True

    def _goes_on(self, partition: TopicPartition) -> bool:
        reading = self._readings[partition]
        return reading.ahead.position < reading.until_offset

    def _rows(self, received: _Received) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
        reading, batches, aborted = self._readings[received.partition], received.batches, received.aborted
        while batches.size:
            try:
                decoded = self._terms.decode(
                    batches,
                    from_offset=reading.place.position,
                    until_offset=reading.until_offset,
                    aborted=aborted,
                )
            except UnreadableBatch:
                self._leave(received.partition)
                return
            if not decoded.bytes_used:
                break
            batches, aborted = batches.behind(decoded.bytes_used), decoded.aborted
            # Which epoch the batch before has is known again at the end of the answer.
            reading.place = Place(position=decoded.next_offset, epoch=NO_EPOCH)
            if decoded.records.num_rows:
                self._terms.metrics.records += decoded.records.num_rows
                yield received.partition, decoded.records
        reading.place = reading.ahead

    def _leave(self, partition: TopicPartition) -> None:
        """Do without a partition, which may be part of the Fetch that is under way."""
        if partition in self._asked:
            self._asked.remove(partition)
        if not self._asked:
            self.close()


@contextmanager
def _trouble_is_left() -> Iterator[None]:
    """What goes wrong between broker and client is left to who meets it again, but distrust is final."""
    try:
        yield
    except AuthenticationFailed:
        raise
    except KafkaError:
        return
