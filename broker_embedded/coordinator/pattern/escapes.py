"""Backslashes and brackets of RE2's syntax: single characters, and classes of them."""

from typing import Final

from broker_embedded.coordinator.pattern import classes as pattern_classes
from broker_embedded.coordinator.pattern.alphabet import Alphabet

_LAST_CODE: Final = 0x10FFFF
_CONTROLS: Final = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_OCTAL: Final = "01234567"
_HEX: Final = "0123456789abcdefABCDEF"


class PatternError(ValueError):
    """What is wrong with a regular expression, in RE2's words."""


class Reader:
    """An expression, and how far it has been read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0
        self.alphabet = Alphabet(text)

    @property
    def more(self) -> bool:
        """Whether there is anything left."""
        return self.place < len(self.text)

    def peek(self) -> str:
        """The next character, or nothing at the end."""
        return self.text[self.place : self.place + 1]

    def take(self) -> str:
        """The next character, or nothing at the end; it is read then."""
        self.place += 1
        return self.text[self.place - 1 : self.place]

    def follows(self, *any_of: str) -> bool:
        """Whether one of these comes next."""
        return self.text.startswith(any_of, self.place)

    def skip(self, what: str) -> bool:
        """Read over something if it comes next; whether it did."""
        if not self.follows(what):
            return False
        self.place += len(what)
        return True

    def until(self, end: str) -> str | None:
        """What stands before the next ``end``, which is read too; None: there is none, and nothing is read."""
        stop = self.text.find(end, self.place)
        if stop < 0:
            return None
        found = self.text[self.place : stop]
        self.place = stop + len(end)
        return found

    def take_any(self, of: str, most: int) -> str:
        """As many of these characters as come next, up to a number."""
        begin = self.place
        while self.place - begin < most and self.more and self.peek() in of:
            self.place += 1
        return self.text[begin : self.place]


def read_class_escape(reader: Reader, *, fold: bool) -> int | None:
    r"""The class that an escape such as ``\d`` or ``\p{Greek}`` stands for; None, and nothing read: it is another."""
    letter = reader.text[reader.place + 1 : reader.place + 2]
    if letter.lower() in pattern_classes.PERL:
        reader.place += 2
        return _named(reader, pattern_classes.PERL[letter.lower()], fold=fold, negative=letter.isupper())
    if letter not in {"p", "P"}:
        return None
    reader.place += 2
    name: str | None = reader.take()
    if name == "{":
        name = reader.until("}")
    if not name:
        raise PatternError("invalid character class range")
    negative = letter == "P"
    if name.startswith("^"):
        negative, name = not negative, name[1:]
    members = pattern_classes.unicode_class(name)
    if members is None:
        raise PatternError("invalid character class range")
    return _named(reader, members, fold=fold, negative=negative)


def _named(reader: Reader, members: int, *, fold: bool, negative: bool) -> int:
    found = reader.alphabet.folded(members) if fold else members
    return pattern_classes.ANY & ~found if negative else found


def read_escape(reader: Reader) -> int:
    """The code point that an escape stands for. Raises PatternError."""
    reader.take()
    if not reader.more:
        raise PatternError("trailing backslash at end of expression")
    letter = reader.take()
    if letter in _CONTROLS:
        return _CONTROLS[letter]
    if letter == "x":
        return _hex(reader)
    if letter == "0" or (letter in _OCTAL and reader.peek() and reader.peek() in _OCTAL):
        return int(letter + reader.take_any(_OCTAL, 2), 8)
    if not (letter.isascii() and letter.isalnum()):
        return ord(letter)
    raise PatternError("invalid escape sequence")


def _hex(reader: Reader) -> int:
    if reader.skip("{"):
        digits = reader.until("}")
    else:
        digits = reader.take_any(_HEX, 2)
        digits = digits if len(digits) == 2 else None
    if not digits or any(digit not in _HEX for digit in digits) or int(digits, 16) > _LAST_CODE:
        raise PatternError("invalid escape sequence")
    return int(digits, 16)


def read_brackets(reader: Reader, *, fold: bool) -> int:
    """A class in brackets. Raises PatternError."""
    reader.take()
    negative = reader.skip("^")
    members, first = 0, True
    while first or not reader.follows("]"):
        if not reader.more:
            raise PatternError("missing closing ]")
        first = False
        members |= _member(reader, fold)
    reader.take()
    return pattern_classes.ANY & ~members if negative else members


def _member(reader: Reader, fold: bool) -> int:
    named = _posix(reader, fold) if reader.follows("[:") else None
    if named is None and reader.follows("\\"):
        named = read_class_escape(reader, fold=fold)
    if named is not None:
        return named
    first = last = _bracket_character(reader)
    if reader.follows("-") and not reader.follows("-]") and reader.place + 1 < len(reader.text):
        reader.take()
        last = _bracket_character(reader)
    if last < first:
        raise PatternError("invalid character class range")
    return reader.alphabet.of_range(first, last, fold=fold)


def _bracket_character(reader: Reader) -> int:
    if not reader.more:
        raise PatternError("missing closing ]")
    return read_escape(reader) if reader.follows("\\") else ord(reader.take())


def _posix(reader: Reader, fold: bool) -> int | None:
    """``[:alpha:]``, ``[:^alpha:]``; None, and nothing read: it is not closed, so it is no such name."""
    begin = reader.place
    name = reader.until(":]")
    if name is None:
        return None
    name = name[len("[:") :] if reader.place > begin + 3 else name
    negative = name.startswith("^")
    members = pattern_classes.POSIX.get(name[1:] if negative else name)
    if members is None:
        raise PatternError("invalid character class range")
    return _named(reader, members, fold=fold, negative=negative)
