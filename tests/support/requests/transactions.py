"""Transactional producers in raw requests over real connections, the same to every broker.

A producer of level 1 of ``transaction.version`` adds partitions before it writes to them, and groups before it commits
their offsets. One of level 2 does neither, and has a new epoch after every transaction (KIP-890). The versions of its
requests show its level.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Self, TypeVar

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from spark_kafka_native._protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from spark_kafka_native._protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from spark_kafka_native._protocol.messages.find_coordinator import FindCoordinatorRequest
from spark_kafka_native._protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from spark_kafka_native._protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from spark_kafka_native._protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from spark_kafka_native._protocol.schema import Request, Response
from tests.support.records.log_batches import batch
from tests.support.requests.raw_client import RawClient
from tests.support.waiting import eventually, last_of

ResponseT = TypeVar("ResponseT", bound=Response)

LEVELS: Final = (1, 2)
"""Of ``transaction.version``: those that producers of today use."""
NOT_YET: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }
)
"""Answers upon which clients ask again."""

_TRANSACTION: Final = 1
_GROUPS: Final = 0
_SINCE_LEVEL_2: Final = {"produce": (11, 12), "end": (4, 5), "offsets": (4, 5)}
_SEVERAL_SINCE: Final = 4

Part = tuple[str, int]


class TransactionalRequests:
    """What one transactional producer asks, and what it remembers. ``_ask`` is how it asks; ``init`` comes first."""

    def __init__(self, transactional_id: str, *, level: int, timeout_ms: int) -> None:
        self.transactional_id = transactional_id
        self.level = level
        self.timeout_ms = timeout_ms
        self.producer_id = -1
        self.epoch = -1
        self.sequences: dict[Part, int] = {}
        """The next one of each partition."""
        self._added: set[Part] = set()

    @property
    def identity(self) -> tuple[int, int]:
        """Producer id and epoch."""
        return self.producer_id, self.epoch

    # --- a producer's life -------------------------------------------------------------------------------------------

    def init(self, version: int = 5, *, patient: bool = True, **others: Any) -> InitProducerIdResponse:
        """Get an id and an epoch, once nothing is in the way if ``patient``. With a claim for KIP-360."""
        fields: dict[str, Any] = {
            "transactional_id": self.transactional_id,
            "transaction_timeout_ms": self.timeout_ms,
        } | others
        response = self._ask(InitProducerIdRequest(**fields), version, lambda found: found.error_code, patient)
        if response.error_code == ErrorCode.NONE:
            self.take(response.producer_id, response.producer_epoch)
        return response

    def begin(self) -> Self:
        """``init``, which must succeed."""
        response = self.init()
        assert response.error_code == ErrorCode.NONE, ErrorCode.of(response.error_code).name
        return self

    def take(self, producer_id: int, epoch: int) -> None:
        """Continue as this producer: sequence numbers begin at 0 with another epoch."""
        if (producer_id, epoch) != self.identity:
            self.sequences.clear()
        self.producer_id, self.epoch = producer_id, epoch
        self._added.clear()

    # --- records -----------------------------------------------------------------------------------------------------

    def add(self, *parts: Part, version: int = 3, patient: bool = True, **others: Any) -> list[ErrorCode]:
        """Make partitions part of the transaction; how each fared."""
        topics = tuple(
            AddPartitionsToTxnTopic(name=topic, partitions=tuple(number for name, number in parts if name == topic))
            for topic in dict.fromkeys(topic for topic, _ in parts)
        )
        fields: dict[str, Any] = {
            "transactional_id": self.transactional_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
        } | others
        if version < _SEVERAL_SINCE:
            fields = {f"v3_and_below_{name}": value for name, value in fields.items()}
            request = AddPartitionsToTxnRequest(v3_and_below_topics=topics, **fields)
        else:
            request = AddPartitionsToTxnRequest(transactions=(AddPartitionsToTxnTransaction(topics=topics, **fields),))

        def codes(response: Any) -> list[int]:
            if version < _SEVERAL_SINCE:
                found = response.results_by_topic_v3_and_below
            elif response.error_code:
                return [response.error_code]
            else:
                found = response.results_by_transaction[0].topic_results
            each = {(topic.name, part.partition_index): part for topic in found for part in topic.results_by_partition}
            return [each[part].partition_error_code for part in parts]

        response = self._ask(request, version, lambda found: (codes(found) or [0])[0], patient)
        return [ErrorCode.of(code) for code in codes(response)]

    def request(self, *parts: Part, values: Iterable[str] = (), acks: int = -1, **others: Any) -> ProduceRequest:
        """A Produce to partitions; ``others`` are fields of the batches, or the ``transactional_id``."""
        transactional_id = others.pop("transactional_id", self.transactional_id)
        fields: dict[str, Any] = {
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "transactional": True,
            "timestamps": int(time.time() * 1000),
        } | others
        encoded, topics = [value.encode() for value in values], []
        for topic, index in parts:
            records = batch(*encoded, **({"base_sequence": self.sequences.get((topic, index), 0)} | fields))
            data = PartitionProduceData(index=index, records=records)
            topics.append(TopicProduceData(name=topic, partition_data=(data,)))
        return ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=10_000, topic_data=tuple(topics))

    def produce(
        self,
        topic: str,
        *values: str,
        partition: int = 0,
        version: int | None = None,
        patient: bool = True,
        **others: Any,
    ) -> PartitionProduceResponse:
        """Write one batch, whatever comes of it. ``others`` are as of `request`."""
        part = (topic, partition)
        sequence = others.get("base_sequence", self.sequences.get(part, 0))
        request = self.request(part, values=values, **others)

        def found(response: Any) -> PartitionProduceResponse:
            part_response: PartitionProduceResponse = response.responses[0].partition_responses[0]
            return part_response

        response = self._ask(
            request, self._version("produce", version), lambda got: found(got).error_code, patient=patient
        )
        if found(response).error_code == ErrorCode.NONE:
            self.sequences[part] = sequence + max(len(values), 1)
        return found(response)

    def write(self, topic: str, *values: str, partition: int = 0) -> int:
        """Write one batch as a client of the level does; the offset of its first record."""
        part = (topic, partition)
        if self.level == 1 and part not in self._added:
            assert self.add(part) == [ErrorCode.NONE]
            self._added.add(part)
        response = self.produce(topic, *values, partition=partition)
        assert response.error_code == ErrorCode.NONE, ErrorCode.of(response.error_code).name
        return response.base_offset

    # --- offsets -----------------------------------------------------------------------------------------------------

    def add_offsets(self, group_id: str, version: int = 4, *, patient: bool = True, **others: Any) -> ErrorCode:
        """Make a group's offsets part of the transaction."""
        fields = self._fields(group_id=group_id) | others
        response = self._ask(AddOffsetsToTxnRequest(**fields), version, lambda found: found.error_code, patient)
        return ErrorCode.of(response.error_code)

    def commit_offsets(
        self,
        group_id: str,
        offsets: Mapping[Part, int],
        *,
        version: int | None = None,
        patient: bool = True,
        **others: Any,
    ) -> list[ErrorCode]:
        """Commit a group's offsets in the transaction, whatever comes of it; how each partition fared."""
        topics = tuple(
            TxnOffsetCommitRequestTopic(
                name=topic,
                partitions=tuple(
                    TxnOffsetCommitRequestPartition(partition_index=number, committed_offset=offset)
                    for (name, number), offset in offsets.items()
                    if name == topic
                ),
            )
            for topic in dict.fromkeys(topic for topic, _ in offsets)
        )
        fields = self._fields(group_id=group_id, topics=topics) | others

        def codes(response: Any) -> list[int]:
            return [part.error_code for topic in response.topics for part in topic.partitions]

        response = self._ask(
            TxnOffsetCommitRequest(**fields),
            self._version("offsets", version),
            lambda got: (codes(got) or [0])[0],
            patient,
        )
        return [ErrorCode.of(code) for code in codes(response)]

    # --- the end -----------------------------------------------------------------------------------------------------

    def end(self, *, commit: bool, version: int | None = None, patient: bool = True, **others: Any) -> EndTxnResponse:
        """End the transaction, whatever comes of it. The producer stays as it is: see ``take``."""
        request = EndTxnRequest(**(self._fields(committed=commit) | others))
        return self._ask(request, self._version("end", version), lambda found: found.error_code, patient)

    def commit(self) -> None:
        """Commit the transaction; the driver can begin another one."""
        self._finish(commit=True)

    def abort(self) -> None:
        """Abort the transaction; the driver can begin another one."""
        self._finish(commit=False)

    def _finish(self, *, commit: bool) -> None:
        response = self.end(commit=commit)
        assert response.error_code == ErrorCode.NONE, ErrorCode.of(response.error_code).name
        if self.level == 1:
            self._added.clear()
        else:
            self.take(response.producer_id, response.producer_epoch)

    def _fields(self, **others: Any) -> dict[str, Any]:
        return {
            "transactional_id": self.transactional_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
        } | others

    def _version(self, what: str, version: int | None) -> int:
        return _SINCE_LEVEL_2[what][self.level - 1] if version is None else version

    def _ask(self, request: Request[ResponseT], version: int, code: Callable[[Any], int], patient: bool) -> ResponseT:
        """The response, whose error code ``code`` finds; if ``patient``, once it is none of `NOT_YET`."""
        raise NotImplementedError


