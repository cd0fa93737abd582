"""Planning: the driver, in the process that plans a batch, before any of its tasks. A recovery is this alone.

Which batch it is, is not known here.
"""

from spark_kafka_native.records.batch import ProducerIdAndEpoch
from spark_kafka_native.spark.exactly_once.batch import Plan, Timing, summary
from spark_kafka_native.spark.exactly_once.decision import Decision
from spark_kafka_native.spark.exactly_once.effects import InitProducer, ListOpen, Steps
from spark_kafka_native.spark.exactly_once.ending import (
    abort_ids,
    commit_handles,
    complete,
    mark_finished,
    read_last,
)
from spark_kafka_native.spark.exactly_once.errors import ExactlyOnceError, Trouble
from spark_kafka_native.spark.exactly_once.names import Names


def plan(names: Names, timing: Timing, *, accept_loss: bool = False, accept_corrupt: bool = False) -> Steps[Plan]:
    """Fence all earlier drivers, complete what they have decided, abort what they have left.

    ``accept_loss``: go on over a decided batch of which the broker has aborted a part. ``accept_corrupt``: take a last
    decision that is not understood for none.

    Raises ExactlyOnceError (LOST, UNKNOWN, CORRUPT, FENCED): no batch may be written now.
    """
    # P1. Listed before the fence, all of these are of drivers that P2 fences. Nothing is done about them yet.
    listed: tuple[str, ...] = yield ListOpen(names.prefix)
    # P2. From here on no earlier driver decides.
    fence: ProducerIdAndEpoch = yield InitProducer(names.driver_id, timing.decision_timeout_ms)
    # P3. So this is the last decision there will be, until this driver's own.
    last = yield from _last(names, accept_corrupt=accept_corrupt)
    # P4. It is completed. What writes it down uses the producer's sequence numbers, which the process that will commit
    # does not know of: it would begin at 0 again, and its decision would be taken for a repetition. A fresh epoch.
    if last is not None and not last.finished:
        yield from _complete(names, last, accept_loss=accept_loss)
        after = yield from mark_finished(names, fence, last)
        fence = yield InitProducer(names.driver_id, timing.decision_timeout_ms, claimed=after)
    # P5. What no decision names is nobody's.
    yield from abort_ids(_strays(names, listed, last), timing.transaction_timeout_ms)
    return Plan(names.prefix, fence, summary(last))


def _last(names: Names, *, accept_corrupt: bool) -> Steps[Decision | None]:
    try:
        return (yield from read_last(names))
    except ExactlyOnceError as error:
        if error.trouble is not Trouble.CORRUPT or not accept_corrupt:
            raise
        return None


def _complete(names: Names, last: Decision, *, accept_loss: bool) -> Steps[None]:
    try:
        yield from commit_handles(names, last) if accept_loss else complete(names, last)
    except ExactlyOnceError as error:
        if error.trouble is not Trouble.LOST or not accept_loss:
            raise


def _strays(names: Names, listed: tuple[str, ...], last: Decision | None) -> tuple[str, ...]:
    decided = set() if last is None else {handle.transactional_id for handle in last.handles}
    return tuple(name for name in listed if names.parse(name) is not None and name not in decided)
