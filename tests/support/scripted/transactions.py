"""A scripted cluster's transactions: ids with producers and epochs, by the rules of ``transaction.version`` 0 to 2.

As small as it can be: markers take no time, nothing times out by itself, and no record is ever hidden.
"""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from broker_embedded._testing.refusals import refusal
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_transactions,
    end_txn,
    init_producer_id,
    list_transactions,
    txn_offset_commit,
)
from spark_kafka_native._protocol.schema import Request, Response
from spark_kafka_native._protocol.topic import TopicPartition

if TYPE_CHECKING:
    from tests.support.scripted.partitions import FakeState

_EPOCH_PER_TRANSACTION: Final = 2
_STARTED_MS: Final = 1_700_000_000_000


@dataclasses.dataclass
class FakeTransaction:
    """One transactional id."""

    producer_id: int
    epoch: int = 0
    timeout_ms: int = 60_000
    state: str = "Empty"
    started_ms: int = -1
    partitions: set[TopicPartition] = dataclasses.field(default_factory=set)
    groups: set[str] = dataclasses.field(default_factory=set)
    offsets: dict[tuple[str, TopicPartition], tuple[int, int, str]] = dataclasses.field(default_factory=dict)

    def begin(self) -> None:
        """Open it, unless it is."""
        if self.state != "Ongoing":
            self.state, self.started_ms = "Ongoing", _STARTED_MS
            self.partitions, self.groups, self.offsets = set(), set(), {}

    def fence(self) -> None:
        """What a timeout does: the broker aborts it under a new epoch."""
        self.epoch += 1
        self.state = "CompleteAbort"


class FakeTransactions:
    """All transactional ids of a cluster."""

    def __init__(self) -> None:
        self.level = 0
        """The finalized level of ``transaction.version``."""
        self.by_id: dict[str, FakeTransaction] = {}

    def wrote(self, transactional_id: str, partition: TopicPartition) -> ErrorCode:
        """Whether a transactional batch may be written."""
        found = self.by_id[transactional_id]
        if self.level >= _EPOCH_PER_TRANSACTION:
            found.begin()
            found.partitions.add(partition)
        added = found.state == "Ongoing" and partition in found.partitions
        return ErrorCode.NONE if added else ErrorCode.INVALID_TXN_STATE

    def checked(self, transactional_id: str, producer_id: int, epoch: int) -> FakeTransaction | ErrorCode:
        """The id, if this is its producer."""
        found = self.by_id.get(transactional_id)
        if found is None or found.producer_id != producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return found if found.epoch == epoch else ErrorCode.PRODUCER_FENCED


def init_transactional(
    request: init_producer_id.InitProducerIdRequest, state: "FakeState"
) -> init_producer_id.InitProducerIdResponse:
    """InitProducerId with a transactional id."""
    name = request.transactional_id or ""
    found = state.transactions.by_id.get(name)
    if found is None:
        state.next_producer_id += 1
        found = state.transactions.by_id[name] = FakeTransaction(state.next_producer_id)
    elif request.producer_id >= 0 and (request.producer_id, request.producer_epoch) != (found.producer_id, found.epoch):
        return init_producer_id.InitProducerIdResponse(error_code=ErrorCode.PRODUCER_FENCED)
    else:
        found.epoch += 1
    found.state, found.timeout_ms = "Empty", request.transaction_timeout_ms
    return init_producer_id.InitProducerIdResponse(producer_id=found.producer_id, producer_epoch=found.epoch)


def _add_partitions(request: Any, state: "FakeState") -> ErrorCode:
    found = state.transactions.checked(
        request.v3_and_below_transactional_id, request.v3_and_below_producer_id, request.v3_and_below_producer_epoch
    )
    if isinstance(found, ErrorCode):
        return found
    found.begin()
    found.partitions |= {TopicPartition(t.name, number) for t in request.v3_and_below_topics for number in t.partitions}
    return ErrorCode.NONE


def _add_offsets(request: Any, state: "FakeState") -> ErrorCode:
    found = state.transactions.checked(request.transactional_id, request.producer_id, request.producer_epoch)
    if isinstance(found, ErrorCode):
        return found
    found.begin()
    found.groups.add(request.group_id)
    return ErrorCode.NONE


