"""Steps that plan, commit and abort share: read the last decision, commit its transactions, mark it as finished."""

from dataclasses import dataclass
from typing import Final

from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch
from spark_kafka_native._protocol.topic import listed
from spark_kafka_native._spark.exactly_once.decision import (
    Decision,
    Handle,
    TailTooShort,
    decision_records,
    last_decision,
)
from spark_kafka_native._spark.exactly_once.effects import (
    AbortOpen,
    Append,
    DecisionLog,
    DecisionRecord,
    Describe,
    Described,
    End,
    Ended,
    EndTransactions,
    ReadDecisions,
    Steps,
)
from spark_kafka_native._spark.exactly_once.errors import (
    ErrorKind,
    ExactlyOnceError,
    before_another_run,
    command,
    is_fenced,
    is_refused,
)
from spark_kafka_native._spark.exactly_once.names import Names

TAIL: Final = 64
"""Number of last offsets that are read first. A decision has few records, and few records follow it."""

_COMMITTED: Final = frozenset({"PrepareCommit", "CompleteCommit"})


def read_last(names: Names) -> Steps[Decision | None]:
    """The last decision of a prefix. A decision whose transaction is open does not count."""
    topic = names.decisions_topic
    log: DecisionLog = yield ReadDecisions(topic, TAIL)
    try:
        return last_decision(topic, log)
    except TailTooShort:
        log = yield ReadDecisions(topic, None)
        return last_decision(topic, log)


@dataclass(frozen=True, slots=True)
class HandleStates:
    """The states of a decision's transactions."""

    committed: tuple[Handle, ...]
    open: tuple[Handle, ...]
    gone: tuple[Handle, ...]
    """Aborted by the broker, or expired: their records will never be readable.

    Up to transaction.version 1 a duplicate of AddPartitionsToTxn that arrives after the commit opens an empty
    transaction. If that one times out before it is ended, a committed transaction is among these.
    """


def look_up(handles: tuple[Handle, ...]) -> Steps[HandleStates]:
    """Describe the transactions at their coordinators."""
    described: tuple[Described | None, ...] = yield Describe(tuple(handle.transactional_id for handle in handles))
    committed, open_yet, gone = [], [], []
    for handle, found in zip(handles, described, strict=True):
        if _is_committed(handle, found):
            committed.append(handle)
        elif found is not None and found.state == "Ongoing" and found.producer == handle.producer:
            open_yet.append(handle)
        else:
            gone.append(handle)
    return HandleStates(tuple(committed), tuple(open_yet), tuple(gone))


def _is_committed(handle: Handle, found: Described | None) -> bool:
    """Whether an id's only transaction is committed. The commit may have raised the epoch, not the producer id."""
    if found is None or found.producer.producer_id != handle.producer.producer_id:
        return False
    return found.state in _COMMITTED


def complete(names: Names, decision: Decision) -> Steps[None]:
    """`commit_handles` some time after the decision.

    If the broker has aborted some transactions and none is committed, none is committed now: the whole batch can run
    again.
    """
    if decision.handles:
        states = yield from look_up(decision.handles)
        if states.gone and not states.committed:
            raise _lost(names, decision, states.gone, readable=False)
    yield from commit_handles(names, decision)


def commit_handles(names: Names, decision: Decision) -> Steps[None]:
    """Commit every transaction of a decision that is not committed yet.

    Raises ExactlyOnceError: LOST, the broker has aborted one; UNKNOWN, it is unknown whether one is committed.
    """
    if not decision.handles:
        return
    results: tuple[Ended, ...] = yield EndTransactions(tuple(handle.end for handle in decision.handles), commit=True)
    failed = [
        (handle, error)
        for handle, error in zip(decision.handles, results, strict=True)
        if isinstance(error, KafkaError)
    ]
    if not failed:
        return
    described: tuple[Described | None, ...] = yield Describe(tuple(handle.transactional_id for handle, _ in failed))
    open_yet = [
        (handle, error)
        for (handle, error), found in zip(failed, described, strict=True)
        if not _is_committed(handle, found)
    ]
    lost = tuple(handle for handle, error in open_yet if is_refused(error))
    if lost:
        raise _lost(names, decision, lost, readable=len(lost) < len(decision.handles))
    if open_yet:
        raise _not_committed(names, decision, open_yet[0][1])


