"""What commands do with a prefix: look at it, complete what was left, let it go."""

from dataclasses import dataclass, replace

from spark_kafka_native.protocol.errors import KafkaError
from spark_kafka_native.records.batch import ProducerIdAndEpoch
from spark_kafka_native.spark.exactly_once.batch import Plan, Timing
from spark_kafka_native.spark.exactly_once.decision import Decision, decision_entries, released_entries
from spark_kafka_native.spark.exactly_once.effects import Ended, EndTransactions, InitProducer, ListOpen, Steps
from spark_kafka_native.spark.exactly_once.ending import look_up, read_last, write
from spark_kafka_native.spark.exactly_once.errors import ExactlyOnceError, Trouble, command
from spark_kafka_native.spark.exactly_once.names import Names
from spark_kafka_native.spark.exactly_once.plan import plan


@dataclass(frozen=True, slots=True)
class Status:
    """What there is of a prefix."""

    last: Decision | None
    open_ids: tuple[str, ...]
    """Transactions of tasks that are open: of a batch that runs, or left by one that does not."""


def status(names: Names) -> Steps[Status]:
    """Look, and change nothing. Also while a query runs."""
    last = yield from read_last(names)
    listed: tuple[str, ...] = yield ListOpen(names.prefix)
    return Status(last, tuple(name for name in listed if names.parse(name) is not None))


def recover(names: Names, timing: Timing, *, accept_loss: bool = False) -> Steps[Plan]:
    """Complete a decided batch and abort the rest, as the next start would. Fences a query that runs with the prefix.

    ``accept_loss``: a batch of which the broker has aborted a part counts as finished.
    """
    return (yield from plan(names, timing, accept_loss=accept_loss))


def run_again(names: Names, timing: Timing) -> Steps[None]:
    """Take a decision back of which the broker has aborted a part, while nothing of its batch is readable.

    The query's next start runs the batch again; of a batch write nothing is left then. Fences a query that runs with
    the prefix. Raises ExactlyOnceError (REFUSED): there is nothing to take back, or it is too late for it; what is
    open of the batch may have been aborted then. Up to transaction.version 1 see for yourself that the rows are not
    readable (`ending.Fates`).
    """
    fence: ProducerIdAndEpoch = yield InitProducer(names.driver_id, timing.decision_timeout_ms)
    last = yield from read_last(names)
    if last is None or last.finished:
        raise _refused(names, "no decided batch waits to be committed")
    fates = yield from look_up(last.handles)
    if fates.committed:
        raise _refused(names, f"{len(fates.committed)} transactions of batch {last.batch_id} are committed already")
    if not fates.gone:
        raise _refused(names, f"batch {last.batch_id} can still be committed: {command('recover', names.prefix)}")
    if fates.open:
        # An earlier driver that is on its way may commit one before this; none can after it.
        results: tuple[Ended, ...] = yield EndTransactions(tuple(handle.end for handle in fates.open), commit=False)
        errors = [result for result in results if isinstance(result, KafkaError)]
        if errors:
            raise _refused(names, f"not all of batch {last.batch_id} could be aborted ({errors[0]})")
    before = replace(last, batch_id=last.batch_id - 1, handles=(), finished=True)
    yield from write(names, fence, decision_entries(before))


def _refused(names: Names, why: str) -> ExactlyOnceError:
    return ExactlyOnceError(Trouble.REFUSED, f"prefix {names.prefix}: {why}")


def release(names: Names, timing: Timing) -> Steps[None]:
    """`recover`, and forget whose the prefix was and at which batch: the next query begins with it anew.

    Goes on over a topic of decisions that is not understood, and aborts what is open then.
    """
    found = yield from plan(names, timing, accept_corrupt=True)
    yield from write(names, found.fence, released_entries(found.fence))
