import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_embedded._groups.pattern import Pattern, PatternError

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
NAMES = ("a", "A", "aa", "ab", "abab", "b", "a-b", "a.b", "a{1", "", "a1", "_", "{", "k", "s", "foo-bar", "aaa")


@given(EXPRESSIONS, st.text("ab-.", min_size=1, max_size=6))  # in an empty name Python's re has no \B
def test_a_name_matches_as_in_python_where_both_know_the_syntax(expression: str, name: str) -> None:
    assert Pattern(expression).fullmatch(name) == (re.fullmatch(expression, name) is not None)


@pytest.mark.parametrize(
    ("expression", "matches"),
    [
        ("a|b", ["a", "b"]),
        ("(a|b)+", ["a", "aa", "ab", "abab", "b", "aaa"]),
        ("(ab){2}", ["abab"]),
        ("a{2,3}", ["aa", "aaa"]),
        ("a{2,}", ["aa", "aaa"]),
        ("a{0}b", ["b"]),
        ("a{1", ["a{1"]),
        ("{", ["{"]),
        ("a{,2}", []),
        ("a*?", ["a", "aa", "", "aaa"]),
        ("", [""]),
        ("()*", [""]),
        ("|a", ["a", ""]),
        ("a.b", ["a-b", "a.b"]),
        (r"a\.b", ["a.b"]),
        (r"a\x2eb", ["a.b"]),
        (r"a\x{2e}b", ["a.b"]),
        (r"a\056b", ["a.b"]),
        (r"\Qa.b\E", ["a.b"]),
        (r"\Qa.b", ["a.b"]),
        (r"\Qa\E+", ["a", "aa", "aaa"]),
        ("(?i)A", ["a", "A"]),
        ("(?i:A)|B", ["a", "A"]),
        ("((?i)A)A|A", ["A"]),
        ("(?i-s)a(?-i)b", ["ab"]),
        ("(?i)\u017f|\u212a", ["k", "s"]),
        ("(?i)[[:lower:]]", ["a", "A", "b", "k", "s"]),
        ("(?P<name>a)(?<other>b)", ["ab"]),
        ("(?:a)(?U)b", ["ab"]),
        ("^a$", ["a"]),
        (r"\Aa\z", ["a"]),
        ("a^b|(?m)^a$", ["a"]),
        (r"\w+\b-\bb\w*", ["a-b", "foo-bar"]),
        (r"a\Bb|a\bb", ["ab"]),
        ("(a)(?:b)|[[:alpha:]]1", ["ab", "a1"]),
        ("[a-c]", ["a", "b"]),
        ("[]_]", ["_"]),
        ("[-_]", ["_"]),
        ("[^a-z]", ["A", "_", "{"]),
        (r"[\d_]", ["_"]),
        ("[[:upper:]_]", ["A", "_"]),
        ("[[:^alpha:]]", ["_", "{"]),
        (r"\pL\pN", ["a1"]),
        (r"\p{Lu}", ["A"]),
        (r"\P{Ll}", ["A", "_", "{"]),
    ],
)
def test_what_an_expression_matches(expression: str, matches: list[str]) -> None:
    assert set(filter(Pattern(expression).fullmatch, NAMES)) == set(matches)


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("(", "missing ): ("),
        ("a)", "unexpected ): a)"),
        ("*", "no argument for repetition operator: *"),
        ("(|+)", "no argument for repetition operator: +"),
        ("a**", "bad repetition operator: **"),
        ("a*{2}", "bad repetition operator: *{2}"),
        ("a???", "bad repetition operator: ???"),
        ("a{1001}", "invalid repetition size: {1001}"),
        ("a{3,2}", "invalid repetition size: {3,2}"),
        ("a{2,1001}", "invalid repetition size: {2,1001}"),
        ("((a{100}){100})", "invalid repetition size: {100}"),
        ("(?=a)", "invalid perl operator: (?="),
        ("(?!a)", "invalid perl operator: (?!"),
        ("(?<=a)", "invalid perl operator: (?<="),
        ("(?>a)", "invalid perl operator: (?>"),
        ("(?i", "invalid perl operator: (?i"),
        ("(?P<a-b>c)", "invalid named capture group: (?P<a-b>"),
        ("(?P<>c)", "invalid named capture group: (?P<>"),
        (r"(a)\1", r"invalid escape sequence: \1"),
        (r"\q", r"invalid escape sequence: \q"),
        (r"\x{110000}", r"invalid escape sequence: \x{110000"),
        ("a\\", "trailing \\"),
        ("[", "missing ]: ["),
        ("[b-a]", "invalid character class range: b-a"),
        ("[[:nope:]]", "invalid character class range: [:nope:]"),
        (r"\p{Nope}", r"invalid character class range: \p{Nope}"),
    ],
)
def test_a_malformed_expression_is_refused_and_the_error_names_the_place(expression: str, problem: str) -> None:
    with pytest.raises(PatternError, match=re.escape(problem)):
        Pattern(expression)


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("a" * 50_001, "more than 50000 characters"),
        (r"\pL" * 50 + r"\PN|" * 51, r"more than 100 classes \p or \P"),
        ("(?:a*b){900}" * 900, "pattern too large"),
        (r"\pL{1000}", "pattern too large"),
        ("a{0,1000}" * 6, "pattern too large"),
        ("a{0,1000}" * 43, "pattern too large"),
        ("a{0,100}" * 60, "pattern too large"),
        ("a{0,100}" * 400, "pattern too large"),
        ("[ab]{0,1000}" * 40, "pattern too large"),
        ("a?" * 25_000, "pattern too large"),
        ("|".join(f"{chr(ord('a') + number)}{{0,1000}}" for number in range(26)), "pattern too large"),
        ("|".join(f"{number:05}x?" for number in range(5000)), "pattern too large"),
        ("|".join(f"{number:04}|{number:04}x" for number in range(4500)), "pattern too large"),
    ],
)
def test_an_expression_that_is_too_large_is_refused(
    expression: str, problem: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(PatternError, match=re.escape(problem)):
        Pattern(expression)
    assert capfd.readouterr().err == "", "clients cannot write to the broker's standard error"


@pytest.mark.parametrize(
    "expression",
    [
        "|".join(f"topic-{number:04}" for number in range(4000)),
        "|".join(rf"{number * 7919 % 2003}-orders\.v{number % 7}" for number in range(2000)),
        "(a?b?c?d?e?f?g?h?i?j?k?l?m?n?o?p?q?r?s?t?u?v?w?x?y?z?0?1?2?3?4?5?6?7?8?9?){138}",
        r"(?:\pL|\pN|[._-]){1,5}",
        "(" * 900 + "a" + ")" * 900,
    ],
)
def test_large_expressions_within_the_bounds_are_accepted(expression: str) -> None:
    assert not Pattern(expression).fullmatch("-" * 249)


@pytest.mark.parametrize("expression", ["(a+)+$", "(a|a)*b", "(a*)*(a*)*(a*)*c", "((a{1,8}){1,8}){1,8}c", "(.*a){12}c"])
def test_no_expression_takes_exponential_time(expression: str) -> None:
    name = "a" * 249
    assert Pattern(expression).fullmatch(name) is (expression == "(a+)+$")


@pytest.mark.parametrize(
    ("expressions", "matches"),
    [
        (["größe", ".*", "gr.{2}e", r"gr\W\We", "gr[^a-z]{2}e", r"gr[ö-ø]\x{df}e"], True),
        ([r"gr\x{f6}[\xdf]e", "(?i)GRÖßE", r"\Qgröße\E", r"\pL*"], True),
        (["GRÖSSE", "gr[a-z]+e", r"gr\w+e", "gr[[:ascii:]]+e", "grö[À-Þ]e", "groesse"], False),
    ],
)
def test_names_with_non_ascii_characters_match(expressions: list[str], matches: bool) -> None:
    assert {expression: Pattern(expression).fullmatch("größe") for expression in expressions} == dict.fromkeys(
        expressions, matches
    )


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("(?:a|b|c){1000}" * 101, "repetitions are more than 100000 in all"),
        ("(?:a|b|c){2,1000}" * 101, "repetitions are more than 100000 in all"),
        (r"\\x{1000}" * 101, "repetitions are more than 100000 in all"),
        ("(?i)" + "[A-\U0010ffff]" * 2001, r"more than 2000 classes of characters and \(\?i\)"),
        ("(?s)(?mi:" + r"\W" * 2001 + ")", r"more than 2000 classes of characters and \(\?i\)"),
    ],
)
def test_an_expression_that_would_take_long_to_compile_is_not_compiled(
    expression: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("re2.compile", lambda *_: pytest.fail("it is compiled"))
    with pytest.raises(PatternError, match=problem):
        Pattern(expression)


def test_many_repetitions_and_classes_within_the_bounds_are_accepted() -> None:
    assert Pattern("a{0,1000}" * 5).fullmatch("a" * 10)
    assert Pattern("(?i)" + "[a-c]?" * 2000).fullmatch("ABC")
    assert Pattern("[a-c]?" * 5000).fullmatch("abc")
    assert Pattern(r"(?:\x{1000}|\{1000})?" * 200).fullmatch("\u1000{1000}")
