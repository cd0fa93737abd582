"""Processes that run the protocol's own generators, as points in a tree of what they have been answered.

Generators cannot be copied. A point is reached by running a fresh one on all responses so far, once; continuing from it
with a response that was given before costs a look into a dictionary.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch
from spark_kafka_native._spark.exactly_once.effects import (
    AbortOpen,
    Append,
    Describe,
    Described,
    Effect,
    EndTransactions,
    InitProducer,
    ListOpen,
    Now,
    ReadDecisions,
    Steps,
    WriteRows,
    WrittenRange,
)
from tests.support.exactly_once.model_kafka import STATES, TICK_MS, WAIT, Request, Row, Transaction


class Token:
    """A value that is compared and hashed as the object that it is: equal ones are the same."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Tokens:
    """One token for each value."""

    def __init__(self) -> None:
        self._all: dict[Any, Token] = {}

    def of(self, value: Any) -> Token:
        """The token of a value."""
        token = self._all.get(value)
        if token is None:
            token = self._all[value] = Token(value)
        return token


Responses = tuple[Token, ...]
"""Of the requests of one effect; an ErrorCode is an error."""


class Spec(NamedTuple):
    """What is run: the arguments make it. Equal ones behave the same."""

    kind: str
    arguments: tuple[Any, ...]
    row: Row | None = None


class Point:
    """Where a process stands: ``effect`` is what it asks for, or it has ended with ``value`` or ``error``."""

    __slots__ = ("_next", "appends", "effect", "error", "number", "requests", "responses", "spec", "value")

    def __init__(self, number: int, spec: Spec, responses: tuple[Responses, ...]) -> None:
        self.number = number
        self.spec = spec
        self.responses = responses
        self.effect: Effect | None = None
        self.value: Any = None
        self.error: Exception | None = None
        self.appends: list[ProducerIdAndEpoch] = []
        self.requests: tuple[Token, ...] = ()
        self._next: dict[Responses, Point] = {}

    def is_answered(self, responses: Responses) -> bool:
        """Whether these are all the responses to what it asks for."""
        assert self.effect is not None
        return len(responses) == len(self.requests) or is_answered(
            self.effect, len(self.requests), [response.value for response in responses]
        )


class Processes:
    """All points that were reached."""

    def __init__(self, make: Callable[[Spec], Steps[Any]], tv: int, tokens: Tokens) -> None:
        self._make = make
        self._tv = tv
        self._tokens = tokens
        self._starts: dict[Spec, Point] = {}
        self._count = 0

    def start(self, spec: Spec) -> Point:
        """Where a process begins."""
        if spec not in self._starts:
            self._starts[spec] = self._reach(spec, ())
        return self._starts[spec]

    def resume(self, point: Point, responses: Responses) -> Point:
        """The point after the responses to its requests."""
        if responses not in point._next:
            point._next[responses] = self._reach(point.spec, (*point.responses, responses))
        return point._next[responses]

    def _reach(self, spec: Spec, history: tuple[Responses, ...]) -> Point:
        self._count += 1
        point = Point(self._count, spec, history)
        steps = self._make(spec)
        try:
            effect = next(steps)
            for responses in history:
                if isinstance(effect, Append):
                    point.appends.append(effect.producer)
                effect = give(steps, effect, tuple(response.value for response in responses))
        except StopIteration as stop:
            point.value = stop.value
        except Exception as error:  # what a process fails of is an end like others; mistakes of ours are not
            if isinstance(error, AssertionError | TypeError | AttributeError):
                raise
            point.error = error
        else:
            point.effect = effect
            point.requests = tuple(map(self._tokens.of, requests_of(effect, self._tv, point.appends, point.spec.row)))
        return point


def requests_of(effect: Effect, tv: int, appends: Sequence[ProducerIdAndEpoch], row: Row | None) -> tuple[Request, ...]:
    """What is sent for an effect, in order, by a process that has appended with some producers before."""
    match effect:
        case InitProducer(name, timeout_ms, claimed):
            request = Request("init", name, claimed, timeout=timeout_ms // TICK_MS)
            return request, request._replace(again=True)
        case WriteRows(name, producer):
            return (Request("rows", name, producer, row=row),)
        case Append(_, name, producer, records):
            produce = Request("produce", name, producer, sequence=appends.count(producer), records=records)
            return (produce,) if tv == 2 else (Request("add", name, producer), produce)
        case EndTransactions(ends, commit):
            return tuple(Request("end", end.transactional_id, end.producer, commit=commit) for end in ends)
        case ReadDecisions():
            read = Request("read", "" if type(effect) is ReadDecisions else "hasty")
            return read, read
        case ListOpen(prefix):
            return (Request("list", prefix),)
        case Describe(names):
            return tuple(Request("describe", name) for name in names)
        case AbortOpen(names):
            return tuple(Request("abort", name) for name in names)
        case Now():
            return (Request("now"),)


def is_answered(effect: Effect, wanted: int, responses: Sequence[Any]) -> bool:
    """Whether these are all the responses to an effect of so many requests. The first error ends most effects."""
    if len(responses) == wanted:
        return True
    match effect:
        case EndTransactions() | AbortOpen():
            return False
        case InitProducer():
            return responses[-1] is not WAIT
        case ReadDecisions():
            return isinstance(responses[-1], ErrorCode) or not isinstance(responses[-1], int)
    return isinstance(responses[-1], ErrorCode)


def give(steps: Steps[Any], effect: Effect, responses: tuple[Any, ...]) -> Effect:
    """Resume with the responses to an effect's requests; errors are thrown in where the effect says so."""
    match effect:
        case EndTransactions():
            return steps.send(tuple(KafkaError(item) if isinstance(item, ErrorCode) else item for item in responses))
        case AbortOpen():
            return steps.send(tuple(KafkaError(item) if isinstance(item, ErrorCode) else None for item in responses))
    if isinstance(responses[-1], ErrorCode):
        return steps.throw(KafkaError(responses[-1]))
    match effect:
        case WriteRows():
            return steps.send((WrittenRange(*responses[-1]),))
        case ListOpen(prefix):
            return steps.send(tuple(name for name in responses[0] if name.startswith(prefix)))
        case Describe():
            return steps.send(tuple(None if known is None else _described(known) for known in responses))
        case Now():
            return steps.send(responses[0] * TICK_MS)
        case Append():
            return steps.send(None)
    return steps.send(responses[-1])


def _described(known: Transaction) -> Described:
    producer = ProducerIdAndEpoch(known.producer_id, known.epoch)
    return Described(STATES[known.state], producer, known.started * TICK_MS, known.timeout * TICK_MS)
