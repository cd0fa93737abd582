"""Protocols that are wrong on purpose, each with a scenario in which it does harm.

Some are what one would write first, and what the real one was chosen over. A checker that lets one of them pass sees
too little.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch
from spark_kafka_native._spark.exactly_once.abort import AbortResult, abort
from spark_kafka_native._spark.exactly_once.batch import TaskMessage, WritePlan, joined, summary
from spark_kafka_native._spark.exactly_once.commands import run_again
from spark_kafka_native._spark.exactly_once.commit import check_alive, commit
from spark_kafka_native._spark.exactly_once.decision import Decision, Handle, Owner, decision_records
from spark_kafka_native._spark.exactly_once.effects import (
    Append,
    Describe,
    Described,
    Effect,
    End,
    EndTransactions,
    InitProducer,
    ListOpen,
    ReadDecisions,
    Steps,
    WriteRows,
)
from spark_kafka_native._spark.exactly_once.ending import (
    abort_ids,
    commit_handles,
    end_driver,
    mark_finished,
    read_last,
)
from spark_kafka_native._spark.exactly_once.names import DataId, Names
from spark_kafka_native._spark.exactly_once.plan import plan
from spark_kafka_native._spark.exactly_once.task import task
from spark_kafka_native._spark.exactly_once.timing import Timing
from tests.support.exactly_once.model import Faults, Protocol, Scenario


@dataclass(frozen=True)
class Instead:
    """An effect is not carried out, and answered with this."""

    response: Any


Change = Callable[[Effect], Effect | Instead]


def changed(steps: Steps[Any], change: Change) -> Steps[Any]:
    """The same steps with other effects."""
    try:
        effect = next(steps)
        while True:
            other = change(effect)
            try:
                response = other.response if isinstance(other, Instead) else (yield other)
            except KafkaError as error:
                effect = steps.throw(error)
            else:
                effect = steps.send(response)
    except StopIteration as stop:
        return stop.value


# --- planning ---------------------------------------------------------------------------------------------------------


def plan_lists_after_the_fence(names: Names, timing: Timing) -> Steps[WritePlan]:
    """A planning that wakes up late finds the transactions of the run that came after it."""
    first: ProducerIdAndEpoch = yield InitProducer(names.driver_id, timing.decision_timeout_ms)
    last = yield from read_last(names)
    fence = first
    if last is not None and not last.finished:
        yield from commit_handles(names, last)
        after = yield from mark_finished(names, first, last)
        fence = yield InitProducer(names.driver_id, timing.decision_timeout_ms, claimed=after)
    decided = set() if last is None else {handle.transactional_id for handle in last.handles}
    listed: tuple[str, ...] = yield ListOpen(names.prefix)
    yield from abort_ids(tuple(name for name in listed if names.parse(name) and name not in decided), 0)
    return WritePlan(names.prefix, fence, summary(last))


def plan_aborts_first(names: Names, timing: Timing) -> Steps[WritePlan]:
    """What is decided and not committed yet is aborted with the rest."""
    listed: tuple[str, ...] = yield ListOpen(names.prefix)
    yield from abort_ids(tuple(name for name in listed if names.parse(name)), 0)
    return (yield from plan(names, timing))


def plan_completes_nothing(names: Names, timing: Timing) -> Steps[WritePlan]:
    """It takes the last decision for finished."""
    fence: ProducerIdAndEpoch = yield InitProducer(names.driver_id, timing.decision_timeout_ms)
    last = yield from read_last(names)
    if last is not None and not last.finished:
        after = yield from mark_finished(names, fence, last)
        fence = yield InitProducer(names.driver_id, timing.decision_timeout_ms, claimed=after)
    return WritePlan(names.prefix, fence, summary(last))


def plan_leaves_the_rest_to_others(names: Names, timing: Timing) -> Steps[WritePlan]:
    """It is never done, and the query never continues."""
    fence: ProducerIdAndEpoch = yield InitProducer(names.driver_id, timing.decision_timeout_ms)
    last = yield from read_last(names)
    return WritePlan(names.prefix, fence, summary(last))


def plan_hands_out_what_it_has_written_with(names: Names, timing: Timing) -> Steps[WritePlan]:
    """The decision has the sequence numbers of what planning wrote: the broker takes it for a repetition."""

    def change(effect: Effect) -> Effect | Instead:
        return Instead(effect.claimed) if isinstance(effect, InitProducer) and effect.claimed is not None else effect

    return changed(plan(names, timing), change)


def plan_reads_before_the_fence(names: Names, timing: Timing) -> Steps[WritePlan]:
    """A decision between the two is not seen."""
    last = yield from read_last(names)
    listed: tuple[str, ...] = yield ListOpen(names.prefix)
    fence: ProducerIdAndEpoch = yield InitProducer(names.driver_id, timing.decision_timeout_ms)
    if last is not None and not last.finished:
        yield from commit_handles(names, last)
    decided = set() if last is None else {handle.transactional_id for handle in last.handles}
    yield from abort_ids(tuple(name for name in listed if names.parse(name) and name not in decided), 0)
    return WritePlan(names.prefix, fence, summary(last))


# --- tasks ------------------------------------------------------------------------------------------------------------


def task_asks_again(*arguments: Any, has_rows: bool) -> Steps[TaskMessage]:
    """A late copy of InitProducerId aborts what came after it."""

    def change(effect: Effect) -> Effect | Instead:
        return replace(effect, once=False) if isinstance(effect, InitProducer) else effect

    return changed(task(*arguments, has_rows=has_rows), change)


def _task_of(name: str, rest: tuple[Any, ...], has_rows: bool) -> Steps[TaskMessage]:
    """A task with an id that is not its own."""

    def change(effect: Effect) -> Effect | Instead:
        return replace(effect, transactional_id=name) if isinstance(effect, InitProducer | WriteRows) else effect

    message: TaskMessage = yield from changed(task(*rest, has_rows=has_rows), change)
    if message.handle is None:
        return message
    return replace(message, handle=replace(message.handle, transactional_id=name))


def task_has_an_id_without_fence(*arguments: Any, has_rows: bool) -> Steps[TaskMessage]:
    """Ids come again with every run: who wakes up late takes one that is decided about."""
    found, _, batch_id, attempt, *_ = arguments
    data_id = DataId(fence=ProducerIdAndEpoch(0, 0), batch_id=batch_id, task_attempt_id=attempt, attempt=0)
    return _task_of(Names(prefix=found.prefix).data_id(data_id), arguments, has_rows)


def task_has_an_id_of_its_batch(*arguments: Any, has_rows: bool) -> Steps[TaskMessage]:
    """All attempts at a task have the same id."""
    found, _, batch_id, *_ = arguments
    data_id = DataId(fence=found.fence, batch_id=batch_id, task_attempt_id=0, attempt=0)
    return _task_of(Names(prefix=found.prefix).data_id(data_id), arguments, has_rows)


def task_never_skips(
    found: WritePlan, owner: Owner, batch_id: int, attempt: int, timing: Timing, *, has_rows: bool
) -> Steps[TaskMessage]:
    """What was decided before a crash is written again."""
    return task(replace(found, last=None), owner, batch_id, attempt, timing, has_rows=has_rows)


# --- commit -----------------------------------------------------------------------------------------------------------


def commit_with_a_producer_of_its_own(names: Names, messages: Sequence[TaskMessage], timing: Timing) -> Steps[None]:
    """The last driver decides, however old its messages are."""
    own: ProducerIdAndEpoch = yield InitProducer(names.driver_id, timing.decision_timeout_ms)
    yield from commit(names, [replace(message, fence=own) for message in messages], timing)


def commit_without_looking(names: Names, messages: Sequence[TaskMessage], timing: Timing) -> Steps[None]:
    """What it decides may be over."""
    yield from _commit(names, messages, timing, "write decide commit finish")


def commit_looks_first(names: Names, messages: Sequence[TaskMessage], timing: Timing) -> Steps[None]:
    """What was alive when it looked may be over when it decides."""
    yield from _commit(names, messages, timing, "look write decide commit finish")


def commit_decides_last(names: Names, messages: Sequence[TaskMessage], timing: Timing) -> Steps[None]:
    """Rows can be read that are not decided."""
    yield from _commit(names, messages, timing, "write look commit decide finish")


def commit_finishes_first(names: Names, messages: Sequence[TaskMessage], timing: Timing) -> Steps[None]:
    """After a crash the rest is never committed."""
    yield from _commit(names, messages, timing, "write look decide finish commit")


def _commit(names: Names, messages: Sequence[TaskMessage], timing: Timing, order: str) -> Steps[None]:
    batch = joined(names, messages)
    if batch.skipped:
        return
    decision = Decision(batch.fence, batch.owner, batch.batch_id, batch.handles)
    driver = batch.fence
    for step in order.split():
        match step:
            case "write":
                yield Append(names.decisions_topic, names.driver_id, driver, decision_records(decision))
            case "look":
                yield from check_alive(names, batch, timing)
            case "decide":
                driver = yield from end_driver(names, driver)
            case "commit":
                yield from commit_handles(names, decision)
            case "finish":
                driver = yield from mark_finished(names, driver, decision)


def commit_skips_without_comparing(names: Names, messages: Sequence[TaskMessage], timing: Timing) -> Steps[None]:
    """The rows that an older copy of the checkpoint has more than the decided batch are never written."""
    if not joined(names, messages).skipped:
        yield from commit(names, messages, timing)


def commit_takes_no_for_an_answer(names: Names, messages: Sequence[TaskMessage], timing: Timing) -> Steps[None]:
    """A fenced driver continues as if it had decided."""
    batch = joined(names, messages)
    if batch.skipped:
        return
    decision = Decision(batch.fence, batch.owner, batch.batch_id, batch.handles)
    try:
        yield Append(names.decisions_topic, names.driver_id, batch.fence, decision_records(decision))
        yield from check_alive(names, batch, timing)
    except KafkaError:
        pass
    yield EndTransactions((End(names.driver_id, batch.fence),), commit=True)
    yield from commit_handles(names, decision)


def commit_overlooks_losses(names: Names, messages: Sequence[TaskMessage], timing: Timing) -> Steps[None]:
    """What the broker has aborted counts as committed."""
    batch = joined(names, messages)
    if batch.skipped:
        return
    decision = Decision(batch.fence, batch.owner, batch.batch_id, batch.handles)
    yield Append(names.decisions_topic, names.driver_id, batch.fence, decision_records(decision))
    yield from check_alive(names, batch, timing)
    driver = yield from end_driver(names, batch.fence)
    yield EndTransactions(tuple(handle.end for handle in batch.handles), commit=True)
    yield from mark_finished(names, driver, decision)


# --- abort ------------------------------------------------------------------------------------------------------------


def abort_without_fencing(names: Names, messages: Sequence[TaskMessage | None], timing: Timing) -> Steps[AbortResult]:
    """A commit that still runs may decide afterwards."""

    def change(effect: Effect) -> Effect | Instead:
        if isinstance(effect, Describe) and effect.transactional_ids == (names.driver_id,):
            return Instead((None,))
        return Instead(None) if isinstance(effect, InitProducer) else effect

    return changed(abort(names, messages, timing), change)


def abort_ends_instead_of_fencing(
    names: Names, messages: Sequence[TaskMessage | None], timing: Timing
) -> Steps[AbortResult]:
    """Where nothing is open yet, there is nothing to abort, and the commit continues."""

    def change(effect: Effect) -> Effect | Instead:
        match effect:
            case Describe(transactional_ids) if transactional_ids == (names.driver_id,):
                return Instead((None,))
            case InitProducer(name, _, claimed) if claimed is not None:
                return EndTransactions((End(name, claimed),), commit=False)
        return effect

    return changed(abort(names, messages, timing), change)


def abort_without_reading(names: Names, messages: Sequence[TaskMessage | None], timing: Timing) -> Steps[AbortResult]:
    """A commit that raised may have decided."""
    batch = joined(names, [message for message in messages if message is not None])
    described: tuple[Described | None, ...] = yield Describe((names.driver_id,))
    if described[0] is not None and described[0].producer == batch.fence:
        with suppress(KafkaError):
            yield InitProducer(names.driver_id, timing.decision_timeout_ms, claimed=batch.fence)
    return (yield from _abort_all(batch.handles))


def abort_reads_hastily(names: Names, messages: Sequence[TaskMessage | None], timing: Timing) -> Steps[AbortResult]:
    """A decision whose marker is not written yet cannot be read."""

    def change(effect: Effect) -> Effect | Instead:
        return HastyRead(effect.topic, effect.at_most) if isinstance(effect, ReadDecisions) else effect

    return changed(abort(names, messages, timing), change)


class HastyRead(ReadDecisions):
    """Up to the last stable offset, wherever that is."""


def abort_takes_an_error_for_a_no(
    names: Names, messages: Sequence[TaskMessage | None], timing: Timing
) -> Steps[AbortResult]:
    """Who cannot find out aborts."""
    batch = joined(names, [message for message in messages if message is not None])
    try:
        return (yield from abort(names, messages, timing))
    except KafkaError:
        return (yield from _abort_all(batch.handles))


def _abort_all(handles: tuple[Handle, ...]) -> Steps[AbortResult]:
    if handles:
        yield EndTransactions(tuple(handle.end for handle in handles), commit=False)
    return AbortResult(decided=False)


# --- taking a batch back ----------------------------------------------------------------------------------------------


def run_again_without_looking(names: Names, timing: Timing) -> Steps[None]:
    """A part of the batch may be readable already."""

    def change(effect: Effect) -> Effect | Instead:
        if isinstance(effect, Describe):
            return Instead((None,) * len(effect.transactional_ids))
        return effect

    return changed(run_again(names, timing), change)


def run_again_leaves_the_rest_open(names: Names, timing: Timing) -> Steps[None]:
    """Who decided may wake up, and commit it."""

    def change(effect: Effect) -> Effect | Instead:
        if isinstance(effect, EndTransactions) and not effect.commit:
            return Instead(tuple(end.producer for end in effect.ends))
        return effect

    return changed(run_again(names, timing), change)


# --- all --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mutant:
    """A wrong protocol, and where that shows."""

    name: str
    protocol: Protocol
    scenario: Scenario


def _mutant(
    steps: Callable[..., Steps[Any]], *, tv: int = 2, partitions: int = 1, jobs: bool = False, **faults: int
) -> Mutant:
    end = steps.__name__.partition("_")[0]
    if end == "run":
        two = frozenset({(0, 0), (0, 1)})
        scenario = Scenario(Faults(**faults), tv=tv, partitions=2, rows=two, repairs=True)
        return Mutant(steps.__name__, Protocol(run_again=steps), scenario)
    scenario = Scenario(Faults(**faults), tv, partitions=partitions, jobs=jobs)
    return Mutant(steps.__name__, Protocol(**{end: steps}), scenario)


MUTANTS = (
    _mutant(plan_lists_after_the_fence, crashes=1, wakes=2),
    _mutant(plan_aborts_first, crashes=1),
    _mutant(plan_completes_nothing, crashes=1),
    _mutant(plan_leaves_the_rest_to_others, crashes=1),
    _mutant(plan_hands_out_what_it_has_written_with, tv=1, jobs=True, crashes=1),
    _mutant(plan_reads_before_the_fence, crashes=1, wakes=1),
    _mutant(task_asks_again, lost=1),
    _mutant(task_has_an_id_without_fence, crashes=1, wakes=2),
    _mutant(task_has_an_id_of_its_batch, attempts=1),
    _mutant(task_never_skips, crashes=1),
    _mutant(commit_with_a_producer_of_its_own, crashes=1, wakes=1),
    _mutant(commit_without_looking, ticks=3),
    _mutant(commit_looks_first, ticks=3),
    _mutant(commit_decides_last),
    _mutant(commit_finishes_first, crashes=1),
    _mutant(commit_skips_without_comparing, partitions=2, older=1),
    _mutant(commit_takes_no_for_an_answer, crashes=1, wakes=1),
    _mutant(commit_overlooks_losses, ticks=3),
    _mutant(abort_without_fencing, interrupts=1),
    _mutant(abort_ends_instead_of_fencing, tv=1, interrupts=1),
    _mutant(abort_without_reading, interrupts=1),
    _mutant(abort_reads_hastily, interrupts=1),
    _mutant(abort_takes_an_error_for_a_no, interrupts=1, lost=1),
    _mutant(run_again_without_looking, ticks=3),
)
LARGER_MUTANTS = (_mutant(run_again_leaves_the_rest_open, ticks=3, interrupts=1, wakes=1),)
"""These take some 200,000 states."""
