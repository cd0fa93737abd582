"""A transactional producer of a broker without sockets, request by request."""

from collections.abc import Callable
from typing import Any, Self, TypeVar

from broker_embedded._records.coordinator_record import CoordinatorRecord, encode_batch
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.find_coordinator import FindCoordinatorRequest
from spark_kafka_native._protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from spark_kafka_native._protocol.schema import Request, Response
from spark_kafka_native._records.batch import set_producer
from tests.support.broker.driver import BrokerDriver
from tests.support.records.log_batches import NOW_MS
from tests.support.requests.transactions import Part, TransactionalRequests

ResponseT = TypeVar("ResponseT", bound=Response)

_TRANSACTION = 1
_INIT = 4
"""A version of InitProducerId that Kafka 2.8 has too."""


class DirectProducer(TransactionalRequests):
    """One producer. ``level`` is that of transaction.version; from 2 on partitions join as they are written to."""

    def __init__(self, broker: BrokerDriver, name: str = "id", *, level: int = 2, timeout_ms: int = 60_000) -> None:
        super().__init__(name, level=level, timeout_ms=timeout_ms)
        self.broker = broker

    def begin(self) -> Self:
        """Get an id and an epoch; who had them before is fenced."""
        found = self.broker.ask(FindCoordinatorRequest(key=self.transactional_id, key_type=_TRANSACTION), 3)
        assert (found.error_code, self.init(_INIT).error_code) == (ErrorCode.NONE, ErrorCode.NONE)
        return self

    def request(self, *parts: Part, **others: Any) -> ProduceRequest:
        """As of any producer, at the time of the broker's clock."""
        return super().request(*parts, **({"timestamps": NOW_MS} | others))

    def put(self, topic: str, **records: str | None) -> int:
        """Write a batch of records with keys, as a client of level 2 does; its offset. None deletes."""
        pairs = [
            CoordinatorRecord(key=key.encode(), value=None if value is None else value.encode())
            for key, value in records.items()
        ]
        keyed = encode_batch(pairs, self.broker.clock.now_ms())
        sequence = self.sequences.get((topic, 0), 0)
        set_producer(
            keyed,
            0,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        part = PartitionProduceData(index=0, records=keyed)
        topics = (TopicProduceData(name=topic, partition_data=(part,)),)
        request = ProduceRequest(transactional_id=self.transactional_id, acks=-1, timeout_ms=1000, topic_data=topics)
        response = self.broker.ask(request, 12).responses[0].partition_responses[0]
        assert response.error_code == ErrorCode.NONE, ErrorCode.of(response.error_code)
        self.sequences[topic, 0] = sequence + len(pairs)
        return response.base_offset

    def _ask(self, request: Request[ResponseT], version: int, code: Callable[[Any], int], patient: bool) -> ResponseT:
        return self.broker.ask(request, version)
