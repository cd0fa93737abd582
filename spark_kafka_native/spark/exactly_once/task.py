"""What a task does: write in a transaction of its own, and leave it open."""

from typing import Final

from spark_kafka_native.protocol.errors import KafkaError
from spark_kafka_native.records.batch import ProducerIdAndEpoch
from spark_kafka_native.spark.exactly_once.batch import Message, Outcome, Plan, Timing, is_new
from spark_kafka_native.spark.exactly_once.decision import Handle, Owner
from spark_kafka_native.spark.exactly_once.effects import End, EndTransactions, InitProducer, Steps, WriteRows, Written
from spark_kafka_native.spark.exactly_once.names import DataId, Names

TRIES: Final = 3
"""Transactional ids that a task tries: one whose first answer is lost is not asked for again."""


def task(
    plan: Plan, owner: Owner, batch_id: int, task_attempt_id: int, timing: Timing, *, has_rows: bool
) -> Steps[Message]:
    """Write the rows of one attempt at one task -> what the driver has to know.

    Raises ExactlyOnceError (REFUSED): the batch does not follow the last one. Any other error: the transaction is
    aborted, as far as that can be done here, and nothing of it will be committed.
    """
    # T1. The batch was decided before a crash, or it is the next one.
    if not is_new(plan, owner, batch_id):
        return Message(plan.fence, owner, batch_id, Outcome.SKIPPED)
    # T2. Without rows there is nothing to commit.
    if not has_rows:
        return Message(plan.fence, owner, batch_id, Outcome.EMPTY)
    names = Names(prefix=plan.prefix)
    name, producer = yield from _begin(names, plan.fence, batch_id, task_attempt_id, timing)
    # T3. Flushed, and left open.
    try:
        written: tuple[Written, ...] = yield WriteRows(name, producer)
    except Exception:  # whatever it is: nothing of the task may stay open because of it
        yield EndTransactions((End(name, producer),), commit=False)
        raise
    # T4. The driver decides.
    return Message(plan.fence, owner, batch_id, Outcome.WRITTEN, Handle(name, producer, written))


def _begin(
    names: Names, fence: ProducerIdAndEpoch, batch_id: int, task_attempt_id: int, timing: Timing
) -> Steps[tuple[str, ProducerIdAndEpoch]]:
    """A transactional id that nobody else has, nor ever had, nor can still abort."""
    for attempt in range(TRIES):
        data_id = DataId(fence=fence, batch_id=batch_id, task_attempt_id=task_attempt_id, attempt=attempt)
        name = names.data_id(data_id)
        try:
            producer: ProducerIdAndEpoch = yield InitProducer(name, timing.transaction_timeout_ms, once=True)
        except KafkaError as error:
            if not error.retriable or attempt == TRIES - 1:
                raise
        else:
            return name, producer
    raise AssertionError("the last try returns or raises")
