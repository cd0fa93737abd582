"""RE2's syntax: what is in it, what is not, and what it means."""

import pytest

from broker_embedded.coordinator.pattern.escapes import PatternError
from broker_embedded.coordinator.pattern.machine import compile_pattern
from broker_embedded.coordinator.pattern.syntax import parse

NAMES = ("a", "A", "aa", "ab", "abab", "b", "a-b", "a.b", "a{1", "", "a1", "_", "{", "k", "s", "foo-bar", "aaa")


@pytest.mark.parametrize(
    ("expression", "matches"),
    [
        ("a|b", "a b"),
        ("(a|b)+", "a aa ab abab b aaa"),
        ("(ab){2}", "abab"),
        ("a{2,3}", "aa aaa"),
        ("a{2,}", "aa aaa"),
        ("a{0}b", "b"),
        ("a{1", "a{1"),
        ("{", "{"),
        ("a{,2}", ""),
        ("a*?", "a aa  aaa"),
        ("", ""),
        ("()*", ""),
        ("|a", "a "),
        ("a.b", "a-b a.b"),
        (r"a\.b", "a.b"),
        (r"\Qa.b\E", "a.b"),
        (r"\Qa.b", "a.b"),
        (r"\Qa\E+", "a aa aaa"),
        ("(?i)A", "a A"),
        ("(?i:A)|B", "a A"),
        ("((?i)A)A|A", "A aA"),
        ("(?i-s)a(?-i)b", "ab"),
        ("(?i)\u017f|\u212a", "k s"),
        ("(?P<name>a)(?<other>b)", "ab"),
        ("(?:a)(?U)b", "ab"),
        ("(?)a", "a"),
        ("^a$", "a"),
        (r"\Aa\z", "a"),
        ("a^b|(?m)^a$", "a"),
        (r"\w+\b-\bb\w*", "a-b foo-bar"),
        (r"a\Bb|a\bb", "ab"),
        ("(a)(?:b)|[[:alpha:]]1", "ab a1"),
    ],
)
def test_what_an_expression_matches(expression: str, matches: str) -> None:
    compiled = compile_pattern(expression)
    expected = set(matches.split(" ")) & set(NAMES) if matches else {""} & set(NAMES)
    if expression == "a{,2}":
        expected = set()
    assert {name for name in NAMES if compiled.fullmatch(name)} == expected


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("(", "missing closing )"),
        ("a)", "unexpected )"),
        ("*", "missing argument to repetition operator"),
        ("(|+)", "missing argument to repetition operator"),
        ("a**", "invalid nested repetition operator"),
        ("a*{2}", "invalid nested repetition operator"),
        ("a???", "invalid nested repetition operator"),
        ("{*", "invalid nested repetition operator"),
        ("a{1001}", "invalid repeat count"),
        ("a{3,2}", "invalid repeat count"),
        ("a{2,1001}", "invalid repeat count"),
        ("(?=a)", "invalid or unsupported Perl syntax"),
        ("(?!a)", "invalid or unsupported Perl syntax"),
        ("(?<=a)", "invalid or unsupported Perl syntax"),
        ("(?>a)", "invalid or unsupported Perl syntax"),
        ("(?i", "invalid or unsupported Perl syntax"),
        ("(?-)", "invalid or unsupported Perl syntax"),
        ("(?P<a-b>c)", "invalid named capture"),
        ("(?P<>c)", "invalid named capture"),
        ("(?P<a", "invalid named capture"),
        ("(?P<a>b)(?<a>c)", "duplicate capture group name"),
        (r"(a)\1", "invalid escape sequence"),
        ("a\\", "trailing backslash at end of expression"),
        ("[", "missing closing ]"),
        ("(" * 1001 + ")" * 1001, "expression nests too deeply"),
        ("((a{1000}){1000})", "expression is too large"),
        ("((((((a*)+){500}){500})))", "expression is too large"),
        ("((a{1,20}){1,20}){1,20}", "expression is too large"),
        ("(a|b){1000}" * 6, "expression is too large"),
        ("(" * 13 + "|" * 5001 + ")" * 13, "expression is too large"),
    ],
)
def test_what_is_no_expression(expression: str, problem: str) -> None:
    with pytest.raises(PatternError) as caught:
        parse(expression)
    assert str(caught.value) == problem


def test_depth_costs_no_recursion() -> None:
    assert compile_pattern("(" * 1000 + "a" + ")" * 1000).fullmatch("a")


def test_a_long_list_of_names_is_an_expression() -> None:
    names = [f"topic-{number}" for number in range(500)]
    compiled = compile_pattern("|".join(names))
    assert all(map(compiled.fullmatch, names))
    assert not compiled.fullmatch("topic-500")
