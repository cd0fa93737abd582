"""What travels from planning to the tasks, and from the tasks to the driver's commit or abort. All of it is pickled."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from spark_kafka_native.records.batch import ProducerIdAndEpoch
from spark_kafka_native.spark.exactly_once.decision import Decision, Handle, Owner, OwnerKind
from spark_kafka_native.spark.exactly_once.errors import ExactlyOnceError, Trouble, command
from spark_kafka_native.spark.exactly_once.names import Names


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long transactions may stay open."""

    transaction_timeout_ms: int
    """A task's transaction, from its first row to its commit; a restart of the driver has to fit in too."""
    decision_timeout_ms: int
    """The transaction of a decision: from before the tasks' transactions are looked at until they are decided about."""
    margin_ms: int
    """What has to be left of each task's timeout when it is looked at. What remains of it once a batch is decided is at
    least this without `decision_timeout_ms` and the broker's sweep (transaction.abort.timed.out...interval.ms)."""


@dataclass(frozen=True, slots=True)
class Last:
    """The last batch that was decided with a prefix. All of it is committed."""

    owner: Owner
    batch_id: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What planning found out for one batch."""

    prefix: str
    fence: ProducerIdAndEpoch
    """The driver's producer. It has written nothing yet, and decides at most once."""
    last: Last | None


class Outcome(Enum):
    """What came of a task."""

    WRITTEN = "written"
    EMPTY = "empty"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Message:
    """What a task hands back to the driver."""

    fence: ProducerIdAndEpoch
    owner: Owner
    batch_id: int
    outcome: Outcome
    handle: Handle | None = None
    """Where it has written."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch, as all of its messages tell it."""

    fence: ProducerIdAndEpoch
    owner: Owner
    batch_id: int
    skipped: bool
    handles: tuple[Handle, ...]


def is_new(plan: Plan, owner: Owner, batch_id: int) -> bool:
    """Whether a batch is to be written; False: it was, before a crash, and is to be skipped.

    Raises ExactlyOnceError (REFUSED): it is neither the last batch that was decided nor the one after it.
    """
    last = plan.last
    if last is None:
        return True
    if owner.kind is OwnerKind.JOB:
        if last.owner.kind is OwnerKind.JOB:
            return True
        raise _refused(plan, f"it is in use by {last.owner}")
    if owner != last.owner:
        raise _refused(plan, f"its last batch was of {last.owner}, and this is {owner}")
    if batch_id not in {last.batch_id, last.batch_id + 1}:
        raise _refused(
            plan,
            f"its last batch was {last.batch_id}, and the query is at batch {batch_id}: its checkpoint was set back, "
            "or another one is used than before",
        )
    return batch_id != last.batch_id


def _refused(plan: Plan, why: str) -> ExactlyOnceError:
    return ExactlyOnceError(
        Trouble.REFUSED,
        f"option 'transactional.id.prefix' = {plan.prefix}: {why}. Nothing was written. Give every query, and batch "
        f"writes, a prefix of their own, or let this one go: {command('release', plan.prefix)}",
    )


def joined(names: Names, messages: Sequence[Message]) -> Batch:
    """The batch that messages are about. Raises ExactlyOnceError (MIXED): they are of several, or there are none."""
    about = {(message.fence, message.owner, message.batch_id) for message in messages}
    skipped = {message.outcome is Outcome.SKIPPED for message in messages}
    handles = tuple(message.handle for message in messages if message.handle is not None)
    if len(about) != 1 or len(skipped) != 1 or len({handle.transactional_id for handle in handles}) != len(handles):
        raise ExactlyOnceError(
            Trouble.MIXED, f"prefix {names.prefix}: the messages of {len(messages)} tasks are not those of one batch"
        )
    [(fence, owner, batch_id)] = about
    return Batch(fence, owner, batch_id, skipped.pop(), handles)


def summary(decision: Decision | None) -> Last | None:
    """What of a finished decision the tasks have to know."""
    return None if decision is None else Last(decision.owner, decision.batch_id)
