"""A group of any kind, and the `Outcome` of a decision about it: values, so that deciding touches no log and no clock.

Groups of all kinds share one space of ids: classic ones, consumer groups (KIP-848), and simple ones, which have offsets
alone. A decision makes a new group, which replaces the old one once the decision's records are in the log.

`broker_embedded.coordinator.groups` carries a decision out in this order: it appends the records to the log, replaces
the group, sets the timers, and answers the pending requests and the request itself. A decision whose records cannot be
written has not happened; ``otherwise`` decides instead.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from broker_embedded.groups.records import OffsetCommitValue
from broker_embedded.records.coordinator_record import CoordinatorRecord
from spark_kafka_native.protocol.errors import ErrorCode
from spark_kafka_native.protocol.messages.offset_commit import OffsetCommitRequest
from spark_kafka_native.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

AnswerT = TypeVar("AnswerT")
AnswerT_co = TypeVar("AnswerT_co", covariant=True)

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
    """The answer to a pending request. It is dropped if the client has disconnected."""

    request_id: int
    answer: Any


RetentionStart: TypeAlias = Callable[[OffsetCommitValue], int]
"""The time from which offsets.retention.minutes counts for a position."""


class Group(Protocol):
    """One group."""

    @property
    def group_id(self) -> str:
        """The id, unique among groups of all kinds."""
        ...

    @property
    def group_type(self) -> str:
        """``classic`` or ``consumer``, as ListGroups answers."""
        ...

    @property
    def state_name(self) -> str:
        """The state as ListGroups answers it: ``Empty``, ``Stable``..."""
        ...

    @property
    def protocol_type(self) -> str:
        """``consumer``, ``connect``..., or nothing for a simple group."""
        ...

    @property
    def is_empty(self) -> bool:
        """Whether it has no members, so that it ends with its last offset."""
        ...

    def check_commit(self, request: OffsetCommitRequest, version: int) -> tuple[SetTimer, ...]:
        """Whether the sender may commit; the timers that this prolongs. Raises KafkaError: it may not."""
        ...

    def check_commit_in_transaction(self, request: TxnOffsetCommitRequest) -> None:
        """Raise KafkaError unless the sender may commit in a transaction (KIP-447); nothing is prolonged by it."""
        ...

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raise KafkaError unless the sender may ask for positions."""
        ...

    def check_offset_delete(self) -> None:
        """Raise KafkaError unless positions may be deleted at all; see ``is_subscribed`` for single topics."""
        ...

    def check_delete(self) -> None:
        """Raise KafkaError unless the group may be deleted."""
        ...

    def is_subscribed(self, topic: str) -> bool:
        """Whether members read a topic, or may: its positions are neither deleted nor do they expire then."""
        ...

    def retention_start(self) -> RetentionStart | None:
        """From when on positions of topics that nobody is subscribed to grow old; None: they do not now."""
        ...

    def tombstones(self) -> tuple[CoordinatorRecord, ...]:
        """The records that delete the group itself; its positions have their own."""
        ...

    def released(self, code: ErrorCode) -> tuple[Reply, ...]:
        """An error for every pending request: this broker is no longer the group's coordinator."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Generic[AnswerT_co]):
    """A decision: an answer, the records that must be in the log before it is given, and what else it brings.

    ``group`` is the group as it is once the records are written; None leaves it as it was, ``removed`` ends it and
    its timers. ``otherwise`` decides anew, with the error that clients are to hear, when the records cannot be
    written; it must not ask for records itself. Without it the request is answered with that error.
    """

    answer: AnswerT_co | Pending
    records: tuple[CoordinatorRecord, ...] = ()
    group: Group | None = None
    removed: bool = False
    timers: tuple[SetTimer | CancelTimer, ...] = ()
    replies: tuple[Reply, ...] = ()
    otherwise: "Callable[[ErrorCode], Outcome[AnswerT_co]] | None" = None
