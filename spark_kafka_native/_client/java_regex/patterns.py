"""Regular expressions as Java's ``java.util.regex.Pattern`` reads them, for matching names of topics.

Spark's JVM connector takes such expressions, so this source does. They are translated to Python's ``re``. Names of
topics are ASCII, so every character class becomes a set of ASCII characters, and so do case-insensitive letters. An
expression that cannot be translated is refused.
"""

import functools
import re
import string
from typing import Final

from spark_kafka_native._client.java_regex.classes import (
    ANY,
    ESCAPED_CLASSES,
    Chars,
    any_case,
    class_text,
    property_class,
)

_QUANTIFIER: Final = re.compile(r"(?:[*+?]|\{([0-9]{1,9})(?:(,)([0-9]{1,9})?)?\})[?+]?")
_GROUP_NAME: Final = re.compile(r"([a-zA-Z][a-zA-Z0-9]*)>")
_FLAGS: Final = re.compile(r"\?([a-zA-Z]*)(?:-([a-zA-Z]*))?([:)])")
_WITHOUT_MEANING: Final = frozenset("dmsuU")
"""Flags about line ends and characters beyond ASCII, which names do not have."""
_CONTROL: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_ANCHORS: Final = {"A": r"\A", "G": r"\A", "Z": r"\Z", "z": r"\Z", "b": r"\b", "B": r"\B"}
_BY_NUMBER: Final = re.compile(
    r"0([0-3][0-7]{2}|[0-7]{1,2})|x\{([0-9a-fA-F]{1,6})\}|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})"
)
_LAST_CODE: Final = 0x10FFFF
_PROPERTY: Final = re.compile(r"[pP](?:\{([^}]*)\}|([a-zA-Z]))")
_LOOKING: Final = ("?:", "?=", "?!", "?>", "?<=", "?<!")


@functools.lru_cache(maxsize=64)
def java_pattern(expression: str) -> re.Pattern[str]:
    """A pattern to search ASCII names with. Raises ValueError naming the unsupported part of ``expression``."""
    try:
        return re.compile(_Translation(_without_quotes(expression)).whole(), re.ASCII)
    except (re.error, OverflowError) as error:
        raise ValueError(f"Python's regular expressions cannot do that: {error}") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _without_quotes(expression: str) -> str:
    r"""``\Qa.b\E`` -> ``\x{61}\x{2e}\x{62}``."""
    parts: list[str] = []
    at = 0
    while at < len(expression):
        if expression.startswith(r"\Q", at):
            quoted = expression[at + 2 :].partition(r"\E")[0]
            parts += [f"\\x{{{ord(char):x}}}" for char in quoted]
            at += 2 + len(quoted) + 2
        else:
            size = 2 if expression[at] == "\\" else 1
            parts.append(expression[at : at + size])
            at += size
    return "".join(parts)


