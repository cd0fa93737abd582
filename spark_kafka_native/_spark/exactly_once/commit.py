"""Commit of a batch, on the driver, in a process that has only the tasks' messages."""

from collections.abc import Sequence

from spark_kafka_native._protocol.errors import KafkaError, counted
from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch
from spark_kafka_native._spark.exactly_once.batch import Batch, TaskMessage, joined, older_copy
from spark_kafka_native._spark.exactly_once.decision import Decision, Handle, decision_records
from spark_kafka_native._spark.exactly_once.effects import Append, Describe, Described, ListOpen, Now, Steps
from spark_kafka_native._spark.exactly_once.ending import (
    abort_ids,
    commit_handles,
    driver_error,
    end_driver,
    mark_finished,
    read_last,
)
from spark_kafka_native._spark.exactly_once.errors import ErrorKind, ExactlyOnceError
from spark_kafka_native._spark.exactly_once.names import Names
from spark_kafka_native._spark.exactly_once.timing import Timing


def commit(names: Names, messages: Sequence[TaskMessage], timing: Timing) -> Steps[None]:
    """Decide a batch and commit all of it.

    Raises ExactlyOnceError, or a KafkaError: it is unknown whether the batch is decided. `abort` finds that out.
    """
    # C1. All messages must belong to one batch of one plan.
    batch = joined(names, messages)
    if batch.skipped:
        yield from _check_skipped(names, batch)
        return
    decision = Decision(
        batch.fence, batch.owner, batch.batch_id, batch.handles, finished=not batch.handles, rows=batch.rows
    )
    # C2. Write the decision in an open transaction. A newer driver has fenced its producer, or will abort it.
    try:
        yield Append(names.decisions_topic, names.driver_id, batch.fence, decision_records(decision))
    except KafkaError as error:
        raise driver_error(names, error) from error
    # C3. All of the tasks' transactions must stay open for the margin. They are described inside the transaction of C2:
    # however long this process is suspended after this line, it can decide only while that transaction is open.
    yield from check_alive(names, batch, timing)
    # C4. Decide: commit the driver's transaction.
    driver = yield from end_driver(names, batch.fence)
    # C5. Commit the tasks' transactions. After a crash the next driver does it.
    yield from commit_handles(names, decision)
    # C6. Mark the decision as finished, so that the next driver does not commit again.
    if not decision.finished:
        yield from mark_finished(names, driver, decision)
    # C7. Abort the transactions of other attempts: consumers cannot read past them while they are open.
    yield from abort_undecided(names, batch.fence, batch.handles, timing)


def abort_undecided(names: Names, fence: ProducerIdAndEpoch, but: tuple[Handle, ...], timing: Timing) -> Steps[None]:
    """Abort the open task transactions of a fence, except ``but``. Kafka's errors are ignored."""
    kept = {handle.transactional_id for handle in but}
    try:
        listed: tuple[str, ...] = yield ListOpen(f"{names.prefix}.{fence.producer_id}.{fence.epoch}")
        of_fence = [name for name in listed if (data_id := names.parse(name)) is not None and data_id.fence == fence]
        yield from abort_ids(tuple(name for name in of_fence if name not in kept), timing.transaction_timeout_ms)
    except KafkaError:
        return  # the next plan aborts them, or the broker does after their timeout


def _check_skipped(names: Names, batch: Batch) -> Steps[None]:
    """Raise ExactlyOnceError unless the last decided batch is this one: FENCED, or REFUSED if its rows differ."""
    last = yield from read_last(names)
    if last is None or (last.owner, last.batch_id) != (batch.owner, batch.batch_id) or not last.finished:
        raise ExactlyOnceError(
            ErrorKind.FENCED,
            f"prefix {names.prefix}: batch {batch.batch_id} of {batch.owner} was decided when its tasks were planned, "
            "and is no longer the last one: another run uses the prefix now",
        )
    if last.rows is not None and last.rows != batch.rows:
        raise older_copy(
            names.prefix,
            f"batch {batch.batch_id} of {batch.owner} was written with {counted(last.rows, 'row')}, and now it "
            f"has {batch.rows}: the checkpoint is an older copy, or the source's rows have changed",
        )


def check_alive(names: Names, batch: Batch, timing: Timing) -> Steps[None]:
    """Raise ExactlyOnceError (NOT_ALIVE) unless every task's transaction is open and stays open for the margin."""
    if not batch.handles:
        return
    described: tuple[Described | None, ...] = yield Describe(tuple(handle.transactional_id for handle in batch.handles))
    now_ms: int = yield Now()
    for handle, found in zip(batch.handles, described, strict=True):
        why = _not_alive(handle, found, now_ms, timing)
        if why is not None:
            raise ExactlyOnceError(
                ErrorKind.NOT_ALIVE,
                f"prefix {names.prefix}: batch {batch.batch_id} of {batch.owner} is not decided: transaction "
                f"{handle.transactional_id} {why}. The batch has to run again; nothing of it can be read. Option "
                "'kafka.transaction.timeout.ms' bounds the time from a task's first row to the commit of its batch",
            )


def _not_alive(handle: Handle, found: Described | None, now_ms: int, timing: Timing) -> str | None:
    if found is None:
        return "is not known to the broker any more"
    if found.state != "Ongoing" or found.producer != handle.producer:
        return f"is over ({found.state}, producer {found.producer}, was {handle.producer})"
    left_ms = found.started_ms + found.timeout_ms - now_ms
    if left_ms < timing.margin_ms:
        return (
            f"has {left_ms} ms left of its timeout of {found.timeout_ms} ms, less than the margin of {timing.margin_ms}"
        )
    return None
