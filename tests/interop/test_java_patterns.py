"""``subscribePattern`` finds the topics that Java's regular expressions find, or is refused."""

import random

import pytest

from spark_kafka_native._client.java_regex.patterns import java_pattern
from tests.support.programs.java_programs import pattern_responses
from tests.support.programs.toolchains import ToolMissing

pytestmark = pytest.mark.interop

EXPRESSIONS = 20_000
NAMES = "a b ab aa foo foo-1 foo_2 foo.bar A aB K k s S _ - . 0 10 abc ba bb aab x a-b fooo o Foo FOO-1 a1a aXa .a"
PARTS = r"""
a b . o - _ ^ $ | ( ) ? * + [ ] { } - , : \ 1 2 0 3 K s k S < > P = ! & && && (a (b) (?:
\d \w \D \S \W \s \h \H \v \V \R \b \B \A \z \Z \G \Q \E \n \t \. \- \_ \07 \1 \2 \k<n> \k<m> \x41 \x{6f} \u0041 \cA
\e \a \f \r \j \X \N \P \p \pL \pN \p{Lu} \P{Lu} \p{Alpha} \p{Alnum} \p{Punct} \p{Graph} \p{XDigit} \P{Digit} \p{Space}
\p{ASCII} \p{IsAlphabetic} \p{IsLatin} \p{javaLetter} \p{gc=Nd} \p{script=Common} \p{IsPunctuation} \p{Pd} \p{Sc} \p{LC}
[a-c] [^a] []a] [^]a] [a- [-a] [a-z&&[^b]] [a-z&&b-d] [^a-z&&[^o]] [a[b-d]] [\d-_] [a-\d] [b-a] [\Q-\E] [\w&&[^\d]]
(?i) (?-i) (?i: (?s-i: (?i-s) (?m) (?) (?<n> (?<m> (?P<n> (?= (?! (?<= (?<! (?> (?# (?x) (?iu) *+ ++ ?+ *? +? ??
{2} {3} {1,2} {0,} {,2} {2,1} {1}+ {0,2}? {10} a* o+? (o|f)
"""
"""What expressions are put together of."""
KNOWN = [
    r"orders|payments",
    r"(?i)FOO.*",
    r"foo[-_.]\w+$",
    r"^\p{Alpha}+(?:-\d++)?$",
    r"\Qfoo.bar\E",
    r"(?<first>[a-z])\k<first>",
    r"a(?i)b|k",
    r"^(?!foo).*$",
    r"[\p{L}&&[^\p{Lu}]]{3,}+",
]
ONLY_HERE_REFUSED = ("not supported", "which does not end before it", "Python's regular expressions", "is not known")
"""Complaints about what Java can and this source cannot."""


def said_by_java(expressions: list[str]) -> list[str]:
    try:
        return pattern_responses("java.util.regex", "find", NAMES, expressions)
    except ToolMissing as missing:
        pytest.skip(str(missing))


def said_by_ours(expression: str) -> str:
    try:
        pattern = java_pattern(expression)
    except ValueError as error:
        return f"no {error}"
    return "".join("01"[pattern.search(name) is not None] for name in NAMES.split())


def agree(ours: str, theirs: str) -> bool:
    if ours.startswith("no"):
        return theirs.startswith("no") or any(text in ours for text in ONLY_HERE_REFUSED)
    return ours == theirs


@pytest.mark.feature("source.subscribePattern")
def test_expressions_find_what_they_find_in_java(seed: int) -> None:
    dice, parts = random.Random(seed), PARTS.split()
    made = ["".join(dice.choices(parts, k=dice.randint(1, 6))) for _ in range(EXPRESSIONS)]
    expressions = [*KNOWN, *made]
    theirs = said_by_java(expressions)
    ours = [said_by_ours(expression) for expression in expressions]
    different = {
        expression: (our, their)
        for expression, our, their in zip(expressions, ours, theirs, strict=True)
        if not agree(our, their)
    }
    assert different == {}
    assert not any(our.startswith("no") for our in ours[: len(KNOWN)])
    assert sum(not our.startswith("no") for our in ours) > EXPRESSIONS // 6
