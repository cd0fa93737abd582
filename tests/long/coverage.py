"""Branch coverage of both packages by tests/unit and tests/system, on this machine's brokers and Spark.

    python -m tests.long.coverage

The processes that tests start are measured too: brokers, jobs, and Spark's Python workers. Cython's modules are not;
the tests that can use either kernel run with both. The table is kept in tests/results, the data in build/coverage:
``python -m coverage html --data-file build/coverage/data`` shows each line. Words after the name go to pytest, such as
``-k groups``; then no table is written. Exit status 1 if a test failed.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from rich.table import Table

from benchmarks.support.machine import ROOT, commit
from spark_kafka_native.records._kernel import VARIABLE
from tests.long.suites import Step, failures, run
from tests.support.features.junit import Case, Outcome
from tests.support.report import ResultPage, table

FOLDER: Final = ROOT / "build" / "coverage"
DATA: Final = FOLDER / "data"
ENOUGH_PERCENT: Final = 90
PACED: Final = ("-o", "timeout=600")
"""Measured code is slow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Statements and branches of a module or a package, and how many of them were not executed."""

    statements: int = 0
    missed_statements: int = 0
    branches: int = 0
    missed_branches: int = 0

    @classmethod
    def of(cls, summary: Mapping[str, Any]) -> Self:
        """From ``summary`` in coverage's JSON report."""
        return cls(
            statements=summary["num_statements"],
            missed_statements=summary["missing_lines"],
            branches=summary["num_branches"],
            missed_branches=summary["missing_branches"],
        )

    @classmethod
    def total(cls, parts: Iterable["Measured"]) -> Self:
        """The sum."""
        each = list(parts)
        return cls(**{name: sum(getattr(part, name) for part in each) for name in cls.__slots__})

    @property
    def percent(self) -> float:
        """Executed statements and branches, as coverage counts them."""
        of = self.statements + self.branches
        return 100 * (of - self.missed_statements - self.missed_branches) / of if of else 100.0

    def row(self) -> Iterator[str]:
        """The cells of a table."""
        for count in (self.statements, self.missed_statements, self.branches, self.missed_branches):
            yield str(count)
        yield f"{self.percent:.1f}"


def steps(environment: Mapping[str, str]) -> Sequence[Step]:
    """The runs of pytest: with the compiled kernel, with Spark, and without the compiled kernel."""
    either = "not interop and not spark"
    uncompiled = {**environment, VARIABLE: "off"}
    client = "tests/system/spark_kafka_native"
    return (
        Step(
            ("tests/unit", "tests/system", "-m", either, *PACED),
            workers=2,
            environment=lambda: nullcontext(environment),
        ),
        Step(("tests/system", "-m", "spark and not interop", *PACED), environment=lambda: nullcontext(environment)),
        Step(
            ("tests/unit", f"{client}/records", f"{client}/client", "-m", either, *PACED),
            workers=2,
            title=", without the compiled kernel",
            environment=lambda: nullcontext(uncompiled),
        ),
    )


def prepare() -> Mapping[str, str]:
    """Empty the folder of the data; the environment in which every Python process measures itself."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    return {
        "COVERAGE_PROCESS_START": str(ROOT / "pyproject.toml"),
        "COVERAGE_FILE": str(DATA),
        "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
    }


def report() -> dict[str, Measured]:
    """What the processes have measured, by module; ``coverage`` combines their files."""
    path = FOLDER / "report.json"
    for words in (("combine", "--quiet"), ("json", "--quiet", "-o", str(path))):
        command = [sys.executable, "-m", "coverage", *words, "--data-file", str(DATA)]
        subprocess.run(command, cwd=ROOT, check=True)
    return modules(json.loads(path.read_text(encoding="utf-8")))


def modules(found: Mapping[str, Any]) -> dict[str, Measured]:
    """The modules of coverage's JSON report."""
    return {Path(name).as_posix(): Measured.of(each["summary"]) for name, each in sorted(found["files"].items())}


def by_package(measured: Mapping[str, Measured]) -> Table:
    """A row for each package, without its subpackages, and one for all."""
    rows = columns("package")
    packages: dict[str, list[Measured]] = {}
    for name, each in measured.items():
        packages.setdefault(str(Path(name).parent), []).append(each)
    for package, some in sorted(packages.items()):
        rows.add_row(package, *Measured.total(some).row())
    rows.add_row("all", *Measured.total(measured.values()).row())
    return rows


def below(measured: Mapping[str, Measured]) -> Table:
    """A row for each module with less than ``ENOUGH_PERCENT``."""
    rows = columns("module")
    for name, each in measured.items():
        if each.percent < ENOUGH_PERCENT:
            rows.add_row(name, *each.row())
    return rows


def columns(first: str) -> Table:
    """A table for ``Measured.row``."""
    return table(first, "statements", "not executed", "branches", "not taken", "per cent")


def main() -> int:
    """Run the tests and make the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    _, more = parser.parse_known_args()
    head = commit()
    cases: list[Case] = []
    failed = [run(step, more, cases) for step in steps(prepare())]
    measured = report()
    passed = sum(case.outcome is Outcome.PASSED for case in cases)
    page = ResultPage(
        name="coverage",
        title="Branch coverage",
        command="make coverage",
        commit=head,
        parts=(
            f"{passed} tests passed. Processes that were killed with SIGKILL, and Cython's modules, are not measured.",
            by_package(measured),
            f"## Modules below {ENOUGH_PERCENT} %",
            below(measured),
            *failures([case for case in cases if case.outcome is Outcome.FAILED], Counter()),
        ),
    )
    page.publish(keep=not more)
    return 1 if any(failed) else 0


if __name__ == "__main__":
    sys.exit(main())