class RawProducer(TransactionalRequests):
    """One transactional producer with one connection. A context manager."""

    def __init__(self, address: str, transactional_id: str, *, level: int = 2, timeout_ms: int = 60_000) -> None:
        super().__init__(transactional_id, level=level, timeout_ms=timeout_ms)
        self.client = RawClient(address)

    def __enter__(self) -> Self:
        try:
            wait_for_transaction_coordinator(self.client, self.transactional_id)
        except BaseException:
            self.client.sock.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.client.sock.close()

    def send_offsets(self, group_id: str, offsets: Mapping[Part, int], **member: Any) -> None:
        """Commit a group's offsets in the transaction, as a client of the level does."""
        wait_for_transaction_coordinator(self.client, group_id, _GROUPS)
        if self.level == 1:
            assert self.add_offsets(group_id) is ErrorCode.NONE
        assert set(self.commit_offsets(group_id, offsets, **member)) == {ErrorCode.NONE}

    def _ask(self, request: Request[ResponseT], version: int, code: Callable[[Any], int], patient: bool) -> ResponseT:
        return last_of(
            lambda: self.client.ask(request, version),
            lambda response: not patient or code(response) not in NOT_YET,
        )


def code(response: object) -> ErrorCode:
    """The error code of a response that has one for all that was asked."""
    return ErrorCode.of(response.error_code)  # type: ignore[attr-defined]  # a response that has one


def wait_for_transaction_coordinator(client: RawClient, key: str, key_type: int = _TRANSACTION) -> None:
    """Wait until a broker coordinates a transactional id, or a group."""
    find = FindCoordinatorRequest(key=key, key_type=key_type)
    eventually(lambda: ErrorCode.of(client.ask(find, 3).error_code), ErrorCode.NONE)
