from collections.abc import Callable

import pytest

from broker_embedded._testing.fields import FieldError, Fields


def test_values_come_as_they_were_written() -> None:
    given = Fields({"a": "x", "n": 3, "p": 0.5, "none": None, "configs": {"k": "v"}, "raw": [1]})
    assert given.text("a") == "x"
    assert given.one_of("a", ("x", "y")) == "x"
    assert given.integer("n", least=3, most=3) == 3
    assert given.probability("p") == 0.5
    assert given.texts_by_name("configs") == {"k": "v"}
    assert given.take("raw") == [1]
    assert "n" in given
    assert "none" not in given
    given.refuse_rest("this")


def test_defaults_stand_for_what_is_not_there() -> None:
    given = Fields({"a": None})
    assert given.text("a", "d") == "d"
    assert given.text("a", None) is None
    assert given.one_of("a", ("x", "y"), "y") == "y"
    assert given.integer("a", 7) == 7
    assert given.integer("a", None) is None
    assert given.probability("a") == 1.0
    assert given.texts_by_name("a") == {}
    assert given.take("a") is None


@pytest.mark.parametrize(
    ("read", "problem"),
    [
        (lambda given: given.text("missing"), "the field is missing"),
        (lambda given: given.text("n"), "must be a non-empty string, not 5"),
        (lambda given: given.text("empty", None), "must be a non-empty string, not ''"),
        (lambda given: given.one_of("a", ("y", "z")), "'x' is not one of y, z"),
        (lambda given: given.integer("missing"), "the field is missing"),
        (lambda given: given.integer("a", 1), "'x' is not a whole number"),
        (lambda given: given.integer("yes"), "True is not a whole number"),
        (lambda given: given.integer("p"), "1.5 is not a whole number"),
        (lambda given: given.integer("n", least=6, most=8), "5 is not between 6 and 8"),
        (lambda given: given.integer("n", least=0, most=4), "5 is not between 0 and 4"),
        (lambda given: given.probability("p"), "must be a number greater than 0 and at most 1, not 1.5"),
        (lambda given: given.probability("zero"), "must be a number greater than 0 and at most 1, not 0"),
        (lambda given: given.probability("a"), "must be a number greater than 0 and at most 1, not 'x'"),
        (lambda given: given.probability("yes"), "must be a number greater than 0 and at most 1, not True"),
        (lambda given: given.texts_by_name("a"), "'x' must map strings to strings"),
        (lambda given: given.texts_by_name("numbers"), "{'k': 1} must map strings to strings"),
    ],
)
def test_wrong_values_are_named(read: Callable[[Fields], object], problem: str) -> None:
    given = Fields({"a": "x", "n": 5, "yes": True, "p": 1.5, "zero": 0, "empty": "", "numbers": {"k": 1}})
    with pytest.raises(FieldError) as caught:
        read(given)
    assert caught.value.problem.startswith(problem)
    assert str(caught.value) == f"{caught.value.field}: {caught.value.problem}"


def test_unknown_fields_are_refused() -> None:
    given = Fields({"b": 1, "a": 2})
    given.integer("b")
    with pytest.raises(FieldError, match="a: a kettle has no such field"):
        given.refuse_rest("a kettle")
