import string

import pytest

from spark_kafka_native._client.java_regex.classes import ANY, ESCAPED_CLASSES, any_case, class_text, property_class


@pytest.mark.parametrize(
    ("name", "chars"),
    [
        ("Alpha", string.ascii_letters),
        ("Lower", string.ascii_lowercase),
        ("Alnum", string.ascii_letters + string.digits),
        ("XDigit", string.hexdigits),
        ("Blank", " \t"),
        ("L", string.ascii_letters),
        ("Lu", string.ascii_uppercase),
        ("IsLu", string.ascii_uppercase),
        ("gc=Lu", string.ascii_uppercase),
        ("general_category=Nd", string.digits),
        ("Pd", "-"),
        ("Pc", "_"),
        ("Lt", ""),
        ("IsAlphabetic", string.ascii_letters),
        ("IsLatin", string.ascii_letters),
        ("script=latn", string.ascii_letters),
        ("IsUppercase", string.ascii_uppercase),
        ("javaLetterOrDigit", string.ascii_letters + string.digits),
        ("javaWhitespace", " \t\n\v\f\r\x1c\x1d\x1e\x1f"),
    ],
)
def test_a_java_property_is_a_set_of_characters(name: str, chars: str) -> None:
    assert property_class(name) == frozenset(chars)


def test_properties_of_all_characters() -> None:
    assert property_class("ASCII") == property_class("L1") == property_class("IsAssigned") == ANY


@pytest.mark.parametrize(
    "name", ["", "alpha", "Greek", "IsGreek", "InGreek", "script=Greek", "block=BasicLatin", "x=y"]
)
def test_properties_that_are_not_known(name: str) -> None:
    assert property_class(name) is None


def test_escaped_classes() -> None:
    assert ESCAPED_CLASSES["w"] == frozenset(string.ascii_letters + string.digits + "_")
    assert any_case(frozenset("aB-")) == frozenset("aAbB-")


def test_classes_as_text() -> None:
    assert class_text(frozenset("acbx")) == r"[\x61-\x63\x78]"
    assert class_text(frozenset()) == "(?!)"
