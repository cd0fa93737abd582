"""Which tests show which features, and on what: read from the tests as pytest collects them, without running any.

A test names features with ``@pytest.mark.feature("<id>", ...)`` on itself, on its class or on its module; what only one
case of a parametrised test shows stands on that parameter. What a test runs on follows from its broker's parameter
(``bundled``, ``apache``), or else from the code that it reaches: its fixtures, and the functions and classes of
``tests/`` that these and the test use, down to the class that starts a server.

`make test` runs most tests on each change. The other tests run by hand, and show a feature only if they passed when
they last ran: tests/results/features.txt, which tests.long.suites writes, has their names, each with the commit.
"""

import inspect
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final

import pytest

from tests.support.features.junit import Case, Outcome

ROOT: Final = Path(__file__).parents[3]
RECORD: Final = ROOT / "tests" / "results" / "features.txt"
COLLECTED: Final = "PYKAFKA_COLLECTED_FEATURES"
"""The environment's name for the file that `pytest_collection_finish` writes."""


class Kind(StrEnum):
    """How a feature is tested; the values are words for readers."""

    NO_BROKER = "without a broker"
    BUNDLED = "bundled broker"
    APACHE = "Apache Kafka"
    BESIDE = "beside the JVM connector"


_STARTED_BY: Final[Mapping[str, Kind]] = {
    "BrokerProcess": Kind.BUNDLED,
    "EmbeddedBroker": Kind.BUNDLED,
    "ApacheKafka": Kind.APACHE,
    "BothConnectors": Kind.BESIDE,
}
_PARAMETERS: Final[Mapping[str, Kind]] = {"bundled": Kind.BUNDLED, "apache": Kind.APACHE, "mock": Kind.NO_BROKER}


@dataclass(frozen=True, slots=True, order=True)
class Marked:
    """A case of a test that names features. ``by_hand``: `make test` leaves it out."""

    path: str
    """Of its file, relative to the repository."""
    test: str
    """Its name, with its parameters."""
    features: tuple[str, ...]
    kinds: tuple[str, ...]
    by_hand: bool

    @property
    def name(self) -> str:
        """What the records of runs name it by."""
        return f"{self.path}::{self.test}"


def marked_tests(repository: Path) -> list[Marked]:
    """Every case below ``tests/`` with a mark, sorted: a pytest of its own collects them. Raises RuntimeError."""
    tests = sorted((repository / "tests").rglob("test_*.py"))
    named = ("mark.feature", "features.feature ")
    files = [path for path in tests if any(name in path.read_text(encoding="utf-8") for name in named)]
    with tempfile.TemporaryDirectory() as scratch:
        found = Path(scratch, "found.json")
        command: list[str | Path] = [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-p", __name__, *files]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), COLLECTED: str(found)}
        response = subprocess.run(command, cwd=repository, env=environment, capture_output=True, text=True, check=False)
        if response.returncode:
            raise RuntimeError(
                f"the marked tests cannot be collected:\n{response.stdout[-4000:]}{response.stderr[-4000:]}"
            )
        rows = json.loads(found.read_text(encoding="utf-8"))
    return sorted(Marked(**{**row, "features": tuple(row["features"]), "kinds": tuple(row["kinds"])}) for row in rows)


def read_record(path: Path = RECORD) -> dict[str, str]:
    """The tests run by hand that passed when they last ran, and the commit of that run."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else ()
    return {name: commit for commit, name in (line.split(" ", 1) for line in lines)}


def update_record(cases: Iterable[Case], commit: str, path: Path = RECORD) -> None:
    """Keep the outcomes of a run: of marked tests, in the environment that is theirs."""
    record = read_record(path)
    for case in cases:
        if case.features and case.file.endswith(".py"):
            record.pop(f"{case.file}::{case.name}", None)
            if case.outcome is Outcome.PASSED:
                record[f"{case.file}::{case.name}"] = commit
    path.write_text("".join(f"{record[name]} {name}\n" for name in sorted(record)), encoding="utf-8")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Write the marked cases, where this module is a plugin."""
    rows = [asdict(_marked(item)) for item in session.items if _features(item)]
    Path(os.environ[COLLECTED]).write_text(json.dumps(rows), encoding="utf-8")


def _marked(item: pytest.Item) -> Marked:
    path = item.path.relative_to(item.config.rootpath).as_posix()
    by_hand = path.startswith("tests/interop/") or item.get_closest_marker("interop") is not None
    kinds = _kinds(item)
    return Marked(path, item.name, _features(item), tuple(kind for kind in Kind if kind in kinds), by_hand)


def _features(item: pytest.Item) -> tuple[str, ...]:
    return tuple(sorted({feature for mark in item.iter_markers("feature") for feature in mark.args}))


def _kinds(item: Any) -> set[Kind]:
    """What a test runs on: its parameter decides, if it has one; else what its code and its fixtures start."""
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    chosen = {_PARAMETERS[value] for value in parameters if isinstance(value, str) and value in _PARAMETERS}
    if chosen:
        return chosen

    def fixture(name: str) -> list[Any]:
        return [found.func for found in item.session._fixturemanager.getfixturedefs(name, item) or ()][-1:]

    found = _started([item.function, *(func for name in item.fixturenames for func in fixture(name))], fixture)
    return {Kind.BESIDE} if Kind.BESIDE in found else found or {Kind.NO_BROKER}


def _started(waiting: list[Any], fixture: Callable[[str], list[Any]]) -> set[Kind]:
    """The servers that functions start, themselves or by the fixtures and the code of ``tests/`` that they use."""
    found, seen = set[Kind](), set[int]()
    while waiting:
        part = inspect.unwrap(waiting.pop())
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, type):
            waiting += [*part.__bases__, *(part for part in vars(part).values() if callable(part))]
            waiting += [part.fget for part in vars(part).values() if isinstance(part, property)]
        elif isinstance(part, FunctionType):
            names = set(_names(part.__code__))
            found |= {_STARTED_BY[name] for name in names & _STARTED_BY.keys()}
            used = [part.__globals__[name] for name in names & part.__globals__.keys()]
            waiting += [
                each for each in used if callable(each) and str(getattr(each, "__module__", "")).startswith("tests.")
            ]
            if "getfixturevalue" in names:
                waiting += [func for text in part.__code__.co_consts if isinstance(text, str) for func in fixture(text)]
    return found


def _names(code: CodeType) -> Iterator[str]:
    """The names that a function uses, and those of the functions inside it."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)
