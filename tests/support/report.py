"""What tests show apart from passing or failing: reasons to skip (`skip_if`), lines after a run, pages of results."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import pytest
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.support.machine import ROOT, machine

Report = Callable[[str, Iterable[str]], None]
"""`report(title, lines)` shows lines under a title after the run, whatever its outcome."""

FINDINGS = pytest.StashKey[dict[str, list[str]]]()

RESULTS: Final = ROOT / "tests" / "results"
WIDTH: Final = 240


def skip_if(reason: str | None) -> None:
    """Skip the test, or all tests of the fixture, if there is a reason."""
    if reason is not None:
        pytest.skip(reason)


def printed(part: str | Table) -> list[str]:
    """The lines of a part of a page, each with single blanks."""
    console = Console(width=WIDTH)
    with console.capture() as captured:
        console.print(part)
    return [" ".join(line.split()) for line in captured.get().splitlines() if line.strip()]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultPage:
    """``tests/results/<name>.md``; its parts are lines of text and tables."""

    name: str
    title: str
    command: str
    commit: str
    """What `benchmarks.support.machine.commit` said before the suite began."""
    parts: Sequence[str | Table]

    def publish(self, *, keep: bool = True) -> None:
        """Print the page, and keep it."""
        terminal = Console()
        if not terminal.is_terminal:
            terminal.width = WIDTH  # a log, which has no width of its own
        for part in self.parts:
            terminal.print(part, markup=False)
        if not keep:
            return
        path = RESULTS / f"{self.name}.md"
        with path.open("w", encoding="utf-8") as file:
            paper = Console(file=file, width=WIDTH, color_system=None)
            for part in (f"# {self.title}", f"`{self.command}`, commit {self.commit}, {today()}", where(), *self.parts):
                paper.print(part, soft_wrap=isinstance(part, str), highlight=False, markup=False)
                paper.print()
        path.write_text("\n".join(line.rstrip() for line in path.read_text(encoding="utf-8").splitlines()) + "\n")


def table(*columns: str) -> Table:
    """A table that is Markdown where it is printed."""
    return Table(*columns, box=box.MARKDOWN)


def today() -> str:
    """The day, in UTC."""
    return datetime.now(UTC).date().isoformat()


def where() -> str:
    """The machine and the versions."""
    return "; ".join(f"{name}: {value}" for name, value in machine().items() if name != "load average")
