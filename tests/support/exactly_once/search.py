"""Every state of a scenario, breadth first, so that a counterexample is a shortest one."""

import gc
from collections import deque
from dataclasses import dataclass, field

from spark_kafka_native._spark.exactly_once.effects import DecisionLog
from tests.support.exactly_once.model import Label, Protocol, Scenario, State, World
from tests.support.exactly_once.model_kafka import STATES, Request, Transaction
from tests.support.exactly_once.promises import Violation


@dataclass
class Found:
    """What an exploration came to."""

    states: int = 0
    problem: str | None = None
    trace: list[Label] = field(default_factory=list)
    complete: bool = True
    """Whether every state was seen."""

    def __str__(self) -> str:
        said = f"{self.states} states" + ("" if self.complete else ", not all")
        if self.problem is not None:
            steps = "\n".join(f"  {number:3} {_format(label)}" for number, label in enumerate(self.trace, 1))
            said += f": {self.problem}\n{steps}"
        return said


def explore(scenario: Scenario, protocol: Protocol | None = None, *, at_most: int = 10_000_000) -> Found:
    """Look at every state, and whether it can still come to an end without a fault; stops at the first problem."""
    gc.disable()  # states are trees, and many: looking for cycles among them takes a third of the time
    try:
        return _explore(scenario, protocol, at_most)
    finally:
        gc.enable()


def _explore(scenario: Scenario, protocol: Protocol | None, at_most: int) -> Found:
    world = World(scenario, protocol or Protocol())
    first = world.first()
    numbers: dict[State, int] = {first: 0}
    came_from: list[tuple[int, Label]] = [(0, ("first",))]
    backwards: list[list[int]] = [[]]
    """By state: those that come to it without a fault."""
    over: list[int] = []
    queue = deque([first])
    done = 0
    while queue:
        state = queue.popleft()
        if world.is_over(state):
            over.append(done)
        try:
            for label, after, fault in world.steps(state):
                number = numbers.get(after)
                if number is None:
                    if len(numbers) >= at_most:
                        return Found(states=len(numbers), complete=False)
                    number = numbers[after] = len(numbers)
                    came_from.append((done, label))
                    backwards.append([])
                    queue.append(after)
                if not fault and number != done:
                    backwards[number].append(done)
        except Violation as violation:
            return Found(len(numbers), str(violation), [*_trace(came_from, done), ("then",)])
        done += 1
    stuck = _stuck(backwards, over)
    if stuck is not None:
        return Found(len(numbers), "no way to an end without a fault", _trace(came_from, stuck))
    return Found(len(numbers))


def _stuck(backwards: list[list[int]], over: list[int]) -> int | None:
    ends = bytearray(len(backwards))
    todo = list(over)
    for number in todo:
        ends[number] = 1
    while todo:
        for number in backwards[todo.pop()]:
            if not ends[number]:
                ends[number] = 1
                todo.append(number)
    found = ends.find(0)
    return None if found < 0 else found


def _trace(came_from: list[tuple[int, Label]], number: int) -> list[Label]:
    labels = []
    while number:
        number, label = came_from[number]
        labels.append(label)
    return labels[::-1]


def _format(label: Label) -> str:
    return " ".join(filter(None, map(_part, label)))


def _part(part: object) -> str:
    if isinstance(part, Request):
        what = {"producer": part.producer, "commit": part.commit, "sequence": part.sequence}
        more = [f"{name}={value}" for name, value in what.items() if value]
        return " ".join([part.api, part.name, *more, *(entry.value.decode() for entry in part.records[-1:])])
    if isinstance(part, Transaction):
        return f"{STATES[part.state]} of {part.producer_id}/{part.epoch}"
    if isinstance(part, DecisionLog):
        return part.records[-1].value.decode() if part.records else "nothing"
    return "" if part is None else str(part)
