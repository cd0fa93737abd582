"""Kills of a copy that is exactly once: at random moments, and at every step of the protocol that asks for something.

What is killed, where and when follows from a seed alone. Steps that happen only after a failure
before have a kill before them that makes it so.
"""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle
from typing import NamedTuple

import pytest
from dirty_equals import AnyThing, IsInt, IsOneOf

from broker_embedded.testing import BrokerProcess
from tests.support.clients.topics import Topics
from tests.support.kills.spark_copy import PARTS, SparkCopy, kill, wait_for_progress, wait_until


class Aim(NamedTuple):
    """A step of the protocol at which something is killed, and the way on which it is come to."""

    step: str
    way_there: str = "any"


WAYS_THERE = {
    "left by an attempt": ("task WriteRows 1 after", "itself"),
    "left by a task": ("task WriteRows 1 after", "everything"),
    "left decided": ("commit EndTransactions 2 before", "everything"),
    "failed undecided": ("commit Describe 1 after", "itself"),
    "failed decided": ("commit EndTransactions 2 before", "itself"),
}
"""Where something is killed, and what, so that the commit, the next planning, or abort comes to steps not seen else."""

_STEPS = {
    "any": (
        *("plan ListOpen 1", "plan InitProducer 1", "plan ReadDecisions 1", "task InitProducer 1", "task WriteRows 1"),
        *("commit Append 1", "commit Describe 1", "commit EndTransactions 1", "commit EndTransactions 2"),
        *("commit Append 2", "commit EndTransactions 3", "commit ListOpen 1"),
    ),
    # Attempts that lose against a speculative one leave something to abort, too, but not all of them.
    "left by an attempt": ("commit AbortOpen 1",),
    "left by a task": ("plan AbortOpen 1",),
    "left decided": (
        *("plan Describe 1", "plan EndTransactions 1", "plan Append 1", "plan EndTransactions 2"),
        "plan InitProducer 2",
    ),
    "failed undecided": (
        *("abort Describe 1", "abort InitProducer 1", "abort ReadDecisions 1", "abort EndTransactions 1"),
        "abort ListOpen 1",
    ),
    # No more than that: with transaction.version 2 the decision has raised the driver's epoch, and abort leaves it to
    # the next planning to write that the batch is finished.
    "failed decided": ("abort Describe 2", "abort EndTransactions 1"),
}
AIMS = tuple(
    Aim(f"{step} {moment}", way_there)
    for way_there, steps in _STEPS.items()
    for step in steps
    for moment in ("before", "after")
)


class Kill(NamedTuple):
    """What is killed next."""

    kind: str
    aim: Aim | None
    """None: at a random moment."""
    after_s: float = 0.0
    """How long to wait for that moment."""


def kills(seed: int, run: int, *, with_broker: bool) -> Iterator[Kill]:
    """Kills without end, every other one at a step. Up to four runs have a seed, and each aims at other steps.

    So do runs with other seeds, until all steps were aimed at.
    """
    dice = random.Random(f"{seed} {run}")
    more = ["broker"] if with_broker else []
    at_random, at_steps = ["everything", "driver", *PARTS, *more], ["itself", "driver", "everything", "executor", *more]
    dice.shuffle(at_random)
    dice.shuffle(at_steps)
    shuffled = random.Random(0).sample(AIMS, len(AIMS))
    first = (4 * seed + run) * 7 % len(AIMS)
    aims = shuffled[first:] + shuffled[:first]
    for aim, at_step, kind in zip(cycle(aims), cycle(at_steps), cycle(at_random)):
        yield Kill(at_step, aim)
        yield Kill(kind, None, dice.uniform(0, 2))


@dataclass
class Killer:
    """Kills something of a copy at a time, or its broker, and counts what was really killed."""

    copy: SparkCopy
    committed: Topics
    dice: random.Random
    broker: BrokerProcess | None
    """None: it is not to be killed."""
    killed: Counter[str] = field(default_factory=Counter)
    """By what it was."""
    steps: list[str] = field(default_factory=list)
    """At which of them something was killed."""
    downtime_s: float = 0.0
    """How long the broker was down."""

    @property
    def count(self) -> int:
        return self.killed.total()

    def carry_out(self, planned: Kill) -> None:
        """Kill what is planned, on the way there too."""
        if planned.aim is None:
            time.sleep(planned.after_s)
            self._kill(planned.kind)
        elif self._come_to(planned.aim):
            self._kill_there(planned.kind, planned.aim.step)
            if planned.kind == "driver":  # the waiting driver continues when another driver has started
                wait_for_progress(self.committed, self.copy)
            self.copy.doom.clear()

    def _come_to(self, aim: Aim) -> bool:
        """Have a process wait at a step.

        False: the way was missed. A task that rests may lose against another attempt, and then nothing is left of it.
        """
        doom = self.copy.doom
        if aim.way_there not in WAYS_THERE:
            doom.aim(aim.step)
            self._wait_for_victim(aim.step)
            return True
        step, kind = WAYS_THERE[aim.way_there]
        doom.aim(step)
        self._wait_for_victim(step)
        before = self.copy.batches
        self._kill_there(kind, step, then=aim.step)
        wait_until(
            lambda: (doom.victim, self.copy.batches),
            IsOneOf((IsInt, AnyThing), (None, IsInt(gt=before + 1))),
            self.copy,
        )
        if doom.victim is None:
            doom.clear()
        return doom.victim is not None

    def _wait_for_victim(self, step: str) -> None:
        try:
            wait_until(lambda: self.copy.doom.victim, IsInt, self.copy)
        except AssertionError:
            pytest.fail(f"no process came to {step!r}:\n{self.copy.output}")

    def _kill_there(self, kind: str, step: str, *, then: str | None = None) -> None:
        before, victim = self.count, self.copy.doom.victim
        assert victim is not None
        if then is not None:  # no moment in between: who comes next may be there at once
            self.copy.doom.aim(then, letting_go=False)
        if kind == "itself":
            self._kill_victim(victim)
        elif kind == "everything":
            self.killed[kind] += self.copy.kill()  # once: what starts next is to come to the next step
        else:
            self._kill(kind)
        if then is not None:
            self.copy.doom.let_go(victim)
        if self.count > before:
            self.steps.append(step)

    def _kill_victim(self, victim: int) -> None:
        try:
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:
            return  # a task that rests is slow: Spark has killed it, as another attempt was there first
        self.killed["itself"] += 1

    def _kill(self, kind: str) -> None:
        if kind == "broker":
            self._restart_broker()
        else:
            self.killed[kind] += kill(kind, self.dice, self.copy)

    def _restart_broker(self) -> None:
        assert self.broker is not None
        began = time.monotonic()
        self.broker.kill()
        self.killed["broker"] += 1
        self.copy.doom.clear()
        time.sleep(self.dice.uniform(0, 2))
        self.broker.restart()
        self.downtime_s += time.monotonic() - began
