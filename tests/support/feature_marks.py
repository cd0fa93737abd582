"""Which tests show which features, and on what: read from the tests' source, without running or importing them.

A test names features with ``@pytest.mark.feature("<id>", ...)`` on itself, on its class, on a parameter or on its
module (``pytestmark``). What it runs on follows from the fixtures that it asks for, directly or through others, and
from the names that these and its module's helpers use: ``ApacheKafka`` or ``bundled_broker``, for instance.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

BESIDE_DIRECTORY: Final = "jvm_connector"


class Kind(Enum):
    """How a feature is tested; the values are words for readers."""

    UNIT = "unit"
    BUNDLED = "bundled broker"
    APACHE = "Apache Kafka"
    BESIDE = "beside the JVM connector"


_SERVERS: Final[Mapping[str, Kind]] = {
    "BrokerProcess": Kind.BUNDLED,
    "EmbeddedBroker": Kind.BUNDLED,
    "bundled_broker": Kind.BUNDLED,
    "ApacheKafka": Kind.APACHE,
    "apache_kafka": Kind.APACHE,
    "SecureKafka": Kind.APACHE,
}

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Named = _Function | ast.ClassDef


@dataclass(frozen=True, slots=True, order=True)
class Marked:
    """A test that names a feature."""

    path: str
    """Of its file, relative to the repository."""
    test: str
    feature: str
    kinds: tuple[str, ...]
    """Values of `Kind`, in its order."""


class NotLiteral(Exception):
    """A mark whose ids cannot be read without running the code."""


def marked_tests(repository: Path) -> list[Marked]:
    """Every mark below ``tests/``, sorted. Raises NotLiteral."""
    found: list[Marked] = []
    conftests: dict[Path, dict[str, _Named]] = {}
    for path in sorted((repository / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if "mark.feature" in text:
            tree = ast.parse(text)
            scopes = [_definitions(tree), *_conftests(path, repository, conftests)]
            relative = path.relative_to(repository)
            found += _marks(relative, tree, scopes)
    return sorted(set(found))


def _conftests(path: Path, repository: Path, known: dict[Path, dict[str, _Named]]) -> Iterator[dict[str, _Named]]:
    """The definitions of the conftest.py files that serve a test file, the nearest first."""
    for directory in path.parents:
        file = directory / "conftest.py"
        if file.exists():
            if file not in known:
                known[file] = _definitions(ast.parse(file.read_text(encoding="utf-8")))
            yield known[file]
        if directory == repository / "tests":
            return


def _definitions(tree: ast.Module) -> dict[str, _Named]:
    return {node.name: node for node in tree.body if isinstance(node, _Function | ast.ClassDef)}


def _marks(path: Path, tree: ast.Module, scopes: list[dict[str, _Named]]) -> Iterator[Marked]:
    for_all = [
        feature
        for node in tree.body
        if isinstance(node, ast.Assign)
        and any(isinstance(to, ast.Name) and to.id == "pytestmark" for to in node.targets)
        for feature in _features(node.value, path)
    ]
    for test, around in _tests(tree):
        features = [
            *for_all,
            *(id_ for owner in around for dec in owner.decorator_list for id_ in _features(dec, path)),
        ]
        kinds = _kinds(path, around, scopes) if features else ()
        for feature in features:
            yield Marked(path.as_posix(), test.name, feature, kinds)


def _tests(tree: ast.Module) -> Iterator[tuple[_Function, tuple[_Named, ...]]]:
    """Each test function with itself and the class around it."""
    for node in tree.body:
        inside: Iterable[ast.stmt] = node.body if isinstance(node, ast.ClassDef) else (node,)
        for found in inside:
            if isinstance(found, _Function) and found.name.startswith("test_"):
                yield found, (found, node) if isinstance(node, ast.ClassDef) else (found,)


def _features(node: ast.expr, path: Path) -> Iterator[str]:
    for call in ast.walk(node):
        if not (isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.mark.feature"):
            continue
        for argument in call.args:
            if not (isinstance(argument, ast.Constant) and isinstance(argument.value, str)):
                raise NotLiteral(f"{path}:{call.lineno}: write the ids of a feature mark as literals")
            yield argument.value


def _kinds(path: Path, around: tuple[_Named, ...], scopes: list[dict[str, _Named]]) -> tuple[str, ...]:
    if BESIDE_DIRECTORY in path.parts:
        return (Kind.BESIDE.value,)
    reached: set[str] = set()
    waiting = {name for node in around for name in _names(node)}
    while waiting:
        name = waiting.pop()
        reached.add(name)
        for scope in scopes:
            if name in scope:
                waiting |= _names(scope[name]) - reached
                break
    found = {_SERVERS[name] for name in reached if name in _SERVERS} or {Kind.UNIT}
    return tuple(kind.value for kind in Kind if kind in found)


def _names(node: _Named) -> set[str]:
    """What a function or class asks for and uses: parameters, names, and fixtures that are named as text."""
    used: set[str] = set()
    for part in ast.walk(node):
        if isinstance(part, ast.arg):
            used.add(part.arg)
        elif isinstance(part, ast.Name):
            used.add(part.id)
        elif isinstance(part, ast.Call) and ast.unparse(part.func).endswith(("getfixturevalue", "usefixtures")):
            constants = (constant.value for constant in ast.walk(part) if isinstance(constant, ast.Constant))
            used |= {text for text in constants if isinstance(text, str)}
    return used
