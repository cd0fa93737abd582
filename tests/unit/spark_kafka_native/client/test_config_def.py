import dataclasses
import os.path
import pickle
import sys
import types

import pytest

from spark_kafka_native._client.config_def import (
    boolean,
    choice,
    define,
    find_function,
    function_or_class,
    integer,
    names,
    number,
    password,
    properties_of,
    servers,
    text,
)
from spark_kafka_native._net.errors import ConfigError
from spark_kafka_native._net.secret import Secret


@dataclasses.dataclass(kw_only=True)
class Options:
    some_servers: tuple[object, ...] = define(servers(), dataclasses.MISSING, "Where.")
    small_ms: int = define(integer(at_least=1, at_most=9, besides=frozenset({-1})), 5, "A number.")
    large_ms: int = define(integer(), 5, "A number.")
    on_off: bool = define(boolean(), True, "A switch.")
    colour: int = define(choice({"Red": 1, "green": 2}), 1, "A colour.")
    name_id: str | None = define(text(may_be_empty=False), None, "A name.")
    not_a_property: int = 3


@dataclasses.dataclass(kw_only=True)
class MoreOptions:
    part: float = define(number(at_least=0.0, at_most=1.0), 0.5, "A fraction.")
    patience_ms: int | None = define(integer(at_least=1), None, "A number.")
    colours: tuple[str, ...] = define(names("red, green"), ("red",), "Colours.")
    word: Secret | None = define(password(), None, "A secret.")
    maker: object = define(function_or_class(), None, "A function.")


MORE = properties_of(MoreOptions)


@pytest.mark.parametrize(
    ("name", "given", "parsed"),
    [
        ("part", " 0.25 ", 0.25),
        ("patience.ms", "7", 7),
        ("colours", " red, green,,red ", ("red", "green")),
        ("colours", "", ()),
        ("word", " hunter2 ", Secret(" hunter2 ")),
        ("word", Secret("x"), Secret("x")),
        ("maker", "a.b:c", "a.b:c"),
        ("maker", len, len),
    ],
)
def test_values_of_every_type(name: str, given: object, parsed: object) -> None:
    assert MORE[name].type.parse(given) == parsed


@pytest.mark.parametrize(
    ("name", "given", "complaint"),
    [
        ("part", "1.5", "1.5 is out of bounds; expected 0.0 to 1.0"),
        ("part", "half", "'half' is not a number"),
        ("part", "nan", "out of bounds"),
        ("patience.ms", "0", "0 is out of bounds; expected at least 1"),
        ("maker", "a b", "neither module:function nor"),
    ],
)
def test_malformed_values_of_every_type(name: str, given: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        MORE[name].type.parse(given)


def test_config_errors_can_be_pickled() -> None:
    error = ConfigError("acks", "must be all")
    assert str(pickle.loads(pickle.dumps(error))) == str(error) == "acks: must be all"


OPTIONS = properties_of(Options)


def test_fields_become_properties_with_dots() -> None:
    assert list(OPTIONS) == ["some.servers", "small.ms", "large.ms", "on.off", "colour", "name.id"]
    assert OPTIONS["small.ms"].default == 5
    assert OPTIONS["some.servers"].default is None
    assert OPTIONS["colour"].doc == "A colour."


@pytest.mark.parametrize(
    ("name", "legal"),
    [
        ("small.ms", "1 to 9 or -1"),
        ("large.ms", "at least 0"),
        ("on.off", "true or false"),
        ("colour", "Red, green"),
        ("name.id", "any string but the empty one"),
        ("some.servers", "host:port[,host:port...]"),
    ],
)
def test_legal_values_are_described(name: str, legal: str) -> None:
    assert OPTIONS[name].type.legal == legal


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("small.ms", "1", 1),
        ("small.ms", " 9 ", 9),
        ("small.ms", 4, 4),
        ("small.ms", "-1", -1),
        ("large.ms", "+2147483647", 2**31 - 1),
        ("on.off", "TRUE", True),
        ("on.off", False, False),
        ("colour", "RED", 1),
        ("colour", "Green", 2),
        ("name.id", " x ", "x"),
        ("some.servers", "a:1", (("a", 1),)),
    ],
)
def test_good_values(name: str, given: object, value: object) -> None:
    assert OPTIONS[name].type.parse(given) == value


@pytest.mark.parametrize(
    ("name", "given", "complaint"),
    [
        ("small.ms", "0", "0 is out of bounds; expected 1 to 9 or -1"),
        ("small.ms", "10", "10 is out of bounds"),
        ("small.ms", "-2", "-2 is out of bounds"),
        ("large.ms", "2147483648", "out of bounds; expected at least 0, at most 2147483647"),
        ("large.ms", "1.0", "'1.0' is not an integer"),
        ("large.ms", "", "'' is not an integer"),
        ("large.ms", True, "True is not an integer"),
        ("large.ms", "1_000", "'1_000' is not an integer"),
        ("on.off", "yes", "'yes' is neither true nor false"),
        ("colour", "blue", "'blue' is not one of Red, green"),
        ("name.id", " ", "is empty"),
        ("some.servers", "a", "has no port"),
    ],
)
def test_bad_values(name: str, given: object, complaint: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        OPTIONS[name].type.parse(given)
    assert complaint in str(caught.value)


def test_functions_of_a_module_and_of_a_class(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_function("os.path:basename") is os.path.basename
    library = types.ModuleType("my_functions")
    vars(library).update(Maker=types.SimpleNamespace(make=len))
    monkeypatch.setitem(sys.modules, "my_functions", library)
    assert find_function("my_functions:Maker.make") is len


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("no_such_module:f", "No module named 'no_such_module'"),
        ("os:no_such_function", "has no attribute 'no_such_function'"),
        ("os", "has no attribute ''"),
    ],
)
def test_a_function_that_is_not_there(name: str, reason: str) -> None:
    with pytest.raises(LookupError, match=reason):
        find_function(name)


def test_what_is_no_function() -> None:
    with pytest.raises(TypeError, match="os:sep is no function"):
        find_function("os:sep")
