"""Matching: the whole name, in time that grows with the name and not beyond."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_embedded.coordinator.pattern import machine as pattern
from broker_embedded.coordinator.pattern.machine import PatternError, compile_pattern

LEAVES = st.sampled_from(
    ["a", "b", "-", ".", "[ab]", "[^a]", r"\.", r"\w", r"\W", "^", "$", r"\b", r"\B", "(?:a|)", "a{2}", "b{1,2}"]
)
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: "(?:" + "|".join(parts) + ")"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{0,2}", "{1,}", "*?", "+?"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
    ),
    max_leaves=6,
)
NAMES = st.text("ab-.", min_size=1, max_size=6)
"""Not empty: there, Python has no ``\\B``."""


@given(EXPRESSIONS, NAMES)
def test_what_both_know_matches_as_in_python(expression: str, name: str) -> None:
    assert compile_pattern(expression).fullmatch(name) == (re.fullmatch(expression, name, re.DOTALL) is not None)


@pytest.mark.parametrize(
    "expression",
    ["(a+)+$", "(a|a)*b", "(a*)*(a*)*(a*)*c", "((a{1,8}){1,8}){1,8}c", "(.*a){12}c"],
)
def test_no_expression_takes_forever(expression: str) -> None:
    name = "a" * 249
    assert compile_pattern(expression).fullmatch(name) is (expression == "(a+)+$")


def test_steps_are_remembered_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pattern, "_MOST_REMEMBERED", 3)
    compiled = pattern.Pattern("(a|b|c|d)*")
    for _ in range(3):
        assert compiled.fullmatch("abcd")
        assert not compiled.fullmatch("abcx")
        assert len(compiled._steps) <= 8


def test_names_that_end_alike_cost_no_new_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the last look would be taken for every topic, which is long where an expression is."""
    compiled = pattern.Pattern("(a|b)*c?")
    names = {"ab": True, "ba": True, "abc": True, "bac": True, "abcc": False}
    assert {name: compiled.fullmatch(name) for name in names} == names
    monkeypatch.setattr(compiled, "_reached", None)
    assert {name: compiled.fullmatch(name) for name in names} == names


def test_an_expression_is_compiled_once() -> None:
    assert compile_pattern("once.*") is compile_pattern("once.*")


@pytest.mark.parametrize(
    "expression",
    [
        "größe",
        ".*",
        "gr.{2}e",
        r"gr\W\We",
        "gr[^a-z]{2}e",
        r"gr[ö-ø]\x{df}e",
        r"gr\x{f6}[\xdf]e",
        "(?i)GRÖßE",
        r"\Qgröße\E",
    ],
)
def test_names_may_go_beyond_ascii(expression: str) -> None:
    assert compile_pattern(expression).fullmatch("größe")


@pytest.mark.parametrize("expression", ["GRÖSSE", "gr[a-z]+e", r"gr\w+e", "gr[[:ascii:]]+e", "grö[À-Þ]e", "groesse"])
def test_names_beyond_ascii_that_are_not_meant(expression: str) -> None:
    assert not compile_pattern(expression).fullmatch("größe")


def test_what_is_no_expression() -> None:
    with pytest.raises(PatternError, match=re.escape("missing closing )")):
        compile_pattern("(a")
