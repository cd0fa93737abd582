"""Java's regular expressions; tests/interop/test_java_patterns.py compares far more of them with Java."""

import re

import pytest

from spark_kafka_native._client.java_regex.patterns import java_pattern

NAMES = "orders orders-eu orders-us-1 Orders payments foo.bar foo-bar __x a1 aa ab K"


def found(expression: str) -> str:
    return " ".join(name for name in NAMES.split() if java_pattern(expression).search(name))


@pytest.mark.feature("source.subscribePattern")
@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("orders", "orders orders-eu orders-us-1"),  # anywhere in the name
        ("^orders$", "orders"),
        ("(?i)ORDERS$", "orders Orders"),
        ("o(?i)RDERS$", "orders"),
        ("(?i:O)rders$", "orders Orders"),
        ("((?i)O)rders$", "orders Orders"),
        ("o(?i)X|K$", "K"),  # a flag is on in the next alternatives, too
        (r"\p{Upper}", "Orders K"),
        (r"^\P{Alpha}", "__x"),
        (r"^\p{L}+$", "orders Orders payments aa ab K"),
        (r"^[\p{L}&&[^a-o]]", "payments Orders K"),
        ("^[a-z&&[^o]]+$", "payments aa ab"),
        ("^[a[b-z]]+$", "orders payments aa ab"),
        (r"^[^\W_a-z]", "Orders K"),
        (r"foo\Q.\Ebar", "foo.bar"),
        (r"\Qfoo.b", "foo.bar"),
        (r"(?<first>[a-z])\k<first>$", "aa"),
        (r"([a-z])\1$", "aa"),
        (r"([a-z])\11", ""),
        (r"^a(?:a|b)++$", "aa ab"),
        (r"^a++a$", ""),
        (r"^(?>a+)a$", ""),
        (r"(?<=-)\d$", "orders-us-1"),
        ("^(?!orders|payments|foo)", "Orders __x a1 aa ab K"),
        (r"\x61\x{61}|\u0061b|\0613", "aa ab"),
        ("x{2}|a{2,}?|o{0}b$", "aa ab"),
        ("é|[é]|a1", "a1"),
        ("(?i)é", ""),
        (r"\R|\h", ""),
        (r"\v|\A\d", ""),
        ("[a&&b]", ""),
        ("", NAMES),
        ("(?s-m)(?u:^orders$)", "orders"),
        (r"^[]a-]+$", "aa"),
        (r"[\w&&\d]", "orders-us-1 a1"),
    ],
)
def test_expressions_of_java(expression: str, names: str) -> None:
    assert sorted(found(expression).split()) == sorted(names.split())


@pytest.mark.feature("source.subscribePattern")
@pytest.mark.parametrize(
    ("expression", "complaint"),
    [
        ("(a", "an opening parenthesis without a closing one (at character 0)"),
        ("a)", "a closing parenthesis without an opening one"),
        ("*a", "nothing before '*' to repeat"),
        ("a**", "nothing before '*' to repeat"),
        ("a{x}", "a brace that begins no number of repetitions"),
        ("a{,2}", "a brace that begins no number of repetitions"),
        ("a{3,2}", "repetitions {3,2} that end before they begin"),
        ("[a", "a class without a closing bracket (at character 0)"),
        ("[]", "a class without a closing bracket"),
        ("[b-a]", "a range from 'b' that does not end at a later character"),
        (r"[a-\d]", "a range from 'a'"),
        ("[a&&]", "&& without a class on both sides"),
        ("[&&a]", "&& without a class on both sides"),
        (r"\p{Greek}", r"the class \p{Greek}, which is not known"),
        (r"\p", r"the class \p, which is not known"),
        (r"\y", r"\y, which is not supported"),
        (r"\X", r"\X, which is not supported"),
        (r"\b{g}", r"\b{...}, which is not supported"),
        (r"\x{110000}", r"\x without the number of a character"),
        (r"\u00", r"\u without the number of a character"),
        (r"\08", r"\0 without the number of a character"),
        ("a\\", "a backslash at the end"),
        ("(?x)a b", "the flag x, for white space and comments"),
        ("(?q)a", "'q' among the flags of a group"),
        ("(?P<n>a)", "(?P, which begins nothing in Java's expressions"),
        ("(?#note)", "(?#, which begins nothing in Java's expressions"),
        ("(?<1>a)", "a name of a group other than letters and digits"),
        ("(?<n>a)(?<n>b)", "two groups with the name n"),
        (r"\k<n>", "a reference to the group n, which does not exist before it"),
        (r"\kn", r"\k without the name of a group"),
        (r"\1(a)", "a reference to group 1, which does not end before it"),
        (r"(a\1)", "a reference to group 1, which does not end before it"),
        ("(?<=a*)b", "Python's regular expressions cannot do that: look-behind requires fixed-width pattern"),
        ("(" * 5000 + ")" * 5000, "nested too deeply"),
    ],
)
def test_unsupported_parts_of_a_pattern_are_named(expression: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(complaint)):
        java_pattern(expression)
