"""The commands for a prefix: status, recover, run-again, release."""

from dataclasses import dataclass, replace

from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch
from spark_kafka_native._spark.exactly_once.batch import WritePlan
from spark_kafka_native._spark.exactly_once.decision import Decision, decision_records, released_records
from spark_kafka_native._spark.exactly_once.effects import Ended, EndTransactions, InitProducer, ListOpen, Steps
from spark_kafka_native._spark.exactly_once.ending import look_up, read_last, write
from spark_kafka_native._spark.exactly_once.errors import ErrorKind, ExactlyOnceError, command
from spark_kafka_native._spark.exactly_once.names import Names
from spark_kafka_native._spark.exactly_once.plan import plan
from spark_kafka_native._spark.exactly_once.timing import Timing


@dataclass(frozen=True, slots=True)
class Status:
    """The last decision of a prefix, and the transactional ids of tasks with open transactions."""

    last: Decision | None
    open_ids: tuple[str, ...]


def status(names: Names) -> Steps[Status]:
    """Read the state of a prefix. Changes nothing, and may be called while a query runs."""
    last = yield from read_last(names)
    listed: tuple[str, ...] = yield ListOpen(names.prefix)
    return Status(last, tuple(name for name in listed if names.parse(name) is not None))


def recover(names: Names, timing: Timing, *, accept_loss: bool = False) -> Steps[WritePlan]:
    """Complete a decided batch and abort other transactions, as the next start would. Fences a running query.

    ``accept_loss``: mark a batch as finished although the broker has aborted a part of it.
    """
    return (yield from plan(names, timing, accept_loss=accept_loss))


def run_again(names: Names, timing: Timing) -> Steps[None]:
    """Revoke a decision of which the broker has aborted a part, while no row of its batch is readable.

    The query's next start runs the batch again; a batch write is aborted. Fences a running query. Raises
    ExactlyOnceError (REFUSED): there is no such decision, or some of it is committed; open transactions of the batch
    may have been aborted. Up to transaction.version 1 the user must check that the rows are not readable
    (`ending.HandleStates`).
    """
    fence: ProducerIdAndEpoch = yield InitProducer(names.driver_id, timing.decision_timeout_ms)
    last = yield from read_last(names)
    if last is None or last.finished:
        raise _refused(names, "every decided batch is committed, so none can run again")
    states = yield from look_up(last.handles)
    if states.committed:
        raise _refused(names, f"transactions of batch {last.batch_id} are committed already: {len(states.committed)}")
    if not states.gone:
        raise _refused(names, f"batch {last.batch_id} can still be committed: {command('recover', names.prefix)}")
    if states.open:
        # A late request of an earlier driver may commit one before this abort, but none after it.
        results: tuple[Ended, ...] = yield EndTransactions(tuple(handle.end for handle in states.open), commit=False)
        errors = [result for result in results if isinstance(result, KafkaError)]
        if errors:
            raise _refused(names, f"not all of batch {last.batch_id} could be aborted ({errors[0]})")
    before = replace(last, batch_id=last.batch_id - 1, handles=(), finished=True, rows=None)
    yield from write(names, fence, decision_records(before))


def _refused(names: Names, why: str) -> ExactlyOnceError:
    return ExactlyOnceError(ErrorKind.REFUSED, f"prefix {names.prefix}: {why}")


def release(names: Names, timing: Timing) -> Steps[None]:
    """`recover`, and delete the owner and the batch id of the prefix, so that any query can use it.

    An invalid last decision is ignored, and its open transactions are aborted.
    """
    found = yield from plan(names, timing, accept_corrupt=True)
    yield from write(names, found.fence, released_records(found.fence))
