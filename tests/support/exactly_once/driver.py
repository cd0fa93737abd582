"""The exactly-once protocol on a simulated Kafka, step by step: ``kafka.run(plan(NAMES, TIMING))``."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch
from spark_kafka_native._spark.exactly_once.batch import TaskMessage, WritePlan
from spark_kafka_native._spark.exactly_once.decision import Owner, OwnerKind
from spark_kafka_native._spark.exactly_once.effects import Append, DecisionRecord, Effect, EndTransactions, Steps
from spark_kafka_native._spark.exactly_once.names import Names
from spark_kafka_native._spark.exactly_once.task import task
from spark_kafka_native._spark.exactly_once.timing import Timing
from tests.support.exactly_once.model_kafka import STATES, WAIT, Batch, Cluster, Fate, Kafka, Row, Transaction
from tests.support.exactly_once.model_process import give, is_answered, requests_of

NAMES = Names(prefix="orders")
QUERY = Owner(OwnerKind.QUERY, "c0ffee")
TIMING = Timing(transaction_timeout_ms=60_000, decision_timeout_ms=10_000, margin_ms=30_000)
T = TypeVar("T")


class SimulatedKafka:
    """Carries effects out, and remembers what was asked: ``init orders.driver``, ``end ...``."""

    def __init__(self, tv: int = 2) -> None:
        """``tv``: transaction.version."""
        self._tv = tv
        self._row: Row | None = None
        self._cluster = Cluster(NAMES.driver_id, tv)
        self.state = Kafka()
        self.asked: list[str] = []
        self.failing: dict[str, ErrorCode] = {}
        """What is not carried out, and how that is answered: by ``init orders.driver``, or ``init`` for all."""

    def run(self, steps: Steps[T]) -> T:
        """Go all steps -> what they come to."""
        self.asked.clear()
        return self.resume(steps, None)

    def resume(self, steps: Steps[T], effect: Effect | None) -> T:
        """Go the rest of the steps, from an effect on; None: from the beginning."""
        appends: list[ProducerIdAndEpoch] = []
        try:
            while True:
                effect = next(steps) if effect is None else self._step(steps, effect, appends)
        except StopIteration as stop:
            value: T = stop.value
            return value

    def run_until(self, steps: Steps[Any], kind: type[Effect], *, times: int = 1) -> Effect:
        """Go to the first or another effect of a kind, as far as a process comes that dies or rests then."""
        appends: list[ProducerIdAndEpoch] = []
        effect = next(steps)
        while not isinstance(effect, kind) or times > 1:
            times -= isinstance(effect, kind)
            effect = self._step(steps, effect, appends)
        return effect

    def _step(self, steps: Steps[Any], effect: Effect, appends: list[ProducerIdAndEpoch]) -> Effect:
        responses = self._responses(effect, appends)
        if isinstance(effect, Append):
            appends.append(effect.producer)
        return give(steps, effect, responses)

    def write(
        self, plan: WritePlan, batch_id: int, attempt: int, owner: Owner = QUERY, *, rows: bool = True
    ) -> TaskMessage:
        """One task, from planning to its message."""
        self._row = (batch_id, attempt)
        message = self.run(task(plan, owner, batch_id, attempt, TIMING, has_rows=rows))
        return replace(message, rows=int(rows))

    def advance(self, seconds: int) -> None:
        """Let time pass, with what times out in it."""
        for _ in range(seconds):
            self.state = self._cluster.tick(self.state)
        self._settle()

    def readable(self) -> list[tuple[int, int]]:
        """Rows that are readable under read_committed: batch and task."""
        found = (known.row for _, known in self.state.ids if known.fate == Fate.COMMITTED)
        return sorted(row for row in found if row is not None)

    def transaction(self, name: str) -> str:
        """The state of an id, by Kafka's name."""
        return STATES[dict(self.state.ids)[name].state]

    def open_ids(self) -> list[str]:
        """Ids with an open transaction."""
        return [name for name, known in self.state.ids if STATES[known.state] == "Ongoing"]

    def append(self, entry: DecisionRecord) -> None:
        """Another producer writes to the topic of decisions."""
        batch = Batch(ProducerIdAndEpoch(999, 0), 0, (entry,), 1)
        self.state = self.state._replace(log=(*self.state.log, batch))

    def open(self, name: str) -> None:
        """Another producer has an open transaction under an id."""
        known = Transaction(900 + len(self.state.ids), 0, state=STATES.index("Ongoing"), timeout=60, row=(99, 0))
        self.state = self.state._replace(ids=tuple(sorted((*self.state.ids, (name, known)))))

    def _responses(self, effect: Effect, appends: Sequence[ProducerIdAndEpoch]) -> tuple[Any, ...]:
        requests = requests_of(effect, self._tv, appends, self._row)
        responses: list[Any] = []
        while not (responses and is_answered(effect, len(requests), responses)):
            request = requests[len(responses)]
            self.asked.append(f"{request.api} {request.name}".strip())
            failure = self.failing.get(self.asked[-1], self.failing.get(request.api))
            if failure is not None:
                responses.append(failure)
                continue
            self.state, response = self._cluster.carry_out(self.state, request)
            if response is WAIT and request.api != "init":
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "there is no open transaction to wait for")
            responses.append(response)
            self._settle()
        return tuple(responses)

    def _settle(self) -> None:
        settled = self._cluster.settle(self.state)
        self.state = self.state if settled is None else settled


class Killed(Exception):
    """The process ends here."""


def killed_after_decision(steps: Steps[None]) -> Steps[None]:
    """The steps of a commit, up to where the first transaction of a task is to be committed. Raises Killed then."""
    effect = next(steps)
    while not (isinstance(effect, EndTransactions) and not effect.ends[0].transactional_id.endswith(".driver")):
        effect = steps.send((yield effect))
    raise Killed
