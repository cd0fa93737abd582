"""Regular expressions over names of topics and transactional ids, in RE2's syntax, as Kafka's coordinators take them.

Those of groups came with KIP-848, those of transactions with KIP-1152.

They come from clients, so matching must take no longer than the expression and the name are long: an expression is a
machine that is in many states at once and goes back to none. Python's own ``re`` goes back, and for some expressions
would not come to an end; it also lacks part of this syntax and has backreferences, which RE2 has not.

The sets of states that are met, and what a character makes of them, are remembered: most names take a few steps that
others have taken before.
"""

import functools
from typing import Final

from broker_embedded.coordinator.pattern.alphabet import Alphabet
from broker_embedded.coordinator.pattern.classes import WORD
from broker_embedded.coordinator.pattern.escapes import PatternError
from broker_embedded.coordinator.pattern.syntax import Assertion, Op, parse

__all__ = ["Pattern", "PatternError", "compile_pattern"]

_MOST_REMEMBERED: Final = 10_000
"""Steps remembered of one expression; then all are forgotten."""
_BEGIN, _END, _BOUNDARY = 1, 2, 4
"""What holds between two characters, in bits."""
_NOWHERE: Final = 0
"""The number of the empty set of states."""


@functools.lru_cache(maxsize=1000)
def compile_pattern(text: str) -> "Pattern":
    """The expression, ready to match. Raises PatternError."""
    return Pattern(text)


class Pattern:
    """One regular expression."""

    def __init__(self, text: str) -> None:
        """Use ``compile_pattern``."""
        self._program = parse(text)
        self._alphabet = Alphabet(text)
        self._forget()

    def fullmatch(self, name: str) -> bool:
        """Whether the whole name is one that the expression describes."""
        if len(self._steps) > _MOST_REMEMBERED:
            self._forget()
        states, was_word = self._start, False
        for index, character in enumerate(name):
            number = self._alphabet.number(ord(character))
            is_word = bool(WORD >> number & 1)
            at = _BEGIN * (index == 0) | _BOUNDARY * (is_word is not was_word)
            states = self._step(states, at, number)
            if states == _NOWHERE:
                return False
            was_word = is_word
        return self._ends(states, _END | _BEGIN * (not name) | _BOUNDARY * was_word)

    def _forget(self) -> None:
        self._steps: dict[tuple[int, int, int], int] = {}
        self._matches: dict[tuple[int, int], bool] = {}
        self._sets: list[frozenset[int]] = []
        self._numbers: dict[frozenset[int], int] = {}
        self._number(frozenset())
        self._start = self._number(frozenset({0}))

    def _number(self, states: frozenset[int]) -> int:
        number = self._numbers.setdefault(states, len(self._sets))
        if number == len(self._sets):
            self._sets.append(states)
        return number

    def _step(self, states: int, at: int, number: int) -> int:
        key = states, at, number
        found = self._steps.get(key)
        if found is None:
            reached = self._reached(self._sets[states], at)
            found = self._number(frozenset(place + 1 for place in reached if self._takes(place, number)))
            self._steps[key] = found
        return found

    def _ends(self, states: int, at: int) -> bool:
        """Whether the name may end here."""
        key = states, at
        found = self._matches.get(key)
        if found is None:
            found = self._matches[key] = len(self._program) in self._reached(self._sets[states], at)
        return found

    def _takes(self, place: int, number: int) -> bool:
        if place == len(self._program):
            return False
        op, members, _ = self._program[place]
        return op is Op.CHAR and bool(members >> number & 1)

    def _reached(self, states: frozenset[int], at: int) -> set[int]:
        """Where one can be without taking a character; the end of the program is a match."""
        reached, open_places = set(states), list(states)
        while open_places:
            place = open_places.pop()
            for follower in self._followers(place, at):
                if follower not in reached:
                    reached.add(follower)
                    open_places.append(follower)
        return reached

    def _followers(self, place: int, at: int) -> tuple[int, ...]:
        if place == len(self._program):
            return ()
        op, first, second = self._program[place]
        match op:
            case Op.SPLIT:
                return place + first, place + second
            case Op.JUMP:
                return (place + first,)
            case Op.ASSERT:
                return (place + 1,) if _holds(Assertion(first), at) else ()
            case Op.CHAR:
                return ()


def _holds(assertion: Assertion, at: int) -> bool:
    match assertion:
        case Assertion.BEGIN:
            return bool(at & _BEGIN)
        case Assertion.END:
            return bool(at & _END)
        case Assertion.WORD_BOUNDARY:
            return bool(at & _BOUNDARY)
        case Assertion.NO_WORD_BOUNDARY:
            return not at & _BOUNDARY
