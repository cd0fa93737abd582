"""What a scripted cluster keeps in memory: topics, leaders, batches, producers' sequences, groups' offsets."""

import dataclasses
import threading
import uuid
from collections import deque
from typing import Any

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.fetch import AbortedTransaction
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._protocol.wire import ZERO_UUID
from spark_kafka_native._records.arrow.decode import decode
from spark_kafka_native._records.batch import BatchHeader, increment_sequence, iter_batches, read_header, set_offsets
from tests.support.scripted.groups import FakeGroup
from tests.support.scripted.transactions import FakeTransactions


@dataclasses.dataclass
class Refusal(Exception):
    """An error code to answer with."""

    code: ErrorCode


@dataclasses.dataclass
class FakePartition:
    """One partition's log."""

    leader: int
    leader_epoch: int = 0
    replicas: tuple[int, ...] = ()
    """By default the leader alone."""
    log_start: int = 0
    log_end: int = 0
    batches: list[bytes] = dataclasses.field(default_factory=list)
    ends: list[int] = dataclasses.field(default_factory=list)
    """The next offsets after the batches, which tests may damage."""
    aborted: list[AbortedTransaction] = dataclasses.field(default_factory=list)
    last_stable_offset: int | None = None
    high_watermark: int | None = None
    sequences: dict[int, tuple[int, int]] = dataclasses.field(default_factory=dict)
    """Producer id -> its epoch and last sequence number."""
    recent: dict[int, deque[tuple[int, int, int]]] = dataclasses.field(default_factory=dict)
    """Producer id -> epoch, first and last sequence number of its last five batches: what is known as a duplicate."""
    lost_producers: bool = False
    """Whether an unknown producer is refused as brokers before 2.5 do, unless it begins at sequence 0."""
    max_message_bytes: int = 10**9

    def append(self, records: object) -> int:
        """Check the producer's sequence and store one batch; its base offset. Raises Refusal."""
        assert isinstance(records, bytes | bytearray | memoryview)
        batch = bytearray(records)
        header = read_header(batch)
        assert header.size_in_bytes == len(batch), "a partition's records are one batch"
        if len(batch) > self.max_message_bytes:
            raise Refusal(ErrorCode.MESSAGE_TOO_LARGE)
        if header.producer_id >= 0:
            self._check_sequence(header)
        base_offset = self.log_end
        self.put(batch, base_offset)
        return base_offset

    def put(self, batch: bytearray, base_offset: int) -> None:
        """Store a batch at an offset, unchecked."""
        set_offsets(batch, 0, base_offset=base_offset, partition_leader_epoch=self.leader_epoch)
        self.batches.append(bytes(batch))
        self.log_end = read_header(batch).next_offset
        self.ends.append(self.log_end)

    def values(self) -> list[Any]:
        """The values of all records, in order."""
        found: list[Any] = []
        for batch in self.batches:
            records = decode(batch, from_offset=0, until_offset=10**9, columns=("value",)).records
            found += records.column("value").to_pylist()
        return found

    def _check_sequence(self, header: BatchHeader) -> None:
        """As Kafka does since 2.5: of a producer that is not known, any first sequence number is good."""
        batch = (header.producer_epoch, header.base_sequence, header.last_sequence)
        recent = self.recent.setdefault(header.producer_id, deque(maxlen=5))
        known = self.sequences.get(header.producer_id)
        if known is None and self.lost_producers and header.base_sequence:
            raise Refusal(ErrorCode.UNKNOWN_PRODUCER_ID)
        if known is not None:
            epoch, last = known
            if header.producer_epoch < epoch:
                raise Refusal(ErrorCode.INVALID_PRODUCER_EPOCH)
            if batch in recent and header.last_sequence <= last:
                raise Refusal(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
            expected = increment_sequence(last, 1) if header.producer_epoch == epoch else 0
            if header.base_sequence != expected:
                raise Refusal(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        self.sequences[header.producer_id] = (header.producer_epoch, header.last_sequence)
        recent.append(batch)

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Batches from the one that holds ``offset``, cut at ``max_bytes`` after the first. Raises Refusal."""
        if not self.log_start <= offset <= self.log_end:
            raise Refusal(ErrorCode.OFFSET_OUT_OF_RANGE)
        found = [batch for batch, end in zip(self.batches, self.ends, strict=True) if end > offset]
        return b"".join(found)[: max(max_bytes, len(found[0]))] if found else b""

    def truncate(self, offset: int) -> None:
        """Lose what is at ``offset`` and later, as a leader does that lacked it; only whole batches can go."""
        while self.ends and self.ends[-1] > offset:
            self.batches.pop()
            self.ends.pop()
        self.log_end = self.ends[-1] if self.ends else self.log_start

    def end_of_epoch(self, epoch: int) -> tuple[int, int] | None:
        """The largest leader epoch up to ``epoch``, and where it ended; None: not known."""
        if epoch >= self.leader_epoch:
            return (epoch, self.log_end) if epoch == self.leader_epoch else None
        headers = self.headers()
        found = [header for header in headers if header.partition_leader_epoch <= epoch]
        later = [header.base_offset for header in headers if header.partition_leader_epoch > epoch]
        return found[-1].partition_leader_epoch if found else epoch, min(later, default=self.log_end)

    @property
    def visible_end(self) -> int:
        """The high watermark."""
        return self.log_end if self.high_watermark is None else self.high_watermark

    @property
    def stable_end(self) -> int:
        """The last stable offset."""
        return self.visible_end if self.last_stable_offset is None else self.last_stable_offset

    def headers(self) -> list[BatchHeader]:
        """Headers of the stored batches."""
        return [header for batch in self.batches for _, header in iter_batches(batch)]


@dataclasses.dataclass
class FakeTopic:
    """One topic."""

    topic_id: uuid.UUID
    partitions: dict[int, FakePartition]


class FakeState:
    """A whole cluster's state. Hold ``lock`` to look at it or change it while brokers run."""

    def __init__(self, brokers: int, *, topic_ids: bool = True, auto_create: int = 0) -> None:
        self.lock = threading.Condition()
        self.brokers = brokers
        self.topics: dict[str, FakeTopic] = {}
        self.ports: dict[int, int] = {}
        """Of the brokers that Metadata names."""
        self.committed: dict[tuple[str, TopicPartition], tuple[int, int, str]] = {}
        self.cluster_id = "scripted"
        self.controller = 1
        self.coordinator = 1
        self.next_producer_id = 1000
        self.transactions = FakeTransactions()
        self.groups: dict[str, FakeGroup] = {}
        self.auto_create = auto_create
        """Partitions of topics that Metadata creates; 0: it creates none."""
        self._topic_ids = topic_ids

    def create(self, name: str, partitions: int) -> None:
        """Make a topic; leaders go round the brokers."""
        with self.lock:
            topic_id = uuid.uuid4() if self._topic_ids else ZERO_UUID
            made = {number: FakePartition(leader=number % self.brokers + 1) for number in range(partitions)}
            self.topics[name] = FakeTopic(topic_id, made)

    def partition(self, topic: str, number: int) -> FakePartition:
        """A partition. Raises Refusal."""
        found = self.topics.get(topic)
        if found is None or number not in found.partitions:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return found.partitions[number]

    def led(
        self, broker: int, topic: str, number: int, leader_epoch: int = -1, *, replica_id: int = -1
    ) -> FakePartition:
        """A partition that ``broker`` leads; -2, a debugging consumer, may read its replicas, too. Raises Refusal."""
        found = self.partition(topic, number)
        if leader_epoch >= 0 and leader_epoch != found.leader_epoch:
            older = leader_epoch < found.leader_epoch
            raise Refusal(ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH)
        if found.leader != broker and not (replica_id == -2 and broker in found.replicas):
            raise Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return found

    def name_of(self, name: str, topic_id: uuid.UUID) -> str:
        """A topic's name, from either. Raises Refusal."""
        if name:
            return name
        for known, topic in self.topics.items():
            if topic.topic_id == topic_id:
                return known
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_ID)
