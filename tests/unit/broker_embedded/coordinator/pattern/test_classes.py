"""Classes of ASCII characters."""

import string

import pytest

from broker_embedded.coordinator.pattern.classes import ASCII, PERL, POSIX, folded, of, of_range, unicode_class


def members(found: int | None) -> set[str]:
    assert found is not None
    assert 0 <= found <= ASCII
    return {chr(code) for code in range(128) if found >> code & 1}


def test_characters_beyond_ascii_are_in_no_class() -> None:
    assert members(of("aé😀")) == {"a"}
    assert members(of_range(ord("y"), ord("é"), fold=False)) == set("yz{|}~\x7f")
    assert of_range(200, 300, fold=False) == 0


def test_folding_adds_the_other_case() -> None:
    assert members(folded(of("aZ-1"))) == set("aAzZ-1")
    assert members(of_range(0x17F, 0x17F, fold=True)) == {"s", "S"}
    assert members(of_range(0x212A, 0x212A, fold=True)) == {"k", "K"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("alnum", string.ascii_letters + string.digits),
        ("alpha", string.ascii_letters),
        ("blank", " \t"),
        ("digit", string.digits),
        ("graph", string.ascii_letters + string.digits + string.punctuation),
        ("lower", string.ascii_lowercase),
        ("print", string.ascii_letters + string.digits + string.punctuation + " "),
        ("punct", string.punctuation),
        ("space", string.whitespace),
        ("upper", string.ascii_uppercase),
        ("word", string.ascii_letters + string.digits + "_"),
        ("xdigit", string.hexdigits),
        ("ascii", "".join(map(chr, range(128)))),
        ("cntrl", "".join(map(chr, [*range(32), 127]))),
    ],
)
def test_posix_classes(name: str, expected: str) -> None:
    assert members(POSIX[name]) == set(expected)


def test_perl_classes() -> None:
    assert members(PERL["d"]) == set(string.digits)
    assert members(PERL["s"]) == set(" \t\n\r\f")
    assert members(PERL["w"]) == set(string.ascii_letters + string.digits + "_")


def test_unicode_classes() -> None:
    assert members(unicode_class("L")) == set(string.ascii_letters)
    assert members(unicode_class("Ll")) == set(string.ascii_lowercase)
    assert members(unicode_class("Latin")) == set(string.ascii_letters)
    assert unicode_class("Latin") | unicode_class("Common") == ASCII  # type: ignore[operator]  # neither is None
    assert unicode_class("Han") == unicode_class("Old_Italic") == 0
    assert unicode_class("Klingon") is None
    assert unicode_class("") is None
