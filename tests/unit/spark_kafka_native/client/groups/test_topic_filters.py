"""The topics that filters accept, as Kafka's ``TopicFilter`` and ``java.util.regex`` read their expressions."""

from typing import Any

import pytest

from spark_kafka_native._client.groups.topic_filters import Blacklist, TopicFilter, Whitelist
from spark_kafka_native._client.java_regex.patterns import java_pattern


def accepted(topic_filter: TopicFilter, *names: str) -> list[str]:
    return [name for name in names if topic_filter.accepts(name)]


def test_a_white_list_accepts_whole_names_that_match() -> None:
    assert accepted(Whitelist("events"), "events", "events2", "my-events", "Events") == ["events"]
    assert accepted(Whitelist("events.*"), "events", "events2", "my-events") == ["events", "events2"]


def test_a_black_list_accepts_whole_names_that_do_not_match() -> None:
    assert accepted(Blacklist("events"), "events", "events2", "my-events") == ["events2", "my-events"]
    assert accepted(Blacklist("events.*|logs"), "events2", "logs", "my-events") == ["my-events"]


@pytest.mark.parametrize(
    ("expression", "regex"),
    [
        ("a,b", "a|b"),
        ("a, b ,c", "a|b|c"),
        ("  a  ", "a"),
        ("'a'", "a"),
        ('"a,b"', "a|b"),
        ("\"'a'\"", "a"),
        ("a'b", "a'b"),
        ("a b", "ab"),
        (" 'a ' ", "a"),
    ],
)
def test_commas_spaces_and_quotes_are_as_in_kafkas_topic_filter(expression: str, regex: str) -> None:
    assert Whitelist(expression).expression == Blacklist(expression).expression == regex


def test_a_comma_separates_topics() -> None:
    assert accepted(Whitelist("a, b"), "a", "b", "a, b", "ab") == ["a", "b"]
    assert accepted(Blacklist("a, b"), "a", "b", "c") == ["c"]


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        (r"[a-c&&[^b]]", ["a", "c"]),
        (r"[a[c]]", ["a", "c"]),
        (r"\p{Lower}", ["a", "b", "c"]),
        (r"a++", ["a", "aa"]),
        (r"(?i)A{1}", ["a"]),
        (r"\Qa.b\E", ["a.b"]),
        (r"(?<x>a)\k<x>", ["aa"]),
        (r"\x61", ["a"]),
    ],
)
def test_expressions_have_javas_syntax(expression: str, names: list[str]) -> None:
    assert accepted(Whitelist(expression), "a", "b", "c", "aa", "a.b", "axb") == names


@pytest.mark.parametrize(
    "expression", ["a", r"[a-c&&[^b]]", r"^a$", r"\Aa\z", r"(?i)A{1}|\\Z", r"\Q.\E", r"\bx\w*+", r"a*?"]
)
def test_an_expression_matches_the_same_names_with_re2_and_without(expression: str) -> None:
    names = ["", "a", "b", "aa", ".", "\\Z", "Z", "x", "x1"]
    assert accepted(Whitelist(expression), *names) == [
        name for name in names if java_pattern(expression).fullmatch(name)
    ]


@pytest.mark.parametrize(
    ("expression", "is_linear"),
    [("a.*|b", True), (r"^\Qa.b\E$", True), ("(?!a).*", False), (r"(a)\1", False), ("a++", False), ("(?>a)", False)],
)
def test_a_filter_knows_whether_its_matches_take_linear_time(expression: str, is_linear: bool) -> None:
    assert Whitelist(expression).is_linear is is_linear


@pytest.mark.parametrize("kind", [Whitelist, Blacklist])
@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("(", "an opening parenthesis without a closing one"),
        ("*", r"nothing before '\*' to repeat"),
        ("t[a", "class"),
        (r"\p{IsGreek}", r"the class \\p\{IsGreek\}, which is not known"),
        (r"(?<=a)\1", "a reference to group 1"),
    ],
)
def test_an_expression_that_cannot_be_used_is_an_error_that_names_it(
    kind: type[TopicFilter], expression: str, reason: str
) -> None:
    with pytest.raises(ValueError, match=reason) as raised:
        kind(expression)
    assert str(raised.value).startswith("the topic filter '")


@pytest.mark.parametrize("expression", ["", "  ", "''", '"', "' '"])
def test_an_empty_expression_is_an_error(expression: str) -> None:
    with pytest.raises(ValueError, match="the expression of a topic filter is empty"):
        Whitelist(expression)


@pytest.mark.parametrize("expression", [None, 5, b"a", ["a"]])
def test_an_expression_of_another_type_is_an_error(expression: Any) -> None:
    with pytest.raises(TypeError, match=f"a topic filter must be str, not {type(expression).__name__}"):
        Blacklist(expression)


def test_a_filter_shows_its_expression() -> None:
    assert (repr(Whitelist("a,b")), repr(Blacklist("c"))) == ("Whitelist('a|b')", "Blacklist('c')")
