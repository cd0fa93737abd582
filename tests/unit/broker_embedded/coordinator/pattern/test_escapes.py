"""Backslashes and brackets."""

import pytest

from broker_embedded.coordinator.pattern.classes import ANY
from broker_embedded.coordinator.pattern.escapes import (
    PatternError,
    Reader,
    read_brackets,
    read_class_escape,
    read_escape,
)


def members(found: int | None) -> str:
    assert found is not None
    return "".join(chr(code) for code in range(128) if found >> code & 1)


@pytest.mark.parametrize(
    ("text", "code", "rest"),
    [
        (r"\nx", 10, "x"),
        (r"\a", 7, ""),
        (r"\x41b", 0x41, "b"),
        (r"\x{1F600}b", 0x1F600, "b"),
        (r"\101b", 0o101, "b"),
        (r"\0b", 0, "b"),
        (r"\07", 7, ""),
        (r"\1234", 0o123, "4"),
        (r"\.", ord("."), ""),
        (r"\_", ord("_"), ""),
        ("\\é", ord("é"), ""),
    ],
)
def test_single_characters(text: str, code: int, rest: str) -> None:
    reader = Reader(text)
    assert (read_escape(reader), reader.text[reader.place :]) == (code, rest)


@pytest.mark.parametrize("text", [r"\1", r"\8", r"\C", r"\q", r"\x4", r"\xg1", r"\x{}", r"\x{110000}", r"\x{41", r"\x"])
def test_no_characters(text: str) -> None:
    with pytest.raises(PatternError, match="invalid escape sequence"):
        read_escape(Reader(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[abc]", "abc"),
        ("[a-c]", "abc"),
        ("[]a]", "]a"),
        ("[-a]", "-a"),
        ("[a-]", "-a"),
        ("[a-c-e]", "-abce"),
        (r"[\d_]", "0123456789_"),
        (r"[\]\\]", "]\\"),
        ("[[:upper:]x]", "ABCDEFGHIJKLMNOPQRSTUVWXYZx"),
        ("[[:word:]-]", "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"),
        ("[[:x]", ":[x"),
        (r"[\pN]", "0123456789"),
        ("[é]", ""),
        ("[x-ÿ]", "xyz{|}~\x7f"),
    ],
)
def test_brackets(text: str, expected: str) -> None:
    assert sorted(members(read_brackets(Reader(text), fold=False))) == sorted(expected)


def test_brackets_that_say_what_they_are_not() -> None:
    assert read_brackets(Reader("[^a-c]"), fold=False) == ANY & ~read_brackets(Reader("[a-c]"), fold=False)
    assert members(read_brackets(Reader("[^]a]"), fold=False)).count("]") == 0
    assert members(read_brackets(Reader("[[:^alpha:]]"), fold=False)).isalpha() is False


def test_brackets_where_case_does_not_matter() -> None:
    assert members(read_brackets(Reader("[a-c]"), fold=True)) == "ABCabc"
    assert members(read_brackets(Reader("[\u0100-\u2200]"), fold=True)) == "KSks"
    assert "a" not in members(read_brackets(Reader("[^A]"), fold=True))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[", "missing closing ]"),
        ("[]", "missing closing ]"),
        ("[a-", "missing closing ]"),
        ("[a", "missing closing ]"),
        ("[b-a]", "invalid character class range"),
        ("[[:nope:]]", "invalid character class range"),
        (r"[\1]", "invalid escape sequence"),
        ("[\\", "trailing backslash at end of expression"),
    ],
)
def test_no_brackets(text: str, problem: str) -> None:
    with pytest.raises(PatternError) as caught:
        read_brackets(Reader(text), fold=False)
    assert str(caught.value) == problem


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"\d", "0123456789"),
        (r"\pN", "0123456789"),
        (r"\p{Lu}", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
        (r"\p{Greek}", ""),
        (r"\P{Any}", ""),
        (r"\p{^Any}", ""),
        (r"\P{^Nd}", "0123456789"),
    ],
)
def test_classes_by_name(text: str, expected: str) -> None:
    assert members(read_class_escape(Reader(text), fold=False)) == expected


def test_case_matters_in_classes_unless_told_otherwise() -> None:
    assert members(read_class_escape(Reader(r"\p{Lu}"), fold=True)).swapcase().startswith("abc")


def test_other_escapes_are_left_alone() -> None:
    reader = Reader(r"\n")
    assert read_class_escape(reader, fold=False) is None
    assert reader.place == 0


@pytest.mark.parametrize("text", [r"\p", r"\p{", r"\p{Lu", r"\p{}", r"\p{Nope}", r"\pX"])
def test_no_classes(text: str) -> None:
    with pytest.raises(PatternError, match="invalid character class range"):
        read_class_escape(Reader(text), fold=False)


@pytest.mark.parametrize(("small", "large"), [(r"\d", r"\D"), (r"\s", r"\S"), (r"\w", r"\W"), (r"\pL", r"\PL")])
@pytest.mark.parametrize("fold", [False, True])
def test_classes_and_their_opposites(small: str, large: str, fold: bool) -> None:
    found, opposite = (read_class_escape(Reader(text), fold=fold) for text in (small, large))
    assert found is not None
    assert opposite == ANY & ~found


@pytest.mark.parametrize(
    ("text", "plain", "folded"),
    [
        ("[[:lower:]]", "k", "kK\u017f\u212a"),
        ("[[:^upper:]k]", "k1-_\u017f\u212a\u00e9", "kK1-_\u212a\u00e9"),
        (r"[\w]", "kK1_", "kK1_\u017f\u212a"),
        (r"[^\w]", "-\u017f\u212a\u00e9", "-\u00e9"),
        (r"[\D]", "kK-_\u017f\u212a\u00e9", "kK-_\u017f\u212a\u00e9"),
        (r"[\p{Lu}]", "K", "kK\u017f\u212a"),
    ],
)
def test_named_classes_have_other_cases(text: str, plain: str, folded: str) -> None:
    for fold, expected in ((False, plain), (True, folded)):
        reader = Reader(text)
        found = read_brackets(reader, fold=fold)
        every = "kK1-_\u017f\u212a\u00e9"
        assert "".join(each for each in every if found >> reader.alphabet.number(ord(each)) & 1) == expected
