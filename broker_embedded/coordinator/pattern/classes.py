"""Character classes of regular expressions, as far as they are about ASCII characters: names of topics have no others.

A class is an int whose bit ``c`` says whether it has the character ``chr(c)``; from bit 128 on see `alphabet`. What a
class leaves out is negative: it has everything beyond ASCII.
"""

import unicodedata
from collections.abc import Iterable, Mapping
from typing import Final

ANY: Final = -1
ASCII: Final = (1 << 128) - 1
_DIGIT: Final = frozenset("0123456789")
_UPPER: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_LOWER: Final = frozenset("abcdefghijklmnopqrstuvwxyz")
_ALPHA: Final = _UPPER | _LOWER
_FOLDS_FROM_AFAR: Final[Mapping[int, str]] = {0x17F: "Ss", 0x212A: "Kk"}
"""Characters beyond ASCII that differ from ASCII ones in case only."""


def of(characters: Iterable[str]) -> int:
    """The class of these characters."""
    found = 0
    for character in characters:
        if ord(character) < 128:
            found |= 1 << ord(character)
    return found


def of_range(first: int, last: int, *, fold: bool) -> int:
    """The ASCII characters in a range of code points; with ``fold``, those too that differ from some in case only."""
    low, high = first, min(last, 127)
    found = ((1 << high - low + 1) - 1) << low if low <= high else 0
    if not fold:
        return found
    for far, near in _FOLDS_FROM_AFAR.items():
        if first <= far <= last:
            found |= of(near)
    return folded(found)


def folded(members: int) -> int:
    """The class, and every letter's other case."""
    upper, lower = members & _UPPER_CLASS, members & _LOWER_CLASS
    return members | upper << 32 | lower >> 32


_UPPER_CLASS: Final = of(_UPPER)
_LOWER_CLASS: Final = of(_LOWER)
WORD: Final = of(_ALPHA | _DIGIT | {"_"})

PERL: Final[Mapping[str, int]] = {
    "d": of(_DIGIT),
    "s": of("\t\n\f\r "),
    "w": WORD,
}
"""What ``\\d`` and the like stand for."""

POSIX: Final[Mapping[str, int]] = {
    "alnum": of(_ALPHA | _DIGIT),
    "alpha": of(_ALPHA),
    "ascii": ASCII,
    "blank": of("\t "),
    "cntrl": of(map(chr, [*range(32), 127])),
    "digit": of(_DIGIT),
    "graph": of(map(chr, range(33, 127))),
    "lower": of(_LOWER),
    "print": of(map(chr, range(32, 127))),
    "punct": of(character for character in map(chr, range(33, 127)) if not character.isalnum()),
    "space": of("\t\n\v\f\r "),
    "upper": of(_UPPER),
    "word": WORD,
    "xdigit": of("0123456789ABCDEFabcdef"),
}
"""What ``[:alpha:]`` and the like stand for."""

_CATEGORIES: Final = (
    "C Cc Cf Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs"
)
_SCRIPTS_BEYOND_ASCII: Final = """
Arabic Armenian Avestan Balinese Bamum Batak Bengali Bopomofo Brahmi Braille Buginese Buhid Canadian_Aboriginal
Carian Cham Cherokee Coptic Cuneiform Cypriot Cyrillic Deseret Devanagari Egyptian_Hieroglyphs Ethiopic Georgian
Glagolitic Gothic Greek Gujarati Gurmukhi Han Hangul Hanunoo Hebrew Hiragana Imperial_Aramaic Inherited
Inscriptional_Pahlavi Inscriptional_Parthian Javanese Kaithi Kannada Katakana Kayah_Li Kharoshthi Khmer Lao Lepcha
Limbu Linear_B Lisu Lycian Lydian Malayalam Mandaic Meetei_Mayek Mongolian Myanmar New_Tai_Lue Nko Ogham Ol_Chiki
Old_Italic Old_Persian Old_South_Arabian Old_Turkic Oriya Osmanya Phags_Pa Phoenician Rejang Runic Samaritan
Saurashtra Shavian Sinhala Sundanese Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le Tai_Tham Tai_Viet Tamil Telugu
Thaana Thai Tibetan Tifinagh Ugaritic Unknown Vai Yi
"""


def unicode_class(name: str) -> int | None:
    r"""What ``\p{name}`` stands for among ASCII characters: a general category or a script; None: there is no such."""
    if name == "Any":
        return ANY
    if name in _CATEGORIES.split():
        return of(character for character in map(chr, range(128)) if unicodedata.category(character).startswith(name))
    if name == "Latin":
        return of(_ALPHA)
    if name == "Common":
        return ASCII & ~of(_ALPHA)
    return 0 if name in _SCRIPTS_BEYOND_ASCII.split() else None
