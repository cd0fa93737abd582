"""A transactional producer of a broker without sockets, request by request."""

from typing import Any, Self

from broker_embedded.records.coordinator_record import CoordinatorRecord, encode_batch
from spark_kafka_native.protocol.errors import ErrorCode
from spark_kafka_native.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from spark_kafka_native.protocol.messages.end_txn import EndTxnRequest
from spark_kafka_native.protocol.messages.find_coordinator import FindCoordinatorRequest
from spark_kafka_native.protocol.messages.init_producer_id import InitProducerIdRequest
from spark_kafka_native.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from spark_kafka_native.records.batch import set_producer
from tests.support.batches import batch
from tests.support.broker_driver import BrokerDriver

_TRANSACTION = 1
Part = tuple[str, int]


class DirectProducer:
    """One producer. ``level`` is that of transaction.version; from 2 on partitions join as they are written to."""

    def __init__(self, broker: BrokerDriver, name: str = "id", *, level: int = 2, timeout_ms: int = 60_000) -> None:
        self.broker = broker
        self.name = name
        self.level = level
        self.timeout_ms = timeout_ms
        self.id = self.epoch = -1
        self.sequences: dict[Part, int] = {}

    def begin(self) -> Self:
        """Get an id and an epoch; who had them before is fenced."""
        found = self.broker.ask(FindCoordinatorRequest(key=self.name, key_type=_TRANSACTION), 3)
        assert found.error_code == ErrorCode.NONE
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=self.timeout_ms)
        answer = self.broker.ask(request, 3)
        assert answer.error_code == ErrorCode.NONE, ErrorCode.of(answer.error_code)
        self.take(answer.producer_id, answer.producer_epoch)
        return self

    def take(self, producer_id: int, epoch: int) -> None:
        """Continue as this producer; the sequence numbers of another one begin at 0."""
        if (producer_id, epoch) != (self.id, self.epoch):
            self.sequences.clear()
        self.id, self.epoch = producer_id, epoch

    def add(self, *parts: Part) -> None:
        """Make partitions part of the transaction."""
        topics = tuple(AddPartitionsToTxnTopic(name=topic, partitions=(index,)) for topic, index in parts)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=topics,
        )
        results = self.broker.ask(request, 3).results_by_topic_v3_and_below
        codes = {part.partition_error_code for topic in results for part in topic.results_by_partition}
        assert codes == {ErrorCode.NONE}

    @property
    def version(self) -> int:
        """The version of Produce that a client of this level sends."""
        return 12 if self.level >= 2 else 11

    def request(
        self, *parts: Part, values: tuple[bytes, ...] = (b"v",), acks: int = -1, **others: Any
    ) -> ProduceRequest:
        """A Produce to partitions; ``others`` are fields of the batches, or the ``transactional_id``."""
        transactional_id = others.pop("transactional_id", self.name)
        fields = {"producer_id": self.id, "producer_epoch": self.epoch, "transactional": True}
        return ProduceRequest(
            transactional_id=transactional_id,
            acks=acks,
            timeout_ms=1000,
            topic_data=tuple(
                TopicProduceData(
                    name=topic,
                    partition_data=(
                        PartitionProduceData(
                            index=index,
                            records=batch(
                                *values, **({**fields, "base_sequence": self.sequences.get((topic, index), 0)} | others)
                            ),
                        ),
                    ),
                )
                for topic, index in parts
            ),
        )

    def send(
        self, topic: str, *values: bytes, partition: int = 0, version: int | None = None, **others: Any
    ) -> PartitionProduceResponse:
        """Write a batch, whatever comes of it."""
        request = self.request((topic, partition), values=values or (b"v",), **others)
        answer = self.broker.ask(request, self.version if version is None else version)
        result = answer.responses[0].partition_responses[0]
        if result.error_code == ErrorCode.NONE:
            before = self.sequences.get((topic, partition), 0)
            self.sequences[topic, partition] = before + max(len(values), 1)
        return result

    def write(self, topic: str, *values: bytes, partition: int = 0) -> int:
        """Write a batch as a client of the level does; its offset."""
        if self.level < 2:
            self.add((topic, partition))
        answer = self.send(topic, *values, partition=partition)
        assert answer.error_code == ErrorCode.NONE, ErrorCode.of(answer.error_code)
        return answer.base_offset

    def end(self, *, commit: bool) -> ErrorCode:
        """End the transaction, and continue as the producer of the response."""
        request = EndTxnRequest(
            transactional_id=self.name, producer_id=self.id, producer_epoch=self.epoch, committed=commit
        )
        answer = self.broker.ask(request, 5 if self.level >= 2 else 3)
        if answer.error_code == ErrorCode.NONE and self.level >= 2:
            self.take(answer.producer_id, answer.producer_epoch)
        return ErrorCode.of(answer.error_code)

    def put(self, topic: str, **records: str | None) -> int:
        """Write a batch of records with keys, as a client of level 2 does; its offset. None deletes."""
        pairs = [
            CoordinatorRecord(key=key.encode(), value=None if value is None else value.encode())
            for key, value in records.items()
        ]
        keyed = encode_batch(pairs, self.broker.clock.now_ms())
        sequence = self.sequences.get((topic, 0), 0)
        set_producer(
            keyed, 0, producer_id=self.id, producer_epoch=self.epoch, base_sequence=sequence, transactional=True
        )
        part = PartitionProduceData(index=0, records=keyed)
        topics = (TopicProduceData(name=topic, partition_data=(part,)),)
        request = ProduceRequest(transactional_id=self.name, acks=-1, timeout_ms=1000, topic_data=topics)
        answer = self.broker.ask(request, 12).responses[0].partition_responses[0]
        assert answer.error_code == ErrorCode.NONE, ErrorCode.of(answer.error_code)
        self.sequences[topic, 0] = sequence + len(pairs)
        return answer.base_offset

    def commit(self) -> None:
        """Commit the transaction."""
        assert self.end(commit=True) is ErrorCode.NONE

    def abort(self) -> None:
        """Abort the transaction."""
        assert self.end(commit=False) is ErrorCode.NONE