def write(names: Names, driver: ProducerIdAndEpoch, records: tuple[DecisionRecord, ...]) -> Steps[ProducerIdAndEpoch]:
    """Write records to the topic of decisions in one transaction -> the driver's producer after it.

    Raises ExactlyOnceError (FENCED). After any other error it is unknown whether the records were committed.
    """
    try:
        yield Append(names.decisions_topic, names.driver_id, driver, records)
    except KafkaError as error:
        raise driver_error(names, error) from error
    return (yield from end_driver(names, driver))


def end_driver(names: Names, driver: ProducerIdAndEpoch) -> Steps[ProducerIdAndEpoch]:
    """Commit the driver's transaction. Raises as `write`."""
    results: tuple[Ended, ...] = yield EndTransactions((End(names.driver_id, driver),), commit=True)
    if isinstance(results[0], KafkaError):
        raise driver_error(names, results[0]) from results[0]
    return results[0]


def mark_finished(names: Names, driver: ProducerIdAndEpoch, decision: Decision) -> Steps[ProducerIdAndEpoch]:
    """Write that all of a decision is committed -> the driver's producer after it. Raises as `write`."""
    return (yield from write(names, driver, decision_records(decision.as_finished())))


def abort_ids(transactional_ids: tuple[str, ...], timeout_ms: int) -> Steps[None]:
    """Abort open transactions of ids. Those that cannot be aborted now stay open until the timeout or the next plan."""
    if transactional_ids:
        yield AbortOpen(transactional_ids, timeout_ms)


def driver_error(names: Names, error: KafkaError) -> KafkaError | ExactlyOnceError:
    """ExactlyOnceError (FENCED) if the driver is fenced or its transaction has ended, else ``error``."""
    if not is_refused(error):
        return error
    why = "another run of the query has fenced this one" if is_fenced(error) else "its transaction has ended"
    return ExactlyOnceError(
        ErrorKind.FENCED,
        f"prefix {names.prefix}: {why}, or the decision took longer than its transaction timeout. This run ends "
        f"without a decision ({error}). A query reads the last decision at its next start, and no record is written "
        f"twice. {before_another_run(names.prefix)}",
    )


def _lost(names: Names, decision: Decision, lost: tuple[Handle, ...], *, readable: bool) -> ExactlyOnceError:
    accept = command("recover --accept-loss", names.prefix)
    rest = (
        f"The other rows of the batch are, or will be. After restoring the lost rows, run {accept}."
        if readable
        else f"No other row of the batch is, so the whole batch can run again: {command('run-again', names.prefix)}."
    )
    text = listed(str(span) for handle in lost for span in handle.written)
    return ExactlyOnceError(
        ErrorKind.LOST,
        f"prefix {names.prefix}: batch {decision.batch_id} of {decision.owner} is decided, but the broker has aborted "
        f"transactions of it ({len(lost)} of {len(decision.handles)}), which were open for longer than their timeout "
        f"or have expired: {text} are not readable under read_committed. {rest} Option 'kafka.transaction.timeout.ms' "
        "bounds the time of a restart",
    )


def _not_committed(names: Names, decision: Decision, error: KafkaError) -> ExactlyOnceError:
    return ExactlyOnceError(
        ErrorKind.UNKNOWN,
        f"prefix {names.prefix}: batch {decision.batch_id} of {decision.owner} is decided, and not all of it could be "
        f"committed yet. The next start completes it, or {command('recover', names.prefix)}, if that happens before "
        f"the transactions time out ({error})",
    )
