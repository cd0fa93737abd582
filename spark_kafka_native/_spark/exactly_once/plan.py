"""Planning, on the driver, before the tasks of a batch. The batch id is not known here. A recovery is a plan alone."""

from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch
from spark_kafka_native._spark.exactly_once.batch import WritePlan, summary
from spark_kafka_native._spark.exactly_once.decision import Decision
from spark_kafka_native._spark.exactly_once.effects import InitProducer, ListOpen, Steps
from spark_kafka_native._spark.exactly_once.ending import abort_ids, commit_handles, complete, mark_finished, read_last
from spark_kafka_native._spark.exactly_once.errors import ErrorKind, ExactlyOnceError
from spark_kafka_native._spark.exactly_once.names import Names
from spark_kafka_native._spark.exactly_once.timing import Timing


def plan(names: Names, timing: Timing, *, accept_loss: bool = False, accept_corrupt: bool = False) -> Steps[WritePlan]:
    """Fence all earlier drivers, complete their last decision, abort their other transactions.

    ``accept_loss``: continue after a decided batch of which the broker has aborted a part. ``accept_corrupt``: ignore
    an invalid last decision.

    Raises ExactlyOnceError (LOST, UNKNOWN, CORRUPT, FENCED): no batch may be written now.
    """
    # P1. List open transactions before the fence: all of them belong to drivers that P2 fences.
    listed: tuple[str, ...] = yield ListOpen(names.prefix)
    # P2. Fence: no earlier driver can decide any more.
    fence: ProducerIdAndEpoch = yield InitProducer(names.driver_id, timing.decision_timeout_ms)
    # P3. No other decision can follow this one before this driver's own.
    last = yield from _last(names, accept_corrupt=accept_corrupt)
    # P4. Complete it. Marking it as finished uses the producer's sequence numbers. The process that commits begins at 0
    # again, and the broker would take its decision for a duplicate. So the fence gets a new epoch.
    if last is not None and not last.finished:
        yield from _complete(names, last, accept_loss=accept_loss)
        after = yield from mark_finished(names, fence, last)
        fence = yield InitProducer(names.driver_id, timing.decision_timeout_ms, claimed=after)
    # P5. Abort the transactions that no decision names.
    yield from abort_ids(_undecided(names, listed, last), timing.transaction_timeout_ms)
    return WritePlan(names.prefix, fence, summary(last))


def _last(names: Names, *, accept_corrupt: bool) -> Steps[Decision | None]:
    try:
        return (yield from read_last(names))
    except ExactlyOnceError as error:
        if error.kind is not ErrorKind.CORRUPT or not accept_corrupt:
            raise
        return None


def _complete(names: Names, last: Decision, *, accept_loss: bool) -> Steps[None]:
    try:
        yield from commit_handles(names, last) if accept_loss else complete(names, last)
    except ExactlyOnceError as error:
        if error.kind is not ErrorKind.LOST or not accept_loss:
            raise


def _undecided(names: Names, listed: tuple[str, ...], last: Decision | None) -> tuple[str, ...]:
    decided = set() if last is None else {handle.transactional_id for handle in last.handles}
    return tuple(name for name in listed if names.parse(name) is not None and name not in decided)
