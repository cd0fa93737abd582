r"""The ASCII characters of Java's character classes: ``\d``, ``\p{Alpha}``, ``\p{Lu}``."""

import string
import unicodedata
from collections.abc import Callable, Mapping
from typing import Final

Chars = frozenset[str]
"""The ASCII characters of a class."""

ANY: Final = frozenset(map(chr, range(128)))
_NONE: Final[Chars] = frozenset()
_DIGITS: Final = frozenset(string.digits)
_LETTERS: Final = frozenset(string.ascii_letters)
_PUNCTUATION: Final = frozenset(string.punctuation)

ESCAPED_CLASSES: Final[Mapping[str, Chars]] = {
    "d": _DIGITS,
    "w": _LETTERS | _DIGITS | {"_"},
    "s": frozenset(" \t\n\v\f\r"),
    "h": frozenset(" \t"),
    "v": frozenset("\n\v\f\r"),
}
"""By the letter after the backslash; the capital letter is the complement."""


def _all(test: Callable[[str], bool]) -> Chars:
    return frozenset(filter(test, ANY))


_POSIX: Final[Mapping[str, Chars]] = {
    "Lower": frozenset(string.ascii_lowercase),
    "Upper": frozenset(string.ascii_uppercase),
    "ASCII": ANY,
    "Alpha": _LETTERS,
    "Digit": _DIGITS,
    "Alnum": _LETTERS | _DIGITS,
    "Punct": _PUNCTUATION,
    "Graph": _LETTERS | _DIGITS | _PUNCTUATION,
    "Print": _LETTERS | _DIGITS | _PUNCTUATION | {" "},
    "Blank": frozenset(" \t"),
    "Cntrl": _all(lambda char: char < " " or char == "\x7f"),
    "XDigit": frozenset(string.hexdigits),
    "Space": ESCAPED_CLASSES["s"],
}
_JAVA: Final[Mapping[str, Chars]] = {
    "javaLowerCase": _POSIX["Lower"],
    "javaUpperCase": _POSIX["Upper"],
    "javaAlphabetic": _LETTERS,
    "javaLetter": _LETTERS,
    "javaDigit": _DIGITS,
    "javaLetterOrDigit": _LETTERS | _DIGITS,
    "javaWhitespace": ESCAPED_CLASSES["s"] | frozenset("\x1c\x1d\x1e\x1f"),
}
_BINARY: Final[Mapping[str, Chars]] = {
    "ALPHABETIC": _LETTERS,
    "LETTER": _LETTERS,
    "LOWERCASE": _POSIX["Lower"],
    "UPPERCASE": _POSIX["Upper"],
    "TITLECASE": _NONE,
    "IDEOGRAPHIC": _NONE,
    "PUNCTUATION": _all(lambda char: unicodedata.category(char).startswith("P")),
    "CONTROL": _POSIX["Cntrl"],
    "WHITE_SPACE": ESCAPED_CLASSES["s"],
    "DIGIT": _DIGITS,
    "HEX_DIGIT": _POSIX["XDigit"],
    "ASSIGNED": ANY,
}
_SCRIPTS: Final[Mapping[str, Chars]] = {"LATIN": _LETTERS, "LATN": _LETTERS, "COMMON": ANY - _LETTERS}
_CATEGORIES: Final = (
    *("Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co", "Cn"),
    *("Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "L", "M", "N", "Z", "C", "P", "S"),
)


def property_class(name: str) -> Chars | None:
    r"""The class ``\p{name}``; None if it is unknown."""
    kind, equals, value = name.partition("=")
    if equals:
        match kind.lower():
            case "sc" | "script":
                return _SCRIPTS.get(value.upper())
            case "gc" | "general_category":
                return _category(value)
            case _:
                return None
    if name.startswith("Is"):
        rest = name[2:]
        found = _BINARY.get(rest.upper(), _SCRIPTS.get(rest.upper()))
        return _category(rest) if found is None else found
    found = _POSIX.get(name, _JAVA.get(name))
    return _category(name) if found is None else found


def _category(name: str) -> Chars | None:
    match name:
        case "LC":
            return _LETTERS
        case "LD":
            return _LETTERS | _DIGITS
        case "L1" | "all":
            return ANY
        case _ if name in _CATEGORIES:
            return _all(lambda char: unicodedata.category(char).startswith(name))
        case _:
            return None


def any_case(chars: Chars) -> Chars:
    """The characters and those that differ from them in case only."""
    return frozenset(char.upper() for char in chars) | frozenset(char.lower() for char in chars)


def class_text(chars: Chars) -> str:
    """The class in the syntax of Python's ``re``."""
    if not chars:
        return "(?!)"
    codes = sorted(map(ord, chars))
    runs: list[tuple[int, int]] = []
    for code in codes:
        if runs and runs[-1][1] == code - 1:
            runs[-1] = runs[-1][0], code
        else:
            runs.append((code, code))
    return f"[{''.join(_run(first, last) for first, last in runs)}]"


def _run(first: int, last: int) -> str:
    return f"\\x{first:02x}" if first == last else f"\\x{first:02x}-\\x{last:02x}"
