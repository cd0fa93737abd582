"""RE2's syntax: from a regular expression to a program that `pattern` runs.

Not in it, as in RE2: backreferences, lookahead and lookbehind, possessive and atomic groups. Flags that matter only
where a text has lines (``m``, ``s``), and whether a repetition is greedy, make no difference to a match of the whole
name and are checked and dropped. Counts go up to 1000. An expression may come to 50,000 characters and 5,000 places
where it branches, all repetitions written out: what it costs to match grows with both.

A program is a list of instructions whose jumps are relative, so that programs can be put together, and repeated, as
they are.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Final, TypeAlias

from broker_embedded.coordinator.pattern import classes as pattern_classes
from broker_embedded.coordinator.pattern.escapes import (
    PatternError,
    Reader,
    read_brackets,
    read_class_escape,
    read_escape,
)

_MOST_REPEATS: Final = 1000
_MOST_CHARACTERS: Final = 50_000
_MOST_BRANCHES: Final = 5_000
_MOST_NESTED: Final = 1000


class Op(Enum):
    """What an instruction does, with its two operands."""

    CHAR = "take one character of the class in the first"
    SPLIT = "go on at both"
    JUMP = "go on at the first"
    ASSERT = "go on with the next if the assertion in the first holds here"


class Assertion(IntEnum):
    """What may be asked of a place between two characters."""

    BEGIN = 0
    END = 1
    WORD_BOUNDARY = 2
    NO_WORD_BOUNDARY = 3


Instruction: TypeAlias = tuple[Op, int, int]
Program: TypeAlias = list[Instruction]

_SIMPLE: Final[Mapping[str, tuple[int, int | None]]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_ASSERTIONS: Final = {
    "^": Assertion.BEGIN,
    "$": Assertion.END,
    "\\A": Assertion.BEGIN,
    "\\z": Assertion.END,
    "\\b": Assertion.WORD_BOUNDARY,
    "\\B": Assertion.NO_WORD_BOUNDARY,
}


def parse(text: str) -> Program:
    """The program of an expression. Raises PatternError: the expression is malformed, or too large."""
    return _Parser(text).program()


@dataclass(slots=True)
class _Group:
    """A parenthesis that is open, or the whole expression. ``folds`` holds outside of it."""

    folds: bool
    branches: list[Program] = field(default_factory=list)
    items: list[Program] = field(default_factory=list)


class _Parser:
    """One expression being read. What is open is a stack, so that depth costs no recursion."""

    def __init__(self, text: str) -> None:
        self._in = Reader(text)
        self._folds = False
        self._open = [_Group(folds=False)]
        self._names: set[str] = set()
        self._characters = self._branches = 0
        self._repeated_at = -1
        """Where a repetition ended, so that one right behind it is seen."""

    def program(self) -> Program:
        while self._in.more:
            self._part()
        if len(self._open) > 1:
            raise PatternError("missing closing )")
        return self._closed(self._open.pop())

    def _part(self) -> None:
        match self._in.peek():
            case "(":
                self._open_group()
            case ")":
                self._close_group()
            case "|":
                self._in.take()
                group = self._open[-1]
                group.branches.append(_joined(group.items))
                group.items = []
            case "*" | "+" | "?":
                self._repeat_simply()
            case "{":
                self._repeat_counted()
            case "[":
                self._add_class(read_brackets(self._in, fold=self._folds))
            case ".":
                self._in.take()
                self._add_class(pattern_classes.ANY)
            case "^" | "$" as anchor:
                self._in.take()
                self._assert(_ASSERTIONS[anchor])
            case "\\":
                self._escape()
            case _:
                self._add_char(self._in.take())

    # --- groups ------------------------------------------------------------------------------------------------------

    def _open_group(self) -> None:
        outer_folds = self._folds
        self._in.take()
        if self._in.skip("?") and not self._named_group() and not self._flags():
            return  # they hold from here on; there is no group
        if len(self._open) > _MOST_NESTED:
            raise PatternError("expression nests too deeply")
        self._open.append(_Group(folds=outer_folds))

    def _close_group(self) -> None:
        self._in.take()
        if len(self._open) == 1:
            raise PatternError("unexpected )")
        group = self._open.pop()
        self._folds = group.folds
        self._open[-1].items.append(self._closed(group))

    def _closed(self, group: _Group) -> Program:
        """The branches, each with a way to it before, and a way to the end behind."""
        branches = [*group.branches, _joined(group.items)]
        self._grow(branches=len(branches) - 1)
        program: Program = []
        left = sum(map(len, branches)) + 2 * (len(branches) - 1)
        for branch in branches[:-1]:
            program.append((Op.SPLIT, 1, len(branch) + 2))
            program += branch
            left -= len(branch) + 2
            program.append((Op.JUMP, left + 1, 0))
        return program + branches[-1]

    def _named_group(self) -> bool:
        if not (self._in.follows("P<") or (self._in.follows("<") and not self._in.follows("<=", "<!"))):
            return False
        self._in.skip("P")
        self._in.take()
        name = self._in.until(">")
        if not name or not all(pattern_classes.WORD >> ord(character) & 1 for character in name):
            raise PatternError("invalid named capture")
        if name in self._names:
            raise PatternError("duplicate capture group name")
        self._names.add(name)
        return True

    def _flags(self) -> bool:
        """Read flags; whether a group opens with them. Only whether case matters makes a difference."""
        value, seen, folds = True, False, self._folds
        while self._in.more:
            match self._in.take():
                case "i":
                    folds, seen = value, True
                case "m" | "s" | "U":
                    seen = True
                case "-" if value:
                    value, seen = False, False
                case ":" | ")" as end if value or seen:
                    self._folds = folds
                    return end == ":"
                case _:
                    break
        raise PatternError("invalid or unsupported Perl syntax")

    # --- single parts ------------------------------------------------------------------------------------------------

    def _add(self, instruction: Instruction) -> None:
        self._grow(characters=1)
        self._open[-1].items.append([instruction])

    def _add_class(self, members: int) -> None:
        self._add((Op.CHAR, members, 0))

    def _add_char(self, character: str) -> None:
        self._add_class(self._in.alphabet.of_range(ord(character), ord(character), fold=self._folds))

    def _assert(self, assertion: Assertion) -> None:
        self._add((Op.ASSERT, assertion, 0))

    def _grow(self, *, characters: int = 0, branches: int = 0) -> None:
        self._characters += characters
        self._branches += branches
        if self._characters > _MOST_CHARACTERS or self._branches > _MOST_BRANCHES:
            raise PatternError("expression is too large")

    def _escape(self) -> None:
        for spelled in ("\\A", "\\z", "\\b", "\\B"):
            if self._in.skip(spelled):
                self._assert(_ASSERTIONS[spelled])
                return
        if self._in.skip("\\Q"):
            quoted = self._in.until("\\E")
            if quoted is None:
                quoted, self._in.place = self._in.text[self._in.place :], len(self._in.text)
            for character in quoted:
                self._add_char(character)
            return
        members = read_class_escape(self._in, fold=self._folds)
        if members is not None:
            self._add_class(members)
        else:
            code = read_escape(self._in)
            self._add_class(self._in.alphabet.of_range(code, code, fold=self._folds))

    # --- repetitions -------------------------------------------------------------------------------------------------

    def _repeat_simply(self) -> None:
        begin = self._in.place
        operator = self._in.take()
        self._repeat(begin, *_SIMPLE[operator])

    def _repeat_counted(self) -> None:
        begin = self._in.place
        counts = self._counts()
        if counts is None:
            self._in.place = begin
            self._add_char(self._in.take())
            self._repeated_at = self._in.place  # Java's RE2 does not let such a brace be repeated
            return
        least, most = counts
        if least > _MOST_REPEATS or (most is not None and not least <= most <= _MOST_REPEATS):
            raise PatternError("invalid repeat count")
        self._repeat(begin, least, most)

    def _counts(self) -> tuple[int, int | None] | None:
        """``{n}``, ``{n,}`` or ``{n,m}``; None: it is something else, which stands for itself."""
        self._in.take()
        least = self._count()
        if least is None:
            return None
        most: int | None = least
        if self._in.skip(","):
            most = None if self._in.follows("}") else self._count()
            if most is None and not self._in.follows("}"):
                return None
        return (least, most) if self._in.skip("}") else None

    def _count(self) -> int | None:
        digits = self._in.take_any("0123456789", len(self._in.text))
        if not digits or (digits[0] == "0" and len(digits) > 1):
            return None
        return int(digits[:9])

    def _repeat(self, begin: int, least: int, most: int | None) -> None:
        """Repeat what stands before the operator that begins there; a question mark behind says it is not greedy."""
        self._in.skip("?")
        if self._repeated_at == begin:
            raise PatternError("invalid nested repetition operator")
        self._repeated_at = self._in.place
        items = self._open[-1].items
        if not items:
            raise PatternError("missing argument to repetition operator")
        item = items[-1]
        times = max(least, 1) if most is None else most
        branches = sum(op is Op.SPLIT for op, _, _ in item)
        self._grow(characters=len(item) * (times - 1), branches=branches * (times - 1) + times - least + (most is None))
        items[-1] = _repeated(item, least, most)


def _joined(items: list[Program]) -> Program:
    return [instruction for item in items for instruction in item]


def _repeated(program: Program, least: int, most: int | None) -> Program:
    """The program so many times; without ``most`` as often as can be."""
    size = len(program)
    if most is None:
        if least:
            return program * least + [(Op.SPLIT, -size, 1)]
        return [(Op.SPLIT, 1, size + 2), *program, (Op.JUMP, -size - 1, 0)]
    repeated = program * least
    for left in range(most - least, 0, -1):
        repeated.append((Op.SPLIT, 1, left * (size + 1)))
        repeated += program
    return repeated
