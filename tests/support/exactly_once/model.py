"""A model checker for the exactly-once protocol: the code itself, in every order that things can happen in.

Spark is modelled as what it does with the sink: a run plans a batch, has tasks write it, commits, aborts if the commit
raised, and continues; after a crash or a failure another run begins with the batch that was not committed. A run that
crashed, and a task that was replaced, may still continue at any time, or may not: so both cases are covered.

A run from an older copy of the checkpoint does not know the last committed batch. It plans that batch again, with the
rows that have arrived since: every task has a row.

Faults, each with a budget: ``crashes`` of the driver; further ``attempts`` at tasks; ``lost`` answers, the request
carried out, or not, or later, and asked again or given up; ``interrupts``, an abort beside the commit; ``ticks``,
seconds in which transactions time out; ``older`` copies of the checkpoint.

In every state the promises hold (`promises`); and however things stand, without another fault all
batches come to their end.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._spark.exactly_once.abort import abort
from spark_kafka_native._spark.exactly_once.batch import TaskMessage
from spark_kafka_native._spark.exactly_once.commands import run_again
from spark_kafka_native._spark.exactly_once.commit import commit
from spark_kafka_native._spark.exactly_once.decision import Owner, OwnerKind
from spark_kafka_native._spark.exactly_once.effects import InitProducer, Now, Steps
from spark_kafka_native._spark.exactly_once.errors import ErrorKind, ExactlyOnceError
from spark_kafka_native._spark.exactly_once.names import Names
from spark_kafka_native._spark.exactly_once.plan import plan
from spark_kafka_native._spark.exactly_once.task import task
from spark_kafka_native._spark.exactly_once.timing import Timing
from tests.support.exactly_once.model_kafka import CHANGING, WAIT, Cluster, Fate, Kafka, Row
from tests.support.exactly_once.model_process import Point, Processes, Responses, Spec, Token, Tokens
from tests.support.exactly_once.promises import Promises, Violation

NAMES = Names(prefix="p")
QUERY = Owner(OwnerKind.QUERY, "q")
MAX_RUNS = 15
"""More than any budget of faults explains."""
TIMING = Timing(transaction_timeout_ms=3000, decision_timeout_ms=1000, margin_ms=2000)


@dataclass(frozen=True)
class Protocol:
    """The ends of the protocol; a mutant has one of its own."""

    plan: Callable[..., Steps[Any]] = plan
    task: Callable[..., Steps[Any]] = task
    commit: Callable[..., Steps[Any]] = commit
    abort: Callable[..., Steps[Any]] = abort
    run_again: Callable[..., Steps[Any]] = run_again

    def start(self, spec: Spec) -> Steps[Any]:
        """A fresh generator."""
        if spec.kind == "task":
            return self._task(*spec.arguments)
        ends = {"plan": self.plan, "commit": self.commit, "abort": self.abort, "run_again": self.run_again}
        return ends[spec.kind](*spec.arguments)

    def _task(self, *arguments: Any) -> Steps[TaskMessage]:
        """A task of one row or none, with their number in its message."""
        *others, has_rows = arguments
        message: TaskMessage = yield from self.task(*others, has_rows=has_rows)
        return replace(message, rows=int(has_rows))


class Faults(NamedTuple):
    """How many of each there may be."""

    crashes: int = 0
    wakes: int | None = 0
    """How often a zombie wakes up: it goes any number of steps then, until another one does something. None: any."""
    attempts: int = 0
    lost: int = 0
    interrupts: int = 0
    ticks: int = 0
    older: int = 0


@dataclass(frozen=True)
class Scenario:
    """What is explored."""

    faults: Faults
    tv: int = 2
    batches: int = 1
    rows: frozenset[Row] = frozenset({(0, 0), (1, 0)})
    """Which tasks have rows."""
    partitions: int = 1
    jobs: bool = False
    """Every run is a batch write of its own, with one row in each partition; nothing is written by two of them."""
    repairs: bool = False
    """A batch that is reported as lost is revoked if that is possible, which aborts what is decided."""
    lost_by: frozenset[str] = frozenset({"plan", "task", "commit", "abort"})
    """Whose answers may be lost."""


class Run(NamedTuple):
    """A driver, at one batch. Messages are the points at which tasks have ended."""

    number: int
    batch: int
    phase: str
    plan: Point | None = None
    messages: tuple[Point | None, ...] = ()
    attempts: int = 0
    older: bool = False
    """Whether the batch is from an older copy of the checkpoint."""


class Process(NamedTuple):
    """A process of a run, with the responses that it has to what it asks for."""

    run: int
    point: Point
    responses: Responses = ()


class State(NamedTuple):
    """One state of everything."""

    kafka: Token
    runs: tuple[Run, ...]
    """The last one is the present one."""
    processes: tuple[Process, ...]
    late: tuple[Token, ...]
    """Requests that were sent, and may still be carried out."""
    committed: int
    """Batches that Spark knows to be committed."""
    awake: int
    """The crashed run whose processes went the last step; 0: none's."""
    left: Faults


