"""Committing a batch: the driver, in a process that knows no more than the tasks' messages."""

from collections.abc import Sequence

from spark_kafka_native.protocol.errors import KafkaError
from spark_kafka_native.records.batch import ProducerIdAndEpoch
from spark_kafka_native.spark.exactly_once.batch import Batch, Message, Timing, joined
from spark_kafka_native.spark.exactly_once.decision import Decision, Handle, decision_entries
from spark_kafka_native.spark.exactly_once.effects import Append, Describe, Described, ListOpen, Now, Steps
from spark_kafka_native.spark.exactly_once.ending import (
    abort_ids,
    commit_handles,
    end_driver,
    mark_finished,
    read_last,
    told,
)
from spark_kafka_native.spark.exactly_once.errors import ExactlyOnceError, Trouble
from spark_kafka_native.spark.exactly_once.names import Names


def commit(names: Names, messages: Sequence[Message], timing: Timing) -> Steps[None]:
    """Decide a batch and commit all of it.

    Raises ExactlyOnceError, or a KafkaError: nothing says then whether the batch is decided. `abort` finds out.
    """
    # C1. One batch, of one planning.
    batch = joined(names, messages)
    if batch.skipped:
        yield from _check_skipped(names, batch)
        return
    decision = Decision(batch.fence, batch.owner, batch.batch_id, batch.handles, finished=not batch.handles)
    # C2. What is to be decided, in an open transaction of the driver's. A newer driver has fenced it, or will abort it.
    try:
        yield Append(names.decisions_topic, names.driver_id, batch.fence, decision_entries(decision))
    except KafkaError as error:
        raise told(names, error) from error
    # C3. All of the tasks' transactions live, and for long enough. Looked at inside the transaction of C2: however long
    # this process rests behind this line, the broker lets it decide only while that one is open.
    yield from check_alive(names, batch, timing)
    # C4. The decision.
    driver = yield from end_driver(names, batch.fence)
    # C5. Everything is committed, or will be by whoever comes next.
    yield from commit_handles(names, decision)
    # C6. Who comes next need not do it again.
    if not decision.finished:
        yield from mark_finished(names, driver, decision)
    # C7. Attempts that lost, or were killed: nobody reads past them while they are open.
    yield from abort_strays_of(names, batch.fence, batch.handles, timing)


def abort_strays_of(names: Names, fence: ProducerIdAndEpoch, but: tuple[Handle, ...], timing: Timing) -> Steps[None]:
    """Abort tasks' transactions of a fence whose outcome is known, but for some. Trouble with it troubles nobody."""
    kept = {handle.transactional_id for handle in but}
    try:
        listed: tuple[str, ...] = yield ListOpen(f"{names.prefix}.{fence.producer_id}.{fence.epoch}")
        of_fence = [name for name in listed if (data_id := names.parse(name)) is not None and data_id.fence == fence]
        yield from abort_ids(tuple(name for name in of_fence if name not in kept), timing.transaction_timeout_ms)
    except KafkaError:
        return  # the next plan finds them, or the broker when their time is over


def _check_skipped(names: Names, batch: Batch) -> Steps[None]:
    last = yield from read_last(names)
    if last is None or (last.owner, last.batch_id) != (batch.owner, batch.batch_id) or not last.finished:
        raise ExactlyOnceError(
            Trouble.FENCED,
            f"prefix {names.prefix}: batch {batch.batch_id} of {batch.owner} was decided when its tasks were planned, "
            "and is not the last one now: another run has taken the prefix over",
        )


def check_alive(names: Names, batch: Batch, timing: Timing) -> Steps[None]:
    """Raise ExactlyOnceError (NOT_ALIVE) unless every task's transaction is open, and stays so for the margin."""
    if not batch.handles:
        return
    described: tuple[Described | None, ...] = yield Describe(tuple(handle.transactional_id for handle in batch.handles))
    now_ms: int = yield Now()
    for handle, found in zip(batch.handles, described, strict=True):
        why = _not_alive(handle, found, now_ms, timing)
        if why is not None:
            raise ExactlyOnceError(
                Trouble.NOT_ALIVE,
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
