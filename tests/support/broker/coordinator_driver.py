"""Transactional producers on a broker without sockets: decided by its coordinator, written straight into its logs."""

from collections.abc import Callable
from typing import Any, Self

from broker_embedded._log.append.incoming import AppendConditions
from broker_embedded._transactions.state import Transaction, TransactionVersion
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._records.batch import iter_batches
from spark_kafka_native._records.control import ControlType, decode_control
from tests.support.broker.disk import FaultyFileSystem
from tests.support.broker.driver import BrokerDriver
from tests.support.records.log_batches import batch
from tests.support.requests.transaction_views import shown

TV_0, TV_2 = TransactionVersion.TV_0, TransactionVersion.TV_2
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
MINUTE_MS = 60_000


class Coordinated:
    """Who holds one transactional id, as far as the test is concerned."""

    def __init__(self, broker: BrokerDriver, name: str = "id", version: TransactionVersion = TV_2) -> None:
        self.broker = broker
        self.name = name
        self.version = version
        self.producer = ProducerIdAndEpoch(producer_id=-1, epoch=-1)
        self._sequences: dict[TopicPartition, int] = {}

    @classmethod
    def begun(cls, broker: BrokerDriver, **options: Any) -> Self:
        """One whose id has been initialized."""
        mine = cls(broker, **options)
        mine.begin()
        return mine

    @property
    def known(self) -> Transaction:
        """What the coordinator knows."""
        return self.broker.broker.transactions.all[self.name]

    @property
    def state(self) -> str:
        """Kafka's name of what the transaction is at."""
        return self.known.state.label

    def begin(self, claimed: ProducerIdAndEpoch | None = None, timeout_ms: int = MINUTE_MS) -> ProducerIdAndEpoch:
        """InitProducerId."""
        work = self.broker.broker.transactions.begin_producer(self.name, timeout_ms, claimed)
        self.use(self.broker.run(work))
        return self.producer

    def use(self, producer: ProducerIdAndEpoch) -> None:
        """Become this producer."""
        if producer != self.producer:
            self._sequences.clear()
        self.producer = producer

    def add(self, *partitions: TopicPartition) -> None:
        """Make partitions part of the transaction."""
        work = self.broker.broker.transactions.add_partitions(self.name, self.producer, set(partitions), self.version)
        self.broker.run(work)

    def write(self, value: bytes, *partitions: TopicPartition) -> None:
        """Add partitions, and write a record into each."""
        self.add(*partitions)
        for partition in partitions:
            sequence = self._sequences.get(partition, 0)
            records = batch(
                value,
                producer_id=self.producer.producer_id,
                producer_epoch=self.producer.epoch,
                base_sequence=sequence,
                transactional=True,
            )
            self.broker.broker.partitions.get(*partition).append(records, AppendConditions(verified=True))
            self._sequences[partition] = sequence + 1

    def end(self, *, commit: bool = True) -> ProducerIdAndEpoch:
        """EndTxn, and become the producer of the response."""
        work = self.broker.broker.transactions.end(self.name, self.producer, commit=commit, version=self.version)
        self.use(self.broker.run(work))
        return self.producer

    def refused(self, *, commit: bool = True, as_producer: ProducerIdAndEpoch | None = None) -> ErrorCode:
        """EndTxn, which must fail."""
        try:
            self.broker.run(
                self.broker.broker.transactions.end(
                    self.name, as_producer or self.producer, commit=commit, version=self.version
                )
            )
        except KafkaError as error:
            return error.code
        raise AssertionError("it was not refused")


def markers(broker: BrokerDriver, partition: TopicPartition = T0) -> list[tuple[str, int, int]]:
    """Every marker in a partition: what it says, and of which producer and epoch."""
    raw = broker.fetch(partition.topic, 0, partition.partition).records
    assert isinstance(raw, memoryview)
    found = []
    for position, header in iter_batches(raw):
        if header.is_control:
            control = decode_control(raw, position, header)
            assert control is not None
            assert control.type in {ControlType.COMMIT, ControlType.ABORT}
            found.append((control.type.name, header.producer_id, header.producer_epoch))
    return found


def committed(broker: BrokerDriver, partition: TopicPartition = T0) -> list[bytes]:
    """The values that a reader of committed records sees."""
    response = broker.fetch(partition.topic, 0, partition.partition, isolation_level=1)
    return list(shown(response))


def is_stable(broker: BrokerDriver, partition: TopicPartition = T0) -> bool:
    """Whether no transaction is open in a partition."""
    response = broker.fetch(partition.topic, 0, partition.partition)
    return response.last_stable_offset == response.high_watermark


def fail_after_log_writes(faults: FaultyFileSystem, count: int) -> None:
    """Let so many writes to logs work, and none after them: first that of the Prepare record, then one a marker."""
    step = faults.step

    def counting(what: str, path: str, halfway: Callable[[], None] | None = None) -> None:
        nonlocal count
        if what == "write" and path.endswith(".log"):
            count -= 1
            if count < 0:
                faults.step = step  # type: ignore[method-assign]  # the disk's own again
                faults.fail("write *.log")
        step(what, path, halfway)

    faults.step = counting  # type: ignore[method-assign]  # the disk fails from a certain write on
