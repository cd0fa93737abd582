"""A group of any kind, and the `Outcome` of a decision about it. Both are values.

Groups of all kinds share one space of ids: classic ones, consumer groups (KIP-848), and simple ones, which have offsets
only. A decision creates a new group, which replaces the old one once the decision's records are in the log.

`broker_embedded._coordinator.groups` executes a decision in this order: append the records to the log, replace the
group, set the timers, answer the pending requests and the request itself. If the records cannot be written,
``otherwise`` decides instead.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from broker_embedded._groups.records import OffsetCommitValue
from broker_embedded._records.coordinator_record import CoordinatorRecord
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.offset_commit import OffsetCommitRequest
from spark_kafka_native._protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

ResponseT = TypeVar("ResponseT")
ResponseT_co = TypeVar("ResponseT_co", covariant=True)

TimerKey: TypeAlias = tuple[str, ...]
"""Names a timer within its group: ``("session", member_id)``. Setting a timer again replaces it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTimer:
    """Call `decisions.timer_fired` after this time, unless the timer is set again or cancelled before."""

    key: TimerKey
    after_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelTimer:
    """Cancel a timer, if it is set."""

    key: TimerKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """The request is pending: the `Reply` with this id, of a later decision, answers it."""

    request_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The response to a pending request. It is dropped if the client has disconnected."""

    request_id: int
    response: Any


RetentionStart: TypeAlias = Callable[[OffsetCommitValue], int]
"""Returns the time from which offsets.retention.minutes counts for a committed offset."""


class Group(Protocol):
    """One group."""

    @property
    def group_id(self) -> str:
        """The id, unique among groups of all kinds."""

    @property
    def group_type(self) -> str:
        """``classic`` or ``consumer``, as ListGroups answers."""

    @property
    def state_name(self) -> str:
        """The state as ListGroups answers it: ``Empty``, ``Stable``..."""

    @property
    def protocol_type(self) -> str:
        """``consumer``, ``connect``..., or nothing for a simple group."""

    @property
    def is_empty(self) -> bool:
        """Whether it has no members, so that it is deleted with its last offset."""

    def check_commit(self, request: OffsetCommitRequest, version: int) -> tuple[SetTimer, ...]:
        """The timers that the commit renews. Raises KafkaError: the sender may not commit."""

    def check_commit_in_transaction(self, request: TxnOffsetCommitRequest) -> None:
        """Raise KafkaError unless the sender may commit in a transaction (KIP-447)."""

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raise KafkaError unless the sender may fetch committed offsets."""

    def check_offset_delete(self) -> None:
        """Raise KafkaError unless offsets may be deleted; see ``is_subscribed`` for single topics."""

    def check_delete(self) -> None:
        """Raise KafkaError unless the group may be deleted."""

    def is_subscribed(self, topic: str) -> bool:
        """Whether members subscribe to a topic, or may: its offsets do not expire and are not deleted then."""

    def retention_start(self) -> RetentionStart | None:
        """The time from which offsets of topics without subscribers expire; None: they do not."""

    def tombstones(self) -> tuple[CoordinatorRecord, ...]:
        """The records that delete the group, without its offsets."""

    def released(self, code: ErrorCode) -> tuple[Reply, ...]:
        """An error for every pending request: this broker is no longer the group's coordinator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Generic[ResponseT_co]):
    """A decision: a response, the records that must be in the log before it is sent, and further changes.

    ``group`` is the group after the records are written; None leaves it unchanged, ``removed`` deletes it and its
    timers. If the records cannot be written, ``otherwise`` is called with the error code and decides instead, without
    records. If it is None, the request is answered with the error.
    """

    response: ResponseT_co | Pending
    records: tuple[CoordinatorRecord, ...] = ()
    group: Group | None = None
    removed: bool = False
    timers: tuple[SetTimer | CancelTimer, ...] = ()
    replies: tuple[Reply, ...] = ()
    otherwise: "Callable[[ErrorCode], Outcome[ResponseT_co]] | None" = None
