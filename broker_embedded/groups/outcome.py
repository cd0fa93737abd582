"""What a coordinator's decision consists of: values all, so that deciding touches no log, no clock and no connection.

The shell (`broker_embedded.coordinator.groups`) carries a decision out in this order: the records are appended to the
log, the group becomes what the decision made of it, timers are set, parked requests and the request itself are
answered. A decision whose records cannot be written has not happened; ``otherwise`` says what happens instead.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from broker_embedded.groups.records import CoordinatorRecord
from spark_kafka_native.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from broker_embedded.groups.group import Group

AnswerT = TypeVar("AnswerT")
AnswerT_co = TypeVar("AnswerT_co", covariant=True)

TimerKey: TypeAlias = tuple[str, ...]
"""Names a timer within its group: ``("session", member_id)``. Setting one that is set replaces it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTimer:
    """Call ``group.timer_fired(key, now_ms)`` that much later, unless the timer is set anew or cancelled before."""

    key: TimerKey
    after_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelTimer:
    """Cancel a timer; one that is not set is no mistake."""

    key: TimerKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Parked:
    """No answer yet: it will be the `Reply` with this ticket, of a later decision."""

    ticket: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The answer to a request that was parked. One whose client has left goes nowhere."""

    ticket: int
    answer: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Generic[AnswerT_co]):
    """A decision: an answer, the records that must be in the log before it is given, and what else it brings.

    ``group`` is the group as it is once the records are written; None leaves it as it was, ``removed`` ends it and
    its timers. ``otherwise`` decides anew, with the error that clients are to hear, when the records cannot be
    written; it must not ask for records itself. Without it the request is answered with that error.
    """

    answer: AnswerT_co | Parked
    records: tuple[CoordinatorRecord, ...] = ()
    group: "Group | None" = None
    removed: bool = False
    timers: tuple[SetTimer | CancelTimer, ...] = ()
    replies: tuple[Reply, ...] = ()
    otherwise: "Callable[[ErrorCode], Outcome[AnswerT_co]] | None" = None