def _commit_offsets(request: Any, state: "FakeState") -> ErrorCode:
    found = state.transactions.checked(request.transactional_id, request.producer_id, request.producer_epoch)
    if isinstance(found, ErrorCode):
        return found
    if state.transactions.level >= _EPOCH_PER_TRANSACTION:
        found.begin()
    elif request.group_id not in found.groups:
        return ErrorCode.INVALID_TXN_STATE
    for topic in request.topics:
        for part in topic.partitions:
            key = (request.group_id, TopicPartition(topic.name, part.partition_index))
            found.offsets[key] = (part.committed_offset, part.committed_leader_epoch, part.committed_metadata or "")
    return ErrorCode.NONE


def _end(request: end_txn.EndTxnRequest, state: "FakeState") -> end_txn.EndTxnResponse:
    by_epoch = state.transactions.level >= _EPOCH_PER_TRANSACTION
    ended = "CompleteCommit" if request.committed else "CompleteAbort"
    known = state.transactions.by_id.get(request.transactional_id)
    if known is None or known.producer_id != request.producer_id:
        return end_txn.EndTxnResponse(error_code=ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    again = known.epoch == request.producer_epoch + 1 if by_epoch else known.epoch == request.producer_epoch
    if known.state.startswith("Complete") and again:
        code = ErrorCode.NONE if known.state == ended else ErrorCode.INVALID_TXN_STATE
    elif known.epoch != request.producer_epoch:
        code = ErrorCode.PRODUCER_FENCED
    elif known.state != "Ongoing":
        code = ErrorCode.INVALID_TXN_STATE
    else:
        code = ErrorCode.NONE
        known.state, known.epoch = ended, known.epoch + by_epoch
        if request.committed:
            state.committed |= known.offsets
    if code is not ErrorCode.NONE:
        return end_txn.EndTxnResponse(error_code=code)
    return end_txn.EndTxnResponse(producer_id=known.producer_id, producer_epoch=known.epoch)


def _describe(request: Any, state: "FakeState") -> describe_transactions.DescribeTransactionsResponse:
    def described(name: str) -> describe_transactions.TransactionState:
        found = state.transactions.by_id.get(name)
        if found is None:
            code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
            return describe_transactions.TransactionState(transactional_id=name, error_code=code)
        topics = {part.topic for part in found.partitions}
        return describe_transactions.TransactionState(
            transactional_id=name,
            transaction_state=found.state,
            transaction_timeout_ms=found.timeout_ms,
            transaction_start_time_ms=found.started_ms,
            producer_id=found.producer_id,
            producer_epoch=found.epoch,
            topics=tuple(
                describe_transactions.TopicData(
                    topic=topic,
                    partitions=tuple(sorted(part.partition for part in found.partitions if part.topic == topic)),
                )
                for topic in sorted(topics)
            ),
        )

    return describe_transactions.DescribeTransactionsResponse(
        transaction_states=tuple(map(described, request.transactional_ids))
    )


def _list(request: Any, state: "FakeState") -> list_transactions.ListTransactionsResponse:
    """Filters by state alone: what else is filtered is a broker's affair."""
    return list_transactions.ListTransactionsResponse(
        transaction_states=tuple(
            list_transactions.TransactionState(
                transactional_id=name, producer_id=found.producer_id, transaction_state=found.state
            )
            for name, found in state.transactions.by_id.items()
            if not request.state_filters or found.state in request.state_filters
        )
    )


_RESPONSES: dict[type[Request[Any]], Callable[[Any, "FakeState"], Response | ErrorCode]] = {
    add_partitions_to_txn.AddPartitionsToTxnRequest: _add_partitions,
    add_offsets_to_txn.AddOffsetsToTxnRequest: _add_offsets,
    txn_offset_commit.TxnOffsetCommitRequest: _commit_offsets,
    end_txn.EndTxnRequest: _end,
    describe_transactions.DescribeTransactionsRequest: _describe,
    list_transactions.ListTransactionsRequest: _list,
}


def transactional_response(request: Request[Any], version: int, state: "FakeState", broker: int) -> Response | None:
    """The response of ``broker`` to a request about transactions; None if it is about something else."""
    found = _RESPONSES.get(type(request))
    if found is None:
        return None
    if broker == state.coordinator:
        response = found(request, state)
        return refusal(request, version, response) if isinstance(response, ErrorCode) else response
    if isinstance(request, list_transactions.ListTransactionsRequest):
        return list_transactions.ListTransactionsResponse()
    return refusal(request, version, ErrorCode.NOT_COORDINATOR)
