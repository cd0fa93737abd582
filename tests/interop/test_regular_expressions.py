"""Regular expressions of clients mean what they mean to Apache Kafka, whose library reads the same expressions."""

import random
import re

import pytest

from broker_embedded._groups.pattern import Pattern, PatternError
from tests.support.programs.java_programs import pattern_responses
from tests.support.report import skip_if
from tests.support.servers.apache_kafka import apache_kafka_unavailable, kafka_jars

pytestmark = pytest.mark.interop

EXPRESSIONS = 5_000
NAMES = (
    "\u00e9 \u00c9 \u017f \u212a \u0444 \u0424 a\u00e9 \u00e9b \U0001f600 "
    "a b ab aa foo foo-1 foo_2 foo.bar A aB K k s S _ - . 0 10 abc ba bb aab x a-b fooo o Foo FOO-1"
)
PARTS = r"""
a b . o - _ ^ $ | ( ) ? * + [ ] { } - , : \ 1 2 0 3 K s k S < > P = ! i U m s E
\d \w \D \S \W \b \B \A \z \Q \E \n \t \C \. \- \_ \0 \07 \1 \8 \101 \x41 \x{6f}
\pL \pN \p{Lu} \P{Lu} \p{^Lu} \p{Greek} \p{Latin} \p{Common} [:alpha:] [[:alpha:]] [[:^digit:]]
[a-c] [^a] []a] [^]a] [a- [-a] (?i) (?-i) (?i: (?s-i: (?i-s) (?: (?P<n> (?<n> (?) (?-) (?= (?! (?#
{2} {3} {1,2} {0,} {,2} {10} {500} {1001} {2,1} a* o+?
"""
"""What expressions are put together of, beside the letters that are next."""
LETTERS = ["\u017f", "[\u017f]", "\u212a", "\u00e9", "[\u00e9]", "[^\u00e9]", "\u0444", "[b-\u00e9]", r"\x{1f600}"]
"""Beyond ASCII; some differ from ASCII letters in case only."""
KNOWN = [r"orders|payments", r"(?i)foo.*", r"foo[-_]\d+", r"[[:lower:]]+", r"(a|b)*", r"\Qfoo.bar\E"]


DIFFERENCES = re.compile(r"\\C|\{[*+?{]|\\[^\x00-\x7f]|\{500\}.*\{|\{.*\{500\}|\\p\{Common\}")
"""What RE2 and RE2/J read differently, as docs/options.md lists it; their Unicode versions differ in the last."""


def said_by_ours(expression: str) -> str:
    try:
        pattern = Pattern(expression)
    except PatternError as error:
        return "large" if "too large" in str(error) else "no"
    return "".join("01"[pattern.fullmatch(name)] for name in NAMES.split())


def test_expressions_mean_what_they_mean_to_kafka(seed: int) -> None:
    skip_if(apache_kafka_unavailable())
    dice, parts = random.Random(seed), [*PARTS.split(), *LETTERS]
    made = ["".join(dice.choices(parts, k=dice.randint(1, 7))) for _ in range(EXPRESSIONS)]
    expressions = [*KNOWN, *made]
    theirs = pattern_responses("com.google.re2j", "matches", NAMES, expressions, kafka_jars())
    ours = list(map(said_by_ours, expressions))
    different = {
        expression: (our, their)
        for expression, our, their in zip(expressions, ours, theirs, strict=True)
        if our not in {"large", their[:2] if their.startswith("no") else their}
        and not DIFFERENCES.search(expression)
        and not their.startswith("no duplicate")
    }
    assert different == {}
    assert sum(our != "no" for our in ours) > EXPRESSIONS // 4