class _Translation:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._any_case = False
        """Whether the flag i is on at this point."""
        self._groups = 0
        self._finished: set[int] = set()
        self._names: dict[str, int] = {}

    def whole(self) -> str:
        """The expression in Python's syntax."""
        found = self._alternatives()
        if self._at < len(self._text):
            raise self._error("a closing parenthesis without an opening one")
        return found

    # --- groups and repetitions

    def _alternatives(self) -> str:
        parts: list[str] = []
        while (char := self._peek()) and char != ")":
            if char == "|":
                self._at += 1
                parts.append("|")
            elif char in "*+?":
                raise self._error(f"nothing before {char!r} to repeat")
            else:
                parts.append(self._repeated("" if char == "{" else self._atom(char)))
        return "".join(parts)

    def _repeated(self, atom: str | None) -> str:
        """An atom with its quantifier; None: it was only flags. ``{2}`` without an atom matches nothing, as in Java."""
        if atom is None:
            return ""
        matched = _QUANTIFIER.match(self._text, self._at)
        if matched is None:
            if self._peek() == "{":
                raise self._error(r"a brace that begins no number of repetitions; \{ is the character")
            return atom
        if matched[3] and int(matched[3]) < int(matched[1]):
            raise self._error(f"repetitions {matched[0]} that end before they begin")
        self._at = matched.end()
        return f"(?:{atom}){matched[0]}" if atom else ""

    def _atom(self, char: str) -> str | None:
        if char == "(":
            return self._group()
        if char == "[":
            return class_text(self._class(nested=True))
        if char == "\\":
            return self._escape()
        self._at += 1
        if char == "$":
            return r"\Z"
        return char if char in ".^" else self._literal(char)

    def _group(self) -> str | None:
        start, case_outside, number = self._at, self._any_case, 0
        self._at += 1
        kind = next((kind for kind in _LOOKING if self._text.startswith(kind, self._at)), "")
        if kind:
            self._at += len(kind)
        elif self._peek() != "?" or self._text.startswith("?<", self._at):
            self._groups = number = self._groups + 1
            self._name(number)
        elif not self._inline_flags():
            return None
        else:
            kind = "?:"
        inside = self._alternatives()
        if self._peek() != ")":
            self._at = start
            raise self._error("an opening parenthesis without a closing one")
        self._at += 1
        self._any_case = case_outside
        self._finished.add(number)
        return f"({kind}{inside})"

    def _name(self, number: int) -> None:
        if self._peek() != "?":
            return
        self._at += 2
        name = self._group_name()
        if name in self._names:
            raise self._error(f"two groups with the name {name}")
        self._names[name] = number

    def _group_name(self) -> str:
        matched = _GROUP_NAME.match(self._text, self._at)
        if matched is None:
            raise self._error("a name of a group other than letters and digits, with > after it")
        self._at = matched.end()
        return matched[1]

    def _inline_flags(self) -> bool:
        """Whether the flags begin a group; if not, they apply to the rest of the enclosing group."""
        matched = _FLAGS.match(self._text, self._at)
        if matched is None:
            raise self._error(f"({self._text[self._at : self._at + 2]}, which begins nothing in Java's expressions")
        on, off = matched[1], matched[2] or ""
        for flag in on + off:
            if flag == "x":
                raise self._error("the flag x, for white space and comments, which is not supported")
            if flag != "i" and flag not in _WITHOUT_MEANING:
                raise self._error(f"{flag!r} among the flags of a group")
        self._at = matched.end()
        self._any_case = (self._any_case or "i" in on) and "i" not in off
        return matched[3] == ":"

    # --- characters outside of classes

    def _literal(self, char: str) -> str:
        chars = self._in_case(frozenset(char))
        return re.escape(char) if len(chars) == 1 else class_text(chars & ANY)

    def _in_case(self, chars: Chars) -> Chars:
        return chars | any_case(chars & ANY) if self._any_case else chars

    def _escape(self) -> str:
        self._at += 1
        char = self._peek()
        if char and char in _ANCHORS:
            self._at += 1
            if char == "b" and self._peek() == "{":
                raise self._error(r"\b{...}, which is not supported")
            return _ANCHORS[char]
        if char == "k":
            return self._reference_by_name()
        if char and char in "123456789":
            return self._reference_by_number()
        if char == "R":
            self._at += 1
            return "(?!)"  # no name has a line end
        found = self._escaped()
        return self._literal(found) if isinstance(found, str) else class_text(found)

    def _reference_by_name(self) -> str:
        self._at += 1
        if self._peek() != "<":
            raise self._error(r"\k without the name of a group")
        self._at += 1
        name = self._group_name()
        if name not in self._names:
            raise self._error(f"a reference to the group {name}, which does not exist before it")
        return self._reference(self._names[name])

    def _reference_by_number(self) -> str:
        """As many digits as there are groups for, and at least one."""
        number = 0
        while (
            (digit := self._peek())
            and digit in string.digits
            and (not number or number * 10 + int(digit) <= self._groups)
        ):
            number = number * 10 + int(digit)
            self._at += 1
        return self._reference(number)

    def _reference(self, number: int) -> str:
        if number not in self._finished:
            raise self._error(f"a reference to group {number}, which does not end before it")
        return f"(?i:\\{number})" if self._any_case else f"(?:\\{number})"

    def _escaped(self) -> str | Chars:
        char = self._peek()
        if not char:
            raise self._error("a backslash at the end")
        if char in "pP":
            return self._property()
        if char.lower() in ESCAPED_CLASSES:
            self._at += 1
            chars = ESCAPED_CLASSES[char.lower()]
            return chars if char.islower() else ANY - chars
        if char in "xu0":
            return self._by_number()
        self._at += 1
        if char == "c" and self._peek():
            self._at += 1
            return chr(ord(self._text[self._at - 1]) ^ 64)
        if char in _CONTROL:
            return _CONTROL[char]
        if char in string.ascii_letters:
            raise self._error(f"\\{char}, which is not supported")
        return char

    def _by_number(self) -> str:
        matched = _BY_NUMBER.match(self._text, self._at)
        code = (
            -1
            if matched is None
            else int(matched[1], 8)
            if matched[1]
            else int(matched[2] or matched[3] or matched[4], 16)
        )
        if matched is None or code > _LAST_CODE:
            raise self._error(f"\\{self._peek()} without the number of a character")
        self._at = matched.end()
        return chr(code)

    def _property(self) -> Chars:
        matched = _PROPERTY.match(self._text, self._at)
        chars = property_class(matched[1] or matched[2]) if matched else None
        if matched is None or chars is None:
            raise self._error(f"the class \\{matched[0] if matched else self._peek()}, which is not known")
        self._at = matched.end()
        return self._in_case(chars) if matched[0][0] == "p" else ANY - self._in_case(chars)

    # --- classes

    def _class(self, *, nested: bool) -> Chars:
        """``[...]``; not ``nested``: the part after ``&&``, up to the bracket that ends the enclosing class."""
        start = self._at
        negated = False
        if nested:
            self._at += 1
            negated = self._peek() == "^"
            self._at += negated
        found: Chars | None = None
        while (char := self._peek()) != "]" or found is None:
            if not char:
                self._at = start
                raise self._error("a class without a closing bracket")
            if char == "[":
                found = (found or frozenset()) | self._class(nested=True)
            elif self._text.startswith("&&", self._at):
                found = self._intersection(found)
            else:
                found = (found or frozenset()) | self._class_range()
        self._at += nested
        return ANY - found if negated else found & ANY

    def _intersection(self, left: Chars | None) -> Chars:
        self._at += 2
        right: Chars | None = None
        while (char := self._peek()) not in {"]", "&"}:
            if not char:
                break
            right = (right or frozenset()) | self._class(nested=char == "[")
        if left is None or right is None:
            raise self._error("&& without a class on both sides is not supported")
        return left & right

    def _class_range(self) -> Chars:
        first = self._class_char()
        if not isinstance(first, str):
            return first
        following = self._text[self._at + 1 : self._at + 2]
        if self._peek() != "-" or following in {"", "[", "]"}:
            return self._in_case(frozenset(first))
        self._at += 1
        last = self._class_char()
        if not isinstance(last, str) or last < first:
            raise self._error(f"a range from {first!r} that does not end at a later character")
        return self._in_case(frozenset(char for char in ANY if first <= char <= last))

    def _class_char(self) -> str | Chars:
        char = self._text[self._at]
        self._at += 1
        return self._escaped() if char == "\\" else char

    # ---

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _error(self, what: str) -> ValueError:
        return ValueError(f"{what} (at character {self._at})")
