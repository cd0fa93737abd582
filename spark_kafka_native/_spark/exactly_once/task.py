"""The steps of a task: write in its own transaction, and leave it open."""

from typing import Final

from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch
from spark_kafka_native._spark.exactly_once.batch import TaskMessage, TaskOutcome, WritePlan, is_new
from spark_kafka_native._spark.exactly_once.decision import Handle, Owner
from spark_kafka_native._spark.exactly_once.effects import (
    End,
    EndTransactions,
    InitProducer,
    Steps,
    WriteRows,
    WrittenRange,
)
from spark_kafka_native._spark.exactly_once.names import DataId, Names
from spark_kafka_native._spark.exactly_once.timing import Timing

TRIES: Final = 3
"""Transactional ids that a task tries: an id whose first InitProducerId had no response is not used again."""


def task(
    plan: WritePlan, owner: Owner, batch_id: int, task_attempt_id: int, timing: Timing, *, has_rows: bool
) -> Steps[TaskMessage]:
    """Write the rows of one task attempt -> its message to the driver.

    Raises ExactlyOnceError (REFUSED): the batch does not follow the last one. After any other error the transaction is
    aborted if possible, and never committed.
    """
    # T1. Skip a batch that was decided before a crash.
    if not is_new(plan, owner, batch_id):
        return TaskMessage(plan.fence, owner, batch_id, TaskOutcome.SKIPPED)
    # T2. A task without rows needs no transaction.
    if not has_rows:
        return TaskMessage(plan.fence, owner, batch_id, TaskOutcome.EMPTY)
    names = Names(prefix=plan.prefix)
    name, producer = yield from _begin(names, plan.fence, batch_id, task_attempt_id, timing)
    # T3. Write, flush, and leave the transaction open.
    try:
        written: tuple[WrittenRange, ...] = yield WriteRows(name, producer)
    except Exception:  # any error: the transaction must not stay open
        yield EndTransactions((End(name, producer),), commit=False)
        raise
    # T4. Report the transaction to the driver.
    return TaskMessage(plan.fence, owner, batch_id, TaskOutcome.WRITTEN, Handle(name, producer, written))


def _begin(
    names: Names, fence: ProducerIdAndEpoch, batch_id: int, task_attempt_id: int, timing: Timing
) -> Steps[tuple[str, ProducerIdAndEpoch]]:
    """A transactional id that no other attempt has used, and whose transaction no late request can abort."""
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
