"""What a benchmark tells: tables in the terminal, and all of it as JSON in ``benchmarks/results``.

`arguments` gives a benchmark the options that all have, `Report` takes what it found. A cell of a table is text, a
number or None, which means that this was not measured. JSON keeps numbers as they are; `format_cell` shortens
them for people.
"""

import argparse
import hashlib
import json
import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from rich.console import Console
from rich.table import Table

from benchmarks.support.machine import commit, machine

RESULTS = Path(__file__).parents[1] / "results"
Cell = str | int | float | None
SHARED = frozenset({"results", "no_save", "quick"})
"""Options that say where results go, not what is measured."""


def arguments(description: str | None, *, rounds: int | None = 5) -> argparse.ArgumentParser:
    """A parser with the options that all benchmarks have. ``description`` is the module's docstring.

    ``rounds`` is None where there are none.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    shared = parser.add_argument_group("all benchmarks")
    if rounds is not None:
        shared.add_argument("--rounds", type=int, default=rounds, help="that count, after warming up (%(default)s)")
    shared.add_argument(
        "--quick", action="store_true", help="tiny sizes, to see that it works; saves to --results only"
    )
    shared.add_argument("--results", type=Path, metavar="DIR", help="where JSON goes (benchmarks/results)")
    shared.add_argument("--no-save", action="store_true", help="no JSON")
    return parser


def parse(parser: argparse.ArgumentParser, **tiny: Any) -> argparse.Namespace:
    """The options; with ``--quick`` those that were not given are ``tiny``, and there is one round.

    Also unsets PYTHONDONTWRITEBYTECODE: processes that are started later keep what they compile, as a user's do.
    """
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    for name, value in ({"rounds": 1} | tiny).items() if options.quick else ():
        if hasattr(options, name) and getattr(options, name) == parser.get_default(name):
            setattr(options, name, value)
    return options


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Something that was to be reached."""

    what: str
    wanted: float
    found: float
    at_most: bool = False
    """Less is better."""

    @property
    def reached(self) -> bool:
        """Whether it was."""
        return self.found <= self.wanted if self.at_most else self.found >= self.wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One comparison in one number, for the README."""

    what: str
    unit: str
    ours: float
    whom: str
    theirs: float
    less_is_better: bool = False

    @property
    def times(self) -> float:
        """How many times as good ours is."""
        return self.theirs / self.ours if self.less_is_better else self.ours / self.theirs


class Report:
    """All that one run of a benchmark found. ``name`` is its module's, and its files'."""

    def __init__(self, name: str, title: str, options: argparse.Namespace) -> None:
        self.name, self.title, self.options = name, title, options
        self.console = Console(width=None if sys.stdout.isatty() else 180, markup=False)
        self.machine, self.commit = machine(), commit()
        self.tables: list[dict[str, Any]] = []
        self.targets: list[Target] = []
        self.comparisons: list[Comparison] = []
        self.notes: list[str] = []
        self.measured: dict[str, Any] = {}

    @property
    def command(self) -> str:
        """What was typed, without where its results go."""
        given = _without(sys.argv[1:], "--results")
        return shlex.join(["python", "-m", f"benchmarks.{self.name}", *given])

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Cell]], title: str = "") -> Self:
        """Print a table, and keep it."""
        shown = Table(title=title or self.title)
        for index, column in enumerate(columns):
            text = all(isinstance(row[index], str) for row in rows)
            shown.add_column(column, justify="left" if text else "right")
        for row in rows:
            shown.add_row(*map(format_cell, row))
        self.console.print(shown)
        self.tables.append({"title": title, "columns": list(columns), "rows": [list(row) for row in rows]})
        return self

    def target(self, what: str, wanted: float, found: float, *, at_most: bool = False) -> Self:
        """Print and keep whether something was reached."""
        target = Target(what=what, wanted=wanted, found=found, at_most=at_most)
        self.targets.append(target)
        sign, verdict = "at most" if at_most else "at least", "reached" if target.reached else "not reached"
        self.console.print(f"{what}: {sign} {format_cell(wanted)} wanted, {format_cell(found)} found: {verdict}")
        return self

    def beside(
        self, what: str, unit: str, ours: float, whom: str, theirs: float, *, less_is_better: bool = False
    ) -> Self:
        """Keep what the README shows: our number and a peer's."""
        self.comparisons.append(
            Comparison(what=what, unit=unit, ours=ours, whom=whom, theirs=theirs, less_is_better=less_is_better)
        )
        return self

    def note(self, text: str) -> Self:
        """Print and keep a sentence that the tables need."""
        self.notes.append(text)
        self.console.print(text)
        return self

    def keep(self, measured: Mapping[str, Any]) -> Self:
        """Every single value that was measured, for JSON alone."""
        self.measured |= measured
        return self

    def save(self) -> Path | None:
        """Print machine and command, and write what is to be kept; the JSON file, if there is one."""
        self.console.print(", ".join(f"{name} {value}" for name, value in self.machine.items()))
        self.console.print(self.command)
        directory = self.options.results
        if self.options.no_save or (self.options.quick and directory is None):
            return None
        directory = directory or RESULTS
        directory.mkdir(parents=True, exist_ok=True)
        file: Path = directory / f"{self.name}.json"
        file.write_text(_readable(json.dumps(self._content(), indent=1, default=_plain)) + "\n", encoding="utf-8")
        self.console.print(f"saved to {file}")
        return file

    def _content(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "command": self.command,
            "date": f"{datetime.now(UTC):%Y-%m-%d}",
            "commit": self.commit,
            "quick": self.options.quick,
            "machine": self.machine,
            "parameters": {name: value for name, value in vars(self.options).items() if name not in SHARED},
            "tables": self.tables,
            "targets": [asdict(target) | {"reached": target.reached} for target in self.targets],
            "comparisons": [asdict(each) | {"times": each.times} for each in self.comparisons],
            "notes": self.notes,
            "measured": self.measured,
        }


def digest(file: Path) -> str:
    """The SHA-256 of a file of results. Its plot has it in the metadata."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def format_cell(cell: Cell) -> str:
    """A cell as it is shown: three digits that count, thousands apart."""
    if cell is None:
        return "-"
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int) or abs(cell) >= 100:
        return f"{cell:,.0f}"
    return f"{cell:.3g}"


def _readable(text: str) -> str:
    """Indented JSON with each list of numbers on one line."""
    return re.sub(r'\[\n([^\[\]{}"]+)\]', lambda numbers: f"[{' '.join(numbers[1].split())}]", text)


def _plain(value: Any) -> Any:
    """Numbers of numpy as Python's, and paths as text."""
    return value.item() if hasattr(value, "item") else str(value)


def _without(argv: Sequence[str], option: str) -> list[str]:
    """The arguments without an option and its value."""
    kept, skip = [], False
    for argument in argv:
        if skip or argument.startswith(f"{option}="):
            skip = False
        elif argument == option:
            skip = True
        else:
            kept.append(argument)
    return kept
