"""What several ends of the protocol have in common: read the last decision, commit what it names, write it down."""

from dataclasses import dataclass
from typing import Final

from spark_kafka_native.protocol.errors import KafkaError
from spark_kafka_native.records.batch import ProducerIdAndEpoch
from spark_kafka_native.spark.errors import listed
from spark_kafka_native.spark.exactly_once.decision import Decision, Handle, NotThere, decision_entries, last_decision
from spark_kafka_native.spark.exactly_once.effects import (
    AbortOpen,
    Append,
    Describe,
    Described,
    End,
    Ended,
    EndTransactions,
    Entry,
    Log,
    ReadDecisions,
    Steps,
)
from spark_kafka_native.spark.exactly_once.errors import ExactlyOnceError, Trouble, command, is_fenced, is_refused
from spark_kafka_native.spark.exactly_once.names import Names

TAIL: Final = 64
"""How many offsets are read at first. A decision has few records, and so has what comes after it."""

_COMMITTED: Final = frozenset({"PrepareCommit", "CompleteCommit"})


def read_last(names: Names) -> Steps[Decision | None]:
    """The last decision with a prefix, and nothing of one that is still open."""
    topic = names.decisions_topic
    log: Log = yield ReadDecisions(topic, TAIL)
    try:
        return last_decision(topic, log)
    except NotThere:
        log = yield ReadDecisions(topic, None)
        return last_decision(topic, log)


@dataclass(frozen=True, slots=True)
class Fates:
    """What has become of the transactions of a decision."""

    committed: tuple[Handle, ...]
    open: tuple[Handle, ...]
    gone: tuple[Handle, ...]
    """Aborted by the broker, or forgotten: nothing of them will ever be readable.

    Up to transaction.version 1 a copy of AddPartitionsToTxn that arrives after the commit opens the id once more, with
    nothing in it; if that one times out before it is ended, a committed transaction is among these.
    """


def look_up(handles: tuple[Handle, ...]) -> Steps[Fates]:
    """Ask the coordinators of handles what they know."""
    described: tuple[Described | None, ...] = yield Describe(tuple(handle.transactional_id for handle in handles))
    committed, open_yet, gone = [], [], []
    for handle, found in zip(handles, described, strict=True):
        if _is_committed(handle, found):
            committed.append(handle)
        elif found is not None and found.state == "Ongoing" and found.producer == handle.producer:
            open_yet.append(handle)
        else:
            gone.append(handle)
    return Fates(tuple(committed), tuple(open_yet), tuple(gone))


def _is_committed(handle: Handle, found: Described | None) -> bool:
    """Whether the one transaction of an id is committed: its epoch may have risen by that, its producer id has not."""
    if found is None or found.producer.producer_id != handle.producer.producer_id:
        return False
    return found.state in _COMMITTED


def complete(names: Names, decision: Decision) -> Steps[None]:
    """`commit_handles` some time after the decision.

    If the broker has aborted some and nobody has committed any, none is: the batch can still run again as a whole.
    """
    if decision.handles:
        fates = yield from look_up(decision.handles)
        if fates.gone and not fates.committed:
            raise _lost(names, decision, fates.gone, readable=False)
    yield from commit_handles(names, decision)


def commit_handles(names: Names, decision: Decision) -> Steps[None]:
    """Commit every transaction of a decision. Those that are committed already stay so.

    Raises ExactlyOnceError: LOST, the broker has aborted one; UNKNOWN, whether one is committed could not be found out.
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


def write(names: Names, driver: ProducerIdAndEpoch, entries: tuple[Entry, ...]) -> Steps[ProducerIdAndEpoch]:
    """Records in the topic of decisions, in a transaction of the driver's -> who the driver's producer is then.

    Raises ExactlyOnceError (FENCED). Any other error leaves open whether they are there.
    """
    try:
        yield Append(names.decisions_topic, names.driver_id, driver, entries)
    except KafkaError as error:
        raise told(names, error) from error
    return (yield from end_driver(names, driver))


def end_driver(names: Names, driver: ProducerIdAndEpoch) -> Steps[ProducerIdAndEpoch]:
    """Commit what the driver has written. Raises as `write`."""
    results: tuple[Ended, ...] = yield EndTransactions((End(names.driver_id, driver),), commit=True)
    if isinstance(results[0], KafkaError):
        raise told(names, results[0]) from results[0]
    return results[0]


def mark_finished(names: Names, driver: ProducerIdAndEpoch, decision: Decision) -> Steps[ProducerIdAndEpoch]:
    """Write down that all of a decision is committed -> who the driver's producer is then. Raises as `write`."""
    return (yield from write(names, driver, decision_entries(decision.as_finished())))


def abort_ids(transactional_ids: tuple[str, ...], timeout_ms: int) -> Steps[None]:
    """Abort what is open under ids. What cannot be aborted now stays until its timeout, or until the next plan."""
    if transactional_ids:
        yield AbortOpen(transactional_ids, timeout_ms)


def told(names: Names, error: KafkaError) -> KafkaError | ExactlyOnceError:
    """An error about the driver's id, in words of ours if it says that the driver is fenced or out of time."""
    if not is_refused(error):
        return error
    why = "another run of the query has taken it over" if is_fenced(error) else "its transaction is over"
    return ExactlyOnceError(
        Trouble.FENCED,
        f"prefix {names.prefix}: {why}, or this one took longer over its decision than it may. This run decides "
        f"nothing any more; the next start finds out what was decided, and nothing is written twice ({error})",
    )


def _lost(names: Names, decision: Decision, lost: tuple[Handle, ...], *, readable: bool) -> ExactlyOnceError:
    accept = command("recover --accept-loss", names.prefix)
    rest = (
        f"What else the batch wrote is, or will be. Once these rows are made up for: {accept}."
        if readable
        else f"Nor is anything else of the batch, so it can run again as a whole: {command('run-again', names.prefix)}."
    )
    text = listed(str(span) for handle in lost for span in handle.written)
    return ExactlyOnceError(
        Trouble.LOST,
        f"prefix {names.prefix}: batch {decision.batch_id} of {decision.owner} is decided, but the broker has aborted "
        f"{len(lost)} of its {len(decision.handles)} transactions, which were open for longer than their timeout or "
        f"are forgotten: {text} are not readable under read_committed. {rest} Option 'kafka.transaction.timeout.ms' "
        "says how long a restart may take",
    )


def _not_committed(names: Names, decision: Decision, error: KafkaError) -> ExactlyOnceError:
    return ExactlyOnceError(
        Trouble.UNKNOWN,
        f"prefix {names.prefix}: batch {decision.batch_id} of {decision.owner} is decided, and not all of it could be "
        f"committed yet. The next start completes it, or {command('recover', names.prefix)}, if it comes before the "
        f"transactions time out ({error})",
    )
