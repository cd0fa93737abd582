"""The pickled values that planning passes to the tasks, and the tasks to the driver's commit or abort."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from spark_kafka_native._protocol.errors import counted
from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch
from spark_kafka_native._spark.exactly_once.decision import Decision, Handle, Owner, OwnerKind
from spark_kafka_native._spark.exactly_once.errors import ErrorKind, ExactlyOnceError, command
from spark_kafka_native._spark.exactly_once.names import Names


@dataclass(frozen=True, slots=True)
class LastBatch:
    """The last decided batch of a prefix. All of it is committed."""

    owner: Owner
    batch_id: int


@dataclass(frozen=True, slots=True)
class WritePlan:
    """The result of planning one batch."""

    prefix: str
    fence: ProducerIdAndEpoch
    """The driver's producer. It has written nothing yet and makes at most one decision."""
    last: LastBatch | None


class TaskOutcome(Enum):
    """The result of a task."""

    WRITTEN = "written"
    EMPTY = "empty"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class TaskMessage:
    """A task's commit message to the driver."""

    fence: ProducerIdAndEpoch
    owner: Owner
    batch_id: int
    outcome: TaskOutcome
    handle: Handle | None = None
    """The transaction that the task has left open."""
    rows: int = 0
    """Rows of the task, also if it was skipped. The writer sets it, because `task` does not read them."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch, from the messages of its tasks."""

    fence: ProducerIdAndEpoch
    owner: Owner
    batch_id: int
    skipped: bool
    rows: int
    handles: tuple[Handle, ...]


def is_new(plan: WritePlan, owner: Owner, batch_id: int) -> bool:
    """Whether a batch is to be written; False: it has the number of the last batch, and is skipped.

    Raises ExactlyOnceError (REFUSED): it is neither the last decided batch nor the next one.
    """
    last = plan.last
    if last is None:
        return True
    if owner.kind is OwnerKind.JOB and last.owner.kind is OwnerKind.JOB:
        return True
    if owner != last.owner:
        raise _other_owner(plan, last, owner)
    if batch_id not in {last.batch_id, last.batch_id + 1}:
        raise _other_batch(plan, last.batch_id, batch_id)
    return batch_id != last.batch_id


def _other_owner(plan: WritePlan, last: LastBatch, owner: Owner) -> ExactlyOnceError:
    what = f"the last batch with this prefix is batch {last.batch_id} of {last.owner}, and this is {owner}"
    release = command("release", plan.prefix)
    if owner.kind is not last.owner.kind:
        return _refused(
            plan.prefix,
            what,
            "Set another prefix: batch writes and streaming queries need prefixes of their own. Release this one only "
            f"if {last.owner} does not run again: {release}",
        )
    return _refused(
        plan.prefix,
        f"{what}: another query, or the same one with a new checkpoint",
        "Set another prefix for another query. Start the same query from the newest checkpoint whose file 'metadata' "
        f"has id {last.owner.id}: no row is lost. If it does not exist any more, release the prefix; after that, rows "
        f"that the new checkpoint reads again are written twice: {release}",
    )


def _other_batch(plan: WritePlan, last_id: int, batch_id: int) -> ExactlyOnceError:
    what = f"the last batch with this prefix is batch {last_id}, and the query is at batch {batch_id}"
    if batch_id > last_id:
        return _refused(
            plan.prefix,
            f"{what}: the prefix has no decision of the batches in between. They were written with another prefix, "
            "without exactly-once, to another cluster or before a release of the prefix, or their decisions were lost",
            f"If their rows are in the topics, release the prefix; the query then continues at batch {batch_id}: "
            f"{command('release', plan.prefix)}",
        )
    return older_copy(plan.prefix, f"{what}: the checkpoint is an older copy")


def older_copy(prefix: str, why: str) -> ExactlyOnceError:
    """The error (REFUSED) of a batch that is older than the last decision of the prefix, or differs from it."""
    return _refused(
        prefix,
        why,
        "Start from the newest checkpoint: no row is lost. If it does not exist any more, release the prefix; after "
        f"that, rows of batches that run again are written twice: {command('release', prefix)}",
    )


def _refused(prefix: str, why: str, advice: str) -> ExactlyOnceError:
    return ExactlyOnceError(
        ErrorKind.REFUSED, f"option 'transactional.id.prefix' = {prefix}: {why}. This run has written nothing. {advice}"
    )


def joined(names: Names, messages: Sequence[TaskMessage]) -> Batch:
    """The batch of these messages. Raises ExactlyOnceError (MIXED): none, or they belong to several batches."""
    about = {(message.fence, message.owner, message.batch_id) for message in messages}
    skipped = {message.outcome is TaskOutcome.SKIPPED for message in messages}
    handles = tuple(message.handle for message in messages if message.handle is not None)
    if len(about) != 1 or len(skipped) != 1 or len({handle.transactional_id for handle in handles}) != len(handles):
        raise ExactlyOnceError(
            ErrorKind.MIXED,
            f"prefix {names.prefix}: the messages of {counted(len(messages), 'task')} are not those of one batch",
        )
    [(fence, owner, batch_id)] = about
    return Batch(fence, owner, batch_id, skipped.pop(), sum(message.rows for message in messages), handles)


def summary(decision: Decision | None) -> LastBatch | None:
    """The part of a finished decision that tasks need."""
    return None if decision is None else LastBatch(decision.owner, decision.batch_id)
