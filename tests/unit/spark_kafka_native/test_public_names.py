"""Public names can be imported and type-checked, say what they are, and are in docs/interface.md."""

import ast
import importlib
import inspect
from pathlib import Path
from types import ModuleType

import pytest

import broker_embedded.testing
import spark_kafka_native
import spark_kafka_native.clients
import spark_kafka_native.confluent
from docs import interface

MODULES = [spark_kafka_native, spark_kafka_native.clients, spark_kafka_native.confluent, broker_embedded.testing]
PACKAGES = ("spark_kafka_native", "broker_embedded")
each_module = pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)


def imported(module: ModuleType) -> set[str]:
    """The names that a type checker sees: those that the module, or its stub, imports at the top or for checkers."""
    file = Path(str(module.__file__))
    stub = file.with_suffix(".pyi")
    tree = ast.parse((stub if stub.exists() else file).read_text(encoding="utf-8"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    return names | {ast.unparse(node.target) for node in tree.body if isinstance(node, ast.AnnAssign)}


def is_own_method(value: object) -> bool:
    return inspect.isfunction(value) and value.__module__.startswith(PACKAGES) and not value.__name__.startswith("_")


@each_module
def test_every_public_name_is_found_at_run_time_and_by_type_checkers(module: ModuleType) -> None:
    names = set(module.__all__)
    assert names - imported(module) == set()
    assert names - set(dir(module)) == set()
    assert {name for name in names if not hasattr(module, name)} == set()


@each_module
def test_an_unknown_name_is_an_attribute_error(module: ModuleType) -> None:
    with pytest.raises(AttributeError, match=rf"module '{module.__name__}' has no attribute 'nonsense'"):
        _ = module.nonsense
    with pytest.raises(ImportError, match="cannot import name 'nonsense'"):
        exec(f"from {module.__name__} import nonsense")


@each_module
def test_every_public_name_and_method_has_a_docstring(module: ModuleType) -> None:
    public = {name: getattr(module, name) for name in module.__all__ if name != "__version__"}
    for name, value in dict(public).items():
        if inspect.isclass(value):
            public |= {f"{name}.{method}": function for method, function in inspect.getmembers(value, is_own_method)}
    assert {name for name, value in public.items() if not (value.__doc__ or "").strip()} == set()


@each_module
def test_public_names_are_those_of_the_page(module: ModuleType) -> None:
    text = interface.PAGE.read_text(encoding="utf-8")
    assert interface.page(text) == text, "public names or their docstrings changed: run `make docs`"
    for name in module.__all__:
        assert f"| `{name}` | " in text


def test_star_imports_give_the_public_names() -> None:
    found: dict[str, object] = {}
    exec("from spark_kafka_native import *", found)
    assert set(found) - {"__builtins__"} == set(spark_kafka_native.__all__)


def test_modules_that_are_not_public_begin_with_an_underscore() -> None:
    """The remaining modules are what ``python -m`` and pytest name."""
    for package, others in (("spark_kafka_native", {"jobs", "tools"}), ("broker_embedded", {"pytest_plugin", "tools"})):
        folder = Path(str(importlib.import_module(package).__file__)).parent
        modules = {path.stem for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
        public = {module.__name__.partition(".")[2] for module in MODULES if module.__name__.startswith(f"{package}.")}
        assert {name for name in modules if not name.startswith("_")} == public | others
