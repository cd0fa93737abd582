import os.path
import sys
import types

import pytest

from spark_kafka_native.client.functions import find_function


def test_a_function_of_a_module_and_one_that_stands_deeper(monkeypatch: pytest.MonkeyPatch) -> None:
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
