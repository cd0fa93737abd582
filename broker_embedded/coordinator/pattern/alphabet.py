"""The characters that one expression tells apart, by numbers.

Those of ASCII have their own. Beyond ASCII every character that the expression names has a number, and so has all that
lies between two of them, so that classes remain small ints.
"""

import re
from bisect import bisect_right
from itertools import chain
from typing import Final

from broker_embedded.coordinator.pattern import classes

_FIRST: Final = 128
_LAST: Final = 0x10FFFF
_HEX: Final = re.compile(r"\\x\{([0-9a-fA-F]{1,8})\}")
_FOLDS_TO_AFAR: Final = {"k": 0x212A, "s": 0x17F}
"""ASCII letters that have a third case."""


def _variants(code: int) -> set[int]:
    """A character and what differs from it in case only."""
    character = chr(code)
    return {ord(case) for case in (character, character.lower(), character.upper()) if len(case) == 1}


def _starts(codes: set[int]) -> tuple[int, ...]:
    """Where numbers begin, if these characters have one of their own."""
    return tuple(sorted({_FIRST, *(start for code in codes for start in (code, code + 1) if start > _FIRST)}))


_SHORT_ESCAPES: Final = frozenset(range(_FIRST, 0o1000)) | {0x212A}
r"""Characters that an expression may name by ``\377`` and the like, and those that differ from ASCII ones in case."""
_PLAIN: Final = _starts(set(_SHORT_ESCAPES))


class Alphabet:
    """The numbers of characters, and classes of them: ints whose bit ``n`` says whether they have number ``n``."""

    def __init__(self, expression: str) -> None:
        named = {ord(character) for character in expression if not character.isascii()}
        named |= {code for digits in _HEX.findall(expression) if (code := int(digits, 16)) <= _LAST}
        codes = set(chain.from_iterable(map(_variants, named)))
        self._starts = _starts(codes | _SHORT_ESCAPES) if codes else _PLAIN

    def number(self, code: int) -> int:
        """The number of a character."""
        return code if code < _FIRST else _FIRST - 1 + bisect_right(self._starts, code)

    def of_range(self, first: int, last: int, *, fold: bool) -> int:
        """The class of a range whose ends the expression names; with ``fold``, of those too that differ in case only.

        Of characters beyond ASCII only single ones have another case.
        """
        found = classes.of_range(first, last, fold=fold)
        if last >= _FIRST:
            low, high = self.number(max(first, _FIRST)), self.number(last)
            found |= (1 << high + 1) - (1 << low)
        if fold and first == last:
            for code in _variants(first):
                found |= 1 << self.number(code)
        return self.folded(found) if fold else found

    def folded(self, members: int) -> int:
        """The class, and the other cases of its ASCII letters."""
        found = classes.folded(members)
        for letter, far in _FOLDS_TO_AFAR.items():
            if found >> ord(letter) & 1:
                found |= 1 << self.number(far)
        return found
