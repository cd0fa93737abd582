"""Abort of a batch, on the driver, in a process of its own, after a commit that failed or while one still runs."""

from collections.abc import Sequence
from dataclasses import dataclass

from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch
from spark_kafka_native._spark.exactly_once.batch import Batch, TaskMessage, joined
from spark_kafka_native._spark.exactly_once.commit import abort_undecided
from spark_kafka_native._spark.exactly_once.effects import Describe, Described, EndTransactions, InitProducer, Steps
from spark_kafka_native._spark.exactly_once.ending import complete, mark_finished, read_last
from spark_kafka_native._spark.exactly_once.errors import is_fenced
from spark_kafka_native._spark.exactly_once.names import Names
from spark_kafka_native._spark.exactly_once.timing import Timing


@dataclass(frozen=True, slots=True)
class AbortResult:
    """``decided``: the batch was decided before, and has been committed instead."""

    decided: bool


def abort(names: Names, messages: Sequence[TaskMessage | None], timing: Timing) -> Steps[AbortResult]:
    """Abort a batch, or complete it if it is decided. None: a task without a message.

    Raises ExactlyOnceError, or a KafkaError: the outcome is unknown, and the next plan finds it.
    """
    present = [message for message in messages if message is not None]
    if not present:
        return AbortResult(decided=False)  # no commit was tried; the next plan aborts what is open
    batch = joined(names, present)
    # A1. Fence the driver's producer, so that neither a commit that still runs nor a late request of it decides.
    driver = yield from _fence_off(names, batch, timing)
    # A2. No decision of this fence can follow the one that is read here.
    last = yield from read_last(names)
    if last is not None and last.fence == batch.fence and (last.owner, last.batch_id) == (batch.owner, batch.batch_id):
        if not last.finished:
            yield from complete(names, last)
            if driver is not None:
                yield from mark_finished(names, driver, last)
        return AbortResult(decided=True)
    # A3. The batch is not decided and never will be.
    if batch.handles:
        yield EndTransactions(tuple(handle.end for handle in batch.handles), commit=False)
    yield from abort_undecided(names, batch.fence, (), timing)
    return AbortResult(decided=False)


def _fence_off(names: Names, batch: Batch, timing: Timing) -> Steps[ProducerIdAndEpoch | None]:
    """Fence the batch's producer -> the producer to continue with; None: a newer driver has fenced it.

    InitProducerId aborts the open transaction whatever epoch is claimed. So it is not sent if the epoch has risen: a
    newer driver may be writing its decision.
    """
    described: tuple[Described | None, ...] = yield Describe((names.driver_id,))
    found = described[0]
    fence = batch.fence
    if found is not None and found.producer.producer_id == fence.producer_id and found.producer.epoch > fence.epoch:
        return None
    try:
        driver: ProducerIdAndEpoch = yield InitProducer(names.driver_id, timing.decision_timeout_ms, claimed=fence)
    except KafkaError as error:
        if not is_fenced(error):
            raise
        return None
    return driver