Label = tuple[Any, ...]
Step = tuple[Label, State, bool]
"""A step, the states after it, and whether it is a fault, which no end may depend on."""


class World:
    """Steps from state to state."""

    def __init__(self, scenario: Scenario, protocol: Protocol) -> None:
        self._scenario = scenario
        self._tokens = Tokens()
        self._processes = Processes(protocol.start, scenario.tv, self._tokens)
        self._cluster = Cluster(NAMES.driver_id, scenario.tv)
        self._promises = Promises(NAMES.driver_id, TIMING, repairs=scenario.repairs)
        self._carried_out: dict[tuple[Token, Token], tuple[Token, Token]] = {}
        self._settles: dict[Token, Token] = {}
        self._checked: set[Token] = set()
        self._wait = self._tokens.of(WAIT)
        self._timed_out = self._tokens.of(ErrorCode.REQUEST_TIMED_OUT)

    def first(self) -> State:
        """Before anything has happened."""
        state = State(self._tokens.of(Kafka()), (), (), (), 0, 0, self._scenario.faults)
        return self._new_run(state)

    def is_over(self, state: State) -> bool:
        """Whether the present run has come to its end: all batches are committed, or it has stopped for good."""
        return state.runs[-1].phase in {"done", "lost"}

    def steps(self, state: State) -> Iterator[Step]:
        """All that can happen. Raises Violation."""
        asleep = state._replace(awake=0) if state.awake else state
        present = state.runs[-1].number
        for process in dict.fromkeys(state.processes):
            if process.run == present:
                yield from self._process_steps(asleep, process, zombie=False)
            elif process.run == state.awake or state.left.wakes is None:
                yield from self._process_steps(state, process, zombie=True)
            elif state.left.wakes:
                left = state.left._replace(wakes=state.left.wakes - 1)
                yield from self._process_steps(state._replace(awake=process.run, left=left), process, zombie=True)
        state = asleep
        settled = self._settled(state.kafka)
        if settled is not state.kafka:
            yield ("broker", "markers"), self._with_kafka(state, settled), False
        for request in dict.fromkeys(state.late):
            kafka, response = self._carry_out(state.kafka, request)
            late = list(state.late)
            late.remove(request)
            yield (
                ("late", request.value, response.value),
                self._with_kafka(state, kafka)._replace(late=tuple(late)),
                True,
            )
        yield from self._spark_steps(state)

    def _spark_steps(self, state: State) -> Iterator[Step]:
        run, left = state.runs[-1], state.left
        if run.phase == "failed":
            yield ("spark", "starts again"), self._new_run(state), False
        elif left.crashes and not self.is_over(state):
            crashed = state._replace(left=left._replace(crashes=left.crashes - 1))
            yield ("spark", "crash", run.phase), self._new_run(crashed), True
        if left.older and state.committed and run.phase != "lost":
            stopped = state._replace(left=left._replace(older=left.older - 1))
            yield ("spark", "starts from an older checkpoint", run.phase), self._new_run(stopped, older=True), True
        if left.attempts and run.phase == "tasks":
            for partition, message in enumerate(run.messages):
                if message is None:
                    again = state._replace(left=left._replace(attempts=left.attempts - 1))
                    yield ("spark", "another attempt", partition), self._attempt(again, run, partition), True
        if left.interrupts and run.phase == "commit":
            interrupted = state._replace(left=left._replace(interrupts=left.interrupts - 1))
            yield ("spark", "interrupted"), self._abort(interrupted, run), True
        if left.ticks:
            kafka = self._tokens.of(self._cluster.tick(state.kafka.value))
            ticked = self._with_kafka(state, kafka)._replace(left=left._replace(ticks=left.ticks - 1))
            yield ("time", "a second"), ticked, True

    # --- processes ----------------------------------------------------------------------------------------------------

    def _process_steps(self, state: State, process: Process, *, zombie: bool) -> Iterator[Step]:
        point = process.point
        request = point.requests[len(process.responses)]
        if process.responses and request.value.api == "read":
            request = self._tokens.of(request.value._replace(high_watermark=process.responses[0].value))
        kafka, response = self._carry_out(state.kafka, request)
        who = (process.run, point.spec.kind, point.spec.row, request.value)
        after = self._with_kafka(state, kafka)
        waits = response is self._wait
        if not waits:
            yield (*who, response.value), self._answered(after, process, response), zombie
        elif kafka is not state.kafka:  # it has aborted what was open, and asks again
            yield (*who, "aborts first"), self._answered(after, process, response), zombie
        elif request.value.api == "read" and not process.responses:
            until = self._tokens.of(len(kafka.value.log))
            yield (*who, "waits for", until.value), self._answered(state, process, until), zombie
        elif request.value.api == "read":
            yield (*who, "waits for too long"), self._answered(after, process, self._timed_out), zombie
        if not state.left.lost or point.spec.kind not in self._scenario.lost_by:
            return
        fewer = state.left._replace(lost=state.left.lost - 1)
        state, after = state._replace(left=fewer), after._replace(left=fewer)
        if request.value.api not in CHANGING or waits:
            yield (*who, "given up"), self._answered(after, process, self._timed_out), True
            return
        postponed = state._replace(late=tuple(sorted((*state.late, request), key=id)))
        yield (*who, "done, given up"), self._answered(after, process, self._timed_out), True
        yield (*who, "late, given up"), self._answered(postponed, process, self._timed_out), True
        if not (isinstance(point.effect, InitProducer) and point.effect.once):
            yield (*who, "done, asked again"), after, True
            yield (*who, "late, asked again"), postponed, True

    def _settled(self, kafka: Token) -> Token:
        known = self._settles.get(kafka)
        if known is None:
            settled = self._cluster.settle(kafka.value)
            known = self._settles[kafka] = kafka if settled is None else self._tokens.of(settled)
        return known

    def _carry_out(self, kafka: Token, request: Token) -> tuple[Token, Token]:
        known = self._carried_out.get((kafka, request))
        if known is None:
            changed, response = self._cluster.carry_out(kafka.value, request.value)
            known = self._carried_out[kafka, request] = self._tokens.of(changed), self._tokens.of(response)
            self._promises.check_decision(kafka.value, known[0].value)
        return known

    def _answered(self, state: State, process: Process, response: Token) -> State:
        """A process continues with a response."""
        others = list(state.processes)
        others.remove(process)
        responses = (*process.responses, response)
        point = process.point
        if not point.is_answered(responses):
            return self._with_processes(state, [*others, process._replace(responses=responses)])
        point = self._processes.resume(point, responses)
        if isinstance(point.effect, Now) and not self._scenario.faults.ticks:
            point = self._processes.resume(point, (self._tokens.of(0),))
        if point.effect is not None:
            return self._with_processes(state, [*others, Process(process.run, point)])
        state = self._with_processes(state, others)
        run = self._run(state, process.run)
        return state if run is None else self._ended(state, run, point)

    # --- Spark --------------------------------------------------------------------------------------------------------

    def _ended(self, state: State, run: Run, point: Point) -> State:
        """What Spark does when a process of a run that it knows of has ended."""
        present = run is state.runs[-1]
        kind = point.spec.kind
        if kind == "plan" and run.phase == "plan":
            return self._planned(state, run, point, present=present)
        if kind == "task" and run.phase == "tasks":
            return self._task_ended(state, run, point, present=present)
        if kind == "commit" and run.phase == "commit":
            if point.error is not None:
                return self._abort(state, run)
            return self._committed(state, run, present=present)
        if kind == "run_again" and run.phase == "run_again":
            return self._repaired(state, run, point, present=present)
        if kind == "abort" and run.phase == "abort":
            return self._failed(state, run, present=present)
        return state

    def _planned(self, state: State, run: Run, point: Point, *, present: bool) -> State:
        if point.error is None:
            messages = (None,) * self._scenario.partitions
            state = self._with_run(state, run._replace(phase="tasks", plan=point, messages=messages))
            for partition in range(self._scenario.partitions):
                run_now = self._run(state, run.number)
                if run_now is not None and run_now.phase == "tasks":  # no task was refused
                    state = self._attempt(state, run_now, partition)
            return state
        if isinstance(point.error, ExactlyOnceError) and point.error.kind is ErrorKind.LOST:
            # A late request may have opened a committed id again, up to transaction.version 1: see ending.HandleStates.
            reopened = self._scenario.tv == 1 and state.left.lost < self._scenario.faults.lost
            if not self._promises.is_lost(state.kafka.value) and not reopened:
                raise Violation("reported as lost, and is not")
            return self._lost(state, run) if present else self._without_run(state, run)
        return self._failed(state, run, present=present)

    def _lost(self, state: State, run: Run) -> State:
        if not self._scenario.repairs:
            return self._with_run(state, run._replace(phase="lost"))
        run = run._replace(phase="run_again")
        return self._spawned(self._with_run(state, run), run, Spec("run_again", (NAMES, TIMING)))

    def _repaired(self, state: State, run: Run, point: Point, *, present: bool) -> State:
        if point.error is None:
            return self._failed(state, run, present=present)
        if not present:
            return self._without_run(state, run)
        return self._with_run(state, run._replace(phase="lost"))

    def _attempt(self, state: State, run: Run, partition: int) -> State:
        assert run.plan is not None
        row = (run.batch, partition)
        arguments = (run.plan.value, *self._batch(run), run.attempts, TIMING, row in self._rows(run))
        state = self._with_run(state, run._replace(attempts=run.attempts + 1))
        return self._spawned(state, run, Spec("task", arguments, row))

    def _task_ended(self, state: State, run: Run, point: Point, *, present: bool) -> State:
        assert point.spec.row is not None
        partition = point.spec.row[1]
        if run.messages[partition] is not None:
            return state
        if point.error is None:
            messages = (*run.messages[:partition], point, *run.messages[partition + 1 :])
            run = run._replace(messages=messages)
            if None not in messages:
                run = run._replace(phase="commit")
                return self._spawned(self._with_run(state, run), run, Spec("commit", self._messages(run)))
            return self._with_run(state, run)
        if isinstance(point.error, ExactlyOnceError):
            if present and not run.older:
                raise Violation(f"refused: {point.error}")
            return self._failed(state, run, present=present)  # the others are further
        same = (process.run == run.number and process.point.spec.row == point.spec.row for process in state.processes)
        return state if any(same) else self._attempt(state, run, partition)

    def _messages(self, run: Run) -> tuple[Any, ...]:
        return NAMES, tuple(point.value for point in run.messages if point is not None), TIMING

    def _committed(self, state: State, run: Run, *, present: bool) -> State:
        rows = {known.row for _, known in state.kafka.value.ids if known.fate == Fate.COMMITTED}
        missing = self._rows(run) - rows
        if missing:
            raise Violation(f"committed by Spark, and not readable: {sorted(missing)}")
        if not present:
            return self._without_run(state, run)
        state = state._replace(committed=run.batch + 1)
        if self._scenario.jobs or state.committed == self._scenario.batches:
            return self._with_run(state, run._replace(phase="done", plan=None, messages=()))
        run = Run(run.number, state.committed, "plan")
        return self._spawned(self._with_run(state, run), run, Spec("plan", (NAMES, TIMING)))

    def _abort(self, state: State, run: Run) -> State:
        run = run._replace(phase="abort")
        return self._spawned(self._with_run(state, run), run, Spec("abort", self._messages(run)))

    def _failed(self, state: State, run: Run, *, present: bool) -> State:
        if not present:
            return self._without_run(state, run)
        return self._with_run(state, run._replace(phase="failed", plan=None, messages=()))

    def _batch(self, run: Run) -> tuple[Owner, int]:
        return (Owner(OwnerKind.JOB, str(run.number)), 0) if self._scenario.jobs else (QUERY, run.batch)

    def _rows(self, run: Run) -> set[Row]:
        if self._scenario.jobs or run.older:
            return {(run.batch, partition) for partition in range(self._scenario.partitions)}
        return {row for row in self._scenario.rows if row[0] == run.batch}

    def _new_run(self, state: State, *, older: bool = False) -> State:
        number = state.runs[-1].number + 1 if state.runs else 1
        if number > MAX_RUNS:
            raise Violation("it starts again and again")
        run = Run(number, number if self._scenario.jobs else state.committed - older, "plan", older=older)
        crashed = [known for known in state.runs if known.phase not in {"failed", "done"}]
        if not self._scenario.jobs and run.batch == self._scenario.batches:  # its checkpoint has all batches
            return state._replace(runs=(*crashed, run._replace(phase="done")))
        return self._spawned(state._replace(runs=(*crashed, run)), run, Spec("plan", (NAMES, TIMING)))

    # --- states -------------------------------------------------------------------------------------------------------

    def _spawned(self, state: State, run: Run, spec: Spec) -> State:
        process = Process(run.number, self._processes.start(spec))
        if process.point.effect is None:  # it had nothing to ask
            run_now = self._run(state, run.number)
            return state if run_now is None else self._ended(state, run_now, process.point)
        return self._with_processes(state, [*state.processes, process])

    def _run(self, state: State, number: int) -> Run | None:
        return next((run for run in state.runs if run.number == number), None)

    def _with_processes(self, state: State, processes: list[Process]) -> State:
        if len(processes) > 1:
            processes.sort(key=lambda process: (process.run, process.point.number, len(process.responses)))
        return State(state.kafka, state.runs, tuple(processes), *state[3:])  # a third of the time of _replace

    def _with_run(self, state: State, run: Run) -> State:
        return state._replace(runs=tuple(run if known.number == run.number else known for known in state.runs))

    def _without_run(self, state: State, run: Run) -> State:
        return state._replace(runs=tuple(known for known in state.runs if known.number != run.number))

    def _with_kafka(self, state: State, kafka: Token) -> State:
        if kafka is state.kafka:
            return state
        if kafka not in self._checked:
            self._promises.check(kafka.value)
            self._checked.add(kafka)
        return State(kafka, *state[1:])
