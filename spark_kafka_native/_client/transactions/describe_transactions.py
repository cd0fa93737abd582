"""Transactions as their coordinators see them: DescribeTransactions and ListTransactions (KIP-664, KIP-994, KIP-1152).

Brokers before 3.0 cannot be asked.
"""

import dataclasses
import re
import time
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.cluster.coordinators import at_coordinators
from spark_kafka_native._client.cluster.known_coordinators import CoordinatorType
from spark_kafka_native._client.cluster.metadata import Node
from spark_kafka_native._net.blocking import Connection
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError, check_code
from spark_kafka_native._protocol.messages import describe_transactions as wire
from spark_kafka_native._protocol.messages.list_transactions import ListTransactionsRequest
from spark_kafka_native._protocol.topic import TopicPartition

_FIRST_LIST_WITH_DURATION: Final = 1
_FIRST_LIST_WITH_PATTERN: Final = 2
_NO_DURATION: Final = -1
_IDS_PER_REQUEST: Final = 1000


class TransactionState(StrEnum):
    """States of a transactional id, by Kafka's names."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    DEAD = "Dead"
    UNKNOWN = "Unknown"
    """One that is not known here."""

    @classmethod
    def of(cls, name: str) -> "TransactionState":
        """The state with a name."""
        return cls(name) if name in cls._value2member_map_ else cls.UNKNOWN


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TransactionListing:
    """A transactional id that a broker coordinates."""

    transactional_id: str
    producer_id: int
    state: TransactionState
    coordinator: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDescription:
    """A transactional id, its producer, and its transaction if one is open or about to end."""

    transactional_id: str
    state: TransactionState
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int
    """When the transaction began, by its coordinator's clock; -1: there is none."""
    partitions: tuple[TopicPartition, ...] = ()

    def __str__(self) -> str:
        return f"{self.transactional_id} in {self.state} (producer {self.producer_id}, epoch {self.producer_epoch})"


def describe_transactions(
    cluster: Cluster, transactional_ids: Iterable[str], *, timeout_ms: float | None = None
) -> dict[str, TransactionDescription]:
    """Transactional ids by name; those that no coordinator knows are left out. Raises KafkaError naming the id."""
    deadline = cluster.deadline(timeout_ms)
    found = {}
    responses = at_coordinators(cluster, CoordinatorType.TRANSACTION, transactional_ids, _describe, deadline)
    for key, response in responses.items():
        if isinstance(response, TransactionDescription):
            found[key] = response
        elif response.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise response
    return found


def describe_known(
    cluster: Cluster, transactional_ids: Iterable[str], deadline: Deadline
) -> dict[str, TransactionDescription]:
    """As ``describe_transactions``, without those that cannot be described for whichever reason."""
    responses = at_coordinators(cluster, CoordinatorType.TRANSACTION, transactional_ids, _describe, deadline)
    return {key: response for key, response in responses.items() if isinstance(response, TransactionDescription)}


