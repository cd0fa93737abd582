"""Giving a batch up: the driver, in yet another process, after a commit that failed, or while one still runs."""

from collections.abc import Sequence
from dataclasses import dataclass

from spark_kafka_native.protocol.errors import KafkaError
from spark_kafka_native.records.batch import ProducerIdAndEpoch
from spark_kafka_native.spark.exactly_once.batch import Batch, Message, Timing, joined
from spark_kafka_native.spark.exactly_once.commit import abort_strays_of
from spark_kafka_native.spark.exactly_once.effects import Describe, Described, EndTransactions, InitProducer, Steps
from spark_kafka_native.spark.exactly_once.ending import complete, mark_finished, read_last
from spark_kafka_native.spark.exactly_once.errors import is_fenced
from spark_kafka_native.spark.exactly_once.names import Names


@dataclass(frozen=True, slots=True)
class GivenUp:
    """What giving up came to."""

    decided: bool
    """The batch was decided before, and has been committed instead."""


def abort(names: Names, messages: Sequence[Message | None], timing: Timing) -> Steps[GivenUp]:
    """Abort a batch, unless it is decided: then complete it. None: a task that has left no message.

    Raises ExactlyOnceError, or a KafkaError: the outcome is not known, and everything stays as it is for the next plan.
    """
    present = [message for message in messages if message is not None]
    if not present:
        return GivenUp(decided=False)  # no commit was tried; the next plan aborts what is open
    batch = joined(names, present)
    # A1. The driver's producer is fenced, so that a commit that still runs, or a late request of it, decides nothing.
    driver = yield from _fence_off(names, batch, timing)
    # A2. So this is known for sure.
    last = yield from read_last(names)
    if last is not None and last.fence == batch.fence and (last.owner, last.batch_id) == (batch.owner, batch.batch_id):
        if not last.finished:
            yield from complete(names, last)
            if driver is not None:
                yield from mark_finished(names, driver, last)
        return GivenUp(decided=True)
    # A3. Not decided, for ever.
    if batch.handles:
        yield EndTransactions(tuple(handle.end for handle in batch.handles), commit=False)
    yield from abort_strays_of(names, batch.fence, (), timing)
    return GivenUp(decided=False)


def _fence_off(names: Names, batch: Batch, timing: Timing) -> Steps[ProducerIdAndEpoch | None]:
    """Make sure that the batch's fence decides nothing any more -> a producer to go on with; None: it is another's.

    InitProducerId aborts what is open whatever epoch is claimed. So it is not asked where the epoch has risen: that may
    be a newer driver, in the middle of its decision.
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
