import ast
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from textwrap import dedent

import pytest

TESTS = Path(__file__).parents[1]
FAILING = {"raises", "warns", "fail", "eventually"}
"""Functions that fail a test. A call of ``check_...`` counts, too: functions with such names raise an error."""
PURE = {"len", "set", "frozenset", "sorted", "list", "tuple", "dict", "sum", "min", "max", "str", "bytes"}

Modules = Sequence[tuple[str, ast.Module]]
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@pytest.fixture(scope="module")
def modules() -> Modules:
    """The modules of ``tests/`` by their paths."""
    files = sorted(TESTS.rglob("*.py"))
    return [(path.relative_to(TESTS).as_posix(), ast.parse(path.read_text(encoding="utf-8"))) for path in files]


def names(node: ast.AST) -> set[str]:
    """The names of functions, methods and variables that a function uses."""
    found = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return found | {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}


def has_assertion(node: ast.AST) -> bool:
    return any(isinstance(part, ast.Assert | ast.Raise) for part in ast.walk(node))


def without_assertion(modules: Modules) -> list[str]:
    """Tests that have no assertion and use no function of ``tests/`` that has one or uses one that has."""
    functions = [(name, node) for name, tree in modules for node in ast.walk(tree) if isinstance(node, _Function)]
    tests = [(name, node) for name, node in functions if node.name.startswith("test_")]
    helpers = {node.name: set[str]() for _, node in functions if not node.name.startswith("test_")}
    for _, node in functions:
        if node.name in helpers:
            helpers[node.name] |= names(node) | (FAILING if has_assertion(node) else set())
    failing = set(FAILING)
    while more := {name for name, used in helpers.items() if name not in failing and used & failing}:
        failing |= more
    return [
        f"{name}:{node.lineno} {node.name}"
        for name, node in tests
        if not has_assertion(node) and not any(used in failing or used.startswith("check_") for used in names(node))
    ]


def compared_with_themselves(modules: Modules) -> list[str]:
    """Comparisons whose sides are one expression, at least in a branch of it."""
    return [
        f"{name}:{node.lineno} {ast.unparse(node)}"
        for name, tree in modules
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare)
        for left, right in zip([node.left, *node.comparators], node.comparators, strict=False)
        if ast.dump(left) in branches(right) or ast.dump(right) in branches(left)
        if all(getattr(call.func, "id", "") in PURE for call in ast.walk(left) if isinstance(call, ast.Call))
    ]


def branches(node: ast.expr) -> Iterator[str]:
    """An expression, and the outcomes of a conditional one."""
    yield ast.dump(node)
    if isinstance(node, ast.IfExp):
        yield from branches(node.body)
        yield from branches(node.orelse)


def test_every_test_has_an_assertion(modules: Modules) -> None:
    assert without_assertion(modules) == []


def test_nothing_is_compared_with_itself(modules: Modules) -> None:
    assert compared_with_themselves(modules) == []


WEAK = """
    def helper(): assert 1
    def caller(): helper()
    def test_helper(): caller()
    def test_check(): check_it()
    def test_nothing(): print(1)
    def test_branch(): assert len(x) == (3 if y else 4 if z else len(x))
    def test_two_calls(): assert next(x) == next(x)
"""


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        (without_assertion, ["a.py:6 test_nothing"]),
        (compared_with_themselves, ["a.py:7 len(x) == (3 if y else 4 if z else len(x))"]),
    ],
)
def test_weak_tests_are_found(check: Callable[[Modules], list[str]], expected: list[str]) -> None:
    assert check([("a.py", ast.parse(dedent(WEAK)))]) == expected