def list_transactions(
    cluster: Cluster,
    *,
    states: Iterable[TransactionState] = (),
    producer_ids: Iterable[int] = (),
    prefix: str = "",
    pattern: str | None = None,
    open_for_ms: int | None = None,
    timeout_ms: float | None = None,
) -> list[TransactionListing]:
    """The transactional ids of all brokers that fit, by name.

    ``states``, ``producer_ids``: of one of these; none given: any. ``prefix``: what the id begins with. ``pattern``: an
    RE2 expression for the whole id, which Python's ``re`` reads for brokers before 4.1. ``open_for_ms``: only
    transactions that began at least so long ago. Raises KafkaError naming the broker that could not answer: what it
    coordinates would be missing.
    """
    query = _ListQuery(
        states=tuple(states),
        producer_ids=tuple(producer_ids),
        prefix=prefix,
        pattern=pattern,
        open_for_ms=_NO_DURATION if open_for_ms is None else open_for_ms,
    )

    def attempt(deadline: Deadline) -> list[TransactionListing]:
        found: dict[str, TransactionListing] = {}
        for node in cluster.metadata([], timeout_ms=deadline.remaining_ms).brokers.values():
            for listing in query.ask(cluster, node, deadline):
                found[listing.transactional_id] = listing
        return [found[key] for key in sorted(found)]

    return cluster.retrying(attempt, timeout_ms)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _ListQuery:
    """The ListTransactions request to every broker; filters that a broker is too old for are applied here."""

    states: tuple[TransactionState, ...]
    producer_ids: tuple[int, ...]
    prefix: str
    pattern: str | None
    open_for_ms: int

    def ask(self, cluster: Cluster, node: Node, deadline: Deadline) -> list[TransactionListing]:
        with cluster.lent(node, deadline) as connection:
            version = connection.version_of(ListTransactionsRequest)
            response = connection.call(self._request(version), timeout_ms=deadline.remaining_ms)
        check_code(response.error_code, f"the transactions of broker {node.node_id}")
        found = [
            TransactionListing(
                transactional_id=item.transactional_id,
                producer_id=item.producer_id,
                state=TransactionState.of(item.transaction_state),
                coordinator=node.node_id,
            )
            for item in response.transaction_states
            if self._has_name(item.transactional_id, version)
        ]
        if self.open_for_ms != _NO_DURATION and version < _FIRST_LIST_WITH_DURATION:
            return self._old_enough(cluster, found, deadline)
        return found

    def _request(self, version: int) -> ListTransactionsRequest:
        named = self.pattern
        if named is None and self.prefix:
            named = f"(?s){re.escape(self.prefix)}.*"
        return ListTransactionsRequest(
            state_filters=self.states,
            producer_id_filters=self.producer_ids,
            duration_filter=self.open_for_ms if version >= _FIRST_LIST_WITH_DURATION else _NO_DURATION,
            transactional_id_pattern=named if version >= _FIRST_LIST_WITH_PATTERN else None,
        )

    def _has_name(self, transactional_id: str, version: int) -> bool:
        if not transactional_id.startswith(self.prefix):
            return False
        if self.pattern is None or version >= _FIRST_LIST_WITH_PATTERN:
            return True
        return re.fullmatch(self.pattern, transactional_id) is not None

    def _old_enough(
        self, cluster: Cluster, listings: Sequence[TransactionListing], deadline: Deadline
    ) -> list[TransactionListing]:
        latest = int(time.time() * 1000) - self.open_for_ms
        described = describe_transactions(
            cluster, [item.transactional_id for item in listings], timeout_ms=deadline.remaining_ms
        )
        return [
            item
            for item in listings
            if item.transactional_id in described and 0 <= described[item.transactional_id].started_ms <= latest
        ]


def _describe(
    connection: Connection, keys: Sequence[str], timeout_ms: float
) -> dict[str, TransactionDescription | KafkaError]:
    """DescribeTransactions for ``at_coordinators``."""
    deadline = Deadline.after_ms(timeout_ms)
    found: dict[str, TransactionDescription | KafkaError] = {}
    for start in range(0, len(keys), _IDS_PER_REQUEST):
        request = wire.DescribeTransactionsRequest(transactional_ids=tuple(keys[start : start + _IDS_PER_REQUEST]))
        for item in connection.call(request, timeout_ms=deadline.remaining_ms).transaction_states:
            found[item.transactional_id] = _description(item)
    missing = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "missing from the DescribeTransactions response")
    return {key: found.get(key, missing) for key in keys}


def _description(item: wire.TransactionState) -> TransactionDescription | KafkaError:
    code = ErrorCode.of(item.error_code)
    if code is not ErrorCode.NONE:
        return KafkaError(code, f"transactional id {item.transactional_id}", operation="DESCRIBE")
    return TransactionDescription(
        transactional_id=item.transactional_id,
        state=TransactionState.of(item.transaction_state),
        producer_id=item.producer_id,
        producer_epoch=item.producer_epoch,
        timeout_ms=item.transaction_timeout_ms,
        started_ms=item.transaction_start_time_ms,
        partitions=tuple(TopicPartition(topic.topic, number) for topic in item.topics for number in topic.partitions),
    )
