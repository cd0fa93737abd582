"""Regular expressions over names of topics and transactional ids, in RE2's syntax, as Kafka's coordinators accept them.

Consumer groups subscribe with them (KIP-848), ListTransactions filters with them (KIP-1152). Apache Kafka uses RE2/J,
this broker google-re2. Both match in time linear in the name's length. docs/options.md lists the differences.

The size of clients' expressions is bounded here, because the time of a match grows with the compiled program, and
google-re2 holds the interpreter lock while it compiles.
"""

import re
from typing import Final

import re2

MAX_CHARACTERS: Final = 50_000
"""RE2 aborts the compilation of an expression of a few million characters, and writes to stderr."""
MAX_UNICODE_CLASSES: Final = 100
r"""Each ``\pL`` takes long to compile."""
MAX_PROGRAM_BYTES: Final = 1 << 17
"""RE2's ``max_mem``, for the program and its cache of states. It bounds the time for each character of a name, too.

The name of a topic (249 characters) takes up to 20 ms, a transactional id of 32,767 characters up to 3 s. RE2 compiles
in time quadratic in the number of optional parts: a program of 128 KiB takes 50 ms at most, one of 1 MiB takes seconds.
"""
MAX_NAMES: Final = 5000
MAX_NAMES_PROGRAM_BYTES: Final = 1 << 20
"""``max_mem`` for up to `MAX_NAMES` names joined with ``|``, which have at most as many optional parts as names."""
MAX_REPETITIONS: Final = 100_000
"""The sum of the counts of ``{n}``. More would exceed `MAX_PROGRAM_BYTES`."""
MAX_FOLDED_CLASSES: Final = 2000
"""With ``(?i)`` a class takes long to compile."""
_UNICODE_CLASS: Final = re.compile(r"\\[pP]")
_NAMES: Final = re.compile(rf"[\w.\\-]*(?:\|[\w.\\-]*){{0,{MAX_NAMES - 1}}}", re.ASCII)
_REPETITION: Final = re.compile(r"\\x\{|\\.|\{(\d{1,4})(?:,(\d{0,4}))?\}", re.DOTALL)
"""A repetition, or an escape, in which a brace is literal."""
_FOLDS: Final = re.compile(r"\(\?[A-Za-z]*i")
_CLASS: Final = re.compile(r"\[|\\[DSWdsw]")


class PatternError(Exception):
    """The text is not a regular expression, or it is too large; ``str()`` says which and where."""


class Pattern:
    """One compiled regular expression. Any thread may use it."""

    def __init__(self, expression: str) -> None:
        """Raise PatternError if ``expression`` is malformed or too large."""
        if len(expression) > MAX_CHARACTERS:
            raise PatternError(f"more than {MAX_CHARACTERS} characters")
        if len(_UNICODE_CLASS.findall(expression)) > MAX_UNICODE_CLASSES:
            raise PatternError(rf"more than {MAX_UNICODE_CLASSES} classes \p or \P")
        if _repetitions(expression) > MAX_REPETITIONS:
            raise PatternError(f"pattern too large: its repetitions are more than {MAX_REPETITIONS} in all")
        if _FOLDS.search(expression) and len(_CLASS.findall(expression)) > MAX_FOLDED_CLASSES:
            raise PatternError(f"more than {MAX_FOLDED_CLASSES} classes of characters and (?i)")
        options = _options(expression)
        self.max_bytes: Final[int] = options.max_mem
        """Upper bound of the memory of the compiled program and its cache of states."""
        try:
            self._compiled = re2.compile(expression, options)
        except re2.error as error:
            raise PatternError(error.args[0].decode(errors="replace")) from error
        re2.purge()  # otherwise the package would cache 128 expressions of clients

    def fullmatch(self, name: str) -> bool:
        """Whether the expression matches the whole name. Other Python threads run during the match."""
        return self._compiled.fullmatch(name) is not None


def _repetitions(expression: str) -> int:
    """The sum of the counts of all repetitions, nested ones not multiplied."""
    return sum(int(upper or lower or 0) for lower, upper in _REPETITION.findall(expression))


def _options(expression: str) -> re2.Options:
    options = re2.Options()
    options.max_mem = MAX_NAMES_PROGRAM_BYTES if _NAMES.fullmatch(expression) else MAX_PROGRAM_BYTES
    options.log_errors = False
    options.never_capture = True
    return options
