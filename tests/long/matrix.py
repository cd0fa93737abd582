"""The tests with a wheel on every Python and PySpark that can be had; the table is kept in tests/results.

    python -m tests.long.matrix [--python PATH]... [--root DIR]... [--pyspark 4.3.0,4.2.1] [--wheels dist]

Each Python gets a new environment with the wheel for its machine, its dependencies and what the tests need, all in
their newest versions. The tests run in a copy of the commit that has the wheel's files in place of its own: once
without Spark, and those of Spark with each PySpark. The first Python also gets the oldest dependencies that the
wheel's metadata allow, with the oldest PySpark.

The Pythons are those named ``python3.N`` on the PATH, unless ``--python`` names others. A root is the directory of
another Debian system, whose Python runs there by chroot. debootstrap makes one; /proc and /dev must be mounted in it.
If its processor is another one, which qemu emulates, the tests of records run there, and the quickstart with Spark.

A table row is replaced when it is measured again. Exit status 1 if a test failed.
"""

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from email.parser import HeaderParser
from pathlib import Path
from typing import Any, Final

from rich.table import Table

from benchmarks.support.machine import ROOT, commit
from spark_kafka_native._records._kernel import VARIABLE
from tests.support.features.junit import Outcome, read_cases
from tests.support.report import RESULTS, ResultPage, table, today

LOG: Final = RESULTS / "matrix.jsonl"
SPARKS: Final = ("4.3.0", "4.2.1", "4.2.0")
"""The newest first."""
OF_THE_REPOSITORY: Final = ("--ignore=tests/system/test_repository.py", "--ignore=tests/system/test_distributions.py")
"""Tests of files that a wheel does not have."""
WITHOUT_SPARK: Final = (
    "-n2",
    "--dist=worksteal",
    "-m",
    "not spark and not interop",
    "tests/unit",
    "tests/system",
    *OF_THE_REPOSITORY,
)
OF_SPARK: Final = ("-m", "spark and not interop", "tests/system")
OF_RECORDS: Final = (
    "-n2",
    "--timeout=3600",
    "tests/unit/spark_kafka_native/records",
    "tests/unit/broker_embedded/records",
)
QUICKSTART: Final = ("pykafka", "quickstart", "--events", "20000")
DESCRIBE: Final = """
import json, platform, sys
name = platform.freedesktop_os_release()["PRETTY_NAME"]
print(json.dumps([platform.python_version(), platform.machine(), name, sys.executable]))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The test results of one environment."""

    python: str
    machine: str
    system: str
    pyspark: str
    """Empty: the tests without Spark."""
    dependencies: str
    tests: str
    passed: int
    skipped: int
    failed: Sequence[str]
    commit: str
    day: str = field(default_factory=today)

    @property
    def key(self) -> tuple[str, ...]:
        """What it replaces in the table."""
        return (self.python, self.machine, self.system, self.pyspark, self.dependencies, self.tests)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """A Python, in this system or in another one."""

    root: Path
    executable: str
    python: str
    machine: str
    system: str

    @property
    def is_emulated(self) -> bool:
        """Whether its machine is not this one."""
        return self.machine != platform.machine()


class MatrixError(Exception):
    """The tests cannot run; the text says why."""


def main() -> int:
    """Run the tests on every Python, and keep the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", action="append", default=[], metavar="PATH")
    parser.add_argument("--root", action="append", default=[], type=Path, metavar="DIR")
    parser.add_argument("--pyspark", default=",".join(SPARKS), metavar="VERSION,...")
    parser.add_argument("--wheels", default=ROOT / "dist", type=Path, metavar="DIR")
    options = parser.parse_args()
    here = options.python or ([] if options.root else pythons_on_the_path())
    try:
        found = [interpreter(Path("/"), python) for python in here]
        found += [interpreter(root.absolute(), "python3") for root in options.root]
        rows = [row for each in found for row in measure(each, options.wheels, options.pyspark.split(","))]
        if here:
            rows += lowest(found[0], options.wheels, min(options.pyspark.split(","), key=_sortable))
    except MatrixError as error:
        print(error, file=sys.stderr)
        return 1
    return 1 if any(row.failed for row in rows) else 0


def pythons_on_the_path() -> list[str]:
    """Commands named python3.N, the oldest first, that are not of the environment of this program."""
    folders = [Path(folder) for folder in os.get_exec_path() if Path(folder) != Path(sys.executable).parent]
    found = {path.name: str(path) for folder in reversed(folders) for path in folder.glob("python3.[0-9]*")}
    names = [name for name in found if re.fullmatch(r"python3\.\d+", name) and int(name.partition(".")[2]) >= 11]
    return [found[name] for name in sorted(names, key=lambda name: int(name.partition(".")[2]))]


def interpreter(root: Path, executable: str) -> Interpreter:
    """What a Python is. Raises MatrixError."""
    if root != Path("/") and not (root / "proc" / "self").exists():
        raise MatrixError(f"{root}: /proc is not mounted there; see --help")
    done = run(root, "/", {}, executable, "-c", DESCRIBE)
    if done.returncode:
        raise MatrixError(f"{executable} in {root}: {done.stdout}")
    python, machine, system, executable = json.loads(done.stdout)
    return Interpreter(root=root, executable=executable, python=python, machine=machine, system=system)


def measure(interpreter: Interpreter, wheels: Path, sparks: Sequence[str]) -> Iterator[Row]:
    """Run the tests with one Python and the newest dependencies. Raises MatrixError."""
    with Environment.create(interpreter, wheel_for(interpreter.machine, wheels)) as environment:
        if interpreter.is_emulated:
            environment.install(f"pyspark=={sparks[0]}")
            yield environment.run_tests("records", OF_RECORDS)
            yield environment.run_quickstart(sparks[0])
            return
        yield environment.run_tests("all", WITHOUT_SPARK)
        for spark in sparks:
            environment.install(f"pyspark=={spark}")
            yield environment.run_tests("all", OF_SPARK, pyspark=spark)


def lowest(interpreter: Interpreter, wheels: Path, spark: str) -> Iterator[Row]:
    """Run the tests with the oldest dependencies. Raises MatrixError."""
    wheel = wheel_for(interpreter.machine, wheels)
    with Environment.create(interpreter, wheel) as environment:
        environment.install(f"pyspark=={spark}", *oldest_dependencies(wheel))
        yield environment.run_tests("all", WITHOUT_SPARK, dependencies="oldest")
        yield environment.run_tests("all", OF_SPARK, pyspark=spark, dependencies="oldest")


def oldest_dependencies(wheel: Path) -> list[str]:
    """Requirements such as ``click==8.4``, of the dependencies that are not of an extra."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = HeaderParser().parsestr(archive.read(name).decode())
    return [text.replace(">=", "==") for text in metadata.get_all("Requires-Dist", []) if "extra" not in text]


def wheel_for(machine: str, wheels: Path) -> Path:
    """The wheel of a machine. Raises MatrixError."""
    found = list(wheels.glob(f"spark_kafka_native-*_{machine}.whl"))
    if len(found) != 1:
        raise MatrixError(f"{wheels} has {len(found)} wheels for {machine} instead of one: run make wheels")
    return found[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """A virtual environment with the wheel, and the files that its tests need. Paths are those within the root."""

    interpreter: Interpreter
    folder: str
    commit: str

    @classmethod
    @contextmanager
    def create(cls, interpreter: Interpreter, wheel: Path) -> "Iterator[Environment]":
        """A new one; it is removed at the end. Raises MatrixError."""
        root, head = interpreter.root, commit()
        with tempfile.TemporaryDirectory(dir=root / "tmp", prefix="matrix-") as scratch:
            folder = Path(scratch)
            archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
            (folder / "tree").mkdir()
            subprocess.run(["tar", "-x", "-C", folder / "tree"], input=archive, check=True)
            for package in ("spark_kafka_native", "broker_embedded"):
                shutil.rmtree(folder / "tree" / package)
            with zipfile.ZipFile(wheel) as files:
                files.extractall(folder / "tree")
            shutil.copy2(wheel, folder)
            made = cls(interpreter=interpreter, folder=str(Path("/", folder.relative_to(root))), commit=head)
            made._run(interpreter.executable, "-m", "venv", f"{made.folder}/venv")
            made.install("pip")
            extras = "spark,aws" if root == Path("/") else "spark,aws,java"
            made.install("--group", "dev", f"{made.folder}/{wheel.name}[{extras}]")
            yield made

    def install(self, *what: str) -> None:
        """Install packages. Raises MatrixError."""
        self._run(f"{self.folder}/venv/bin/python", "-m", "pip", "install", "--quiet", "--upgrade", *what)

    def run_tests(
        self, tests: str, arguments: Sequence[str], *, pyspark: str = "", dependencies: str = "newest"
    ) -> Row:
        """Run pytest, and keep a row of the table."""
        report = f"{self.folder}/report.xml"
        path = self.interpreter.root / report[1:]
        path.unlink(missing_ok=True)
        words = ("-m", "pytest", "-q", *arguments, "--junit-xml", report, "-o", "junit_family=xunit1")
        done = self._run(f"{self.folder}/venv/bin/python", *words, check=False)
        cases = list(read_cases(path)) if path.exists() else []
        outcomes = Counter(case.outcome for case in cases)
        failed = [f"{case.file}::{case.name}: {case.reason:.200}" for case in cases if case.outcome is Outcome.FAILED]
        if done.returncode not in (0, 1) or not cases:
            failed.append(f"pytest ended with {done.returncode}")
        if failed:
            print(done.stdout)
        return self._keep(tests, pyspark, dependencies, outcomes, failed)

    def run_quickstart(self, pyspark: str) -> Row:
        """Run the quickstart, and keep a row of the table."""
        done = self._run(f"{self.folder}/venv/bin/{QUICKSTART[0]}", *QUICKSTART[1:], check=False)
        if done.returncode:
            print(done.stdout)
        failed = [f"{' '.join(QUICKSTART)} ended with {done.returncode}"] if done.returncode else []
        outcome = Outcome.FAILED if failed else Outcome.PASSED
        return self._keep("quickstart", pyspark, "newest", Counter([outcome]), failed)

    def _keep(
        self,
        tests: str,
        pyspark: str,
        dependencies: str,
        outcomes: Counter[Outcome],
        failed: Sequence[str],
    ) -> Row:
        row = Row(
            python=self.interpreter.python,
            machine=self.interpreter.machine + (", emulated" if self.interpreter.is_emulated else ""),
            system=self.interpreter.system,
            pyspark=pyspark,
            dependencies=dependencies,
            tests=tests,
            passed=outcomes[Outcome.PASSED],
            skipped=outcomes[Outcome.SKIPPED],
            failed=failed,
            commit=self.commit,
        )
        with LOG.open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(asdict(row))}\n")
        publish()
        return row

    def _run(self, *words: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        python = f"{self.folder}/venv/bin/pykafka-python"
        environment = {
            "PYSPARK_PYTHON": python,
            "PYSPARK_DRIVER_PYTHON": python,
            VARIABLE: "required",
            "PATH": f"{self.folder}/venv/bin:{os.environ['PATH']}",
        }
        done = run(self.interpreter.root, f"{self.folder}/tree", environment, *words)
        if check and done.returncode:
            raise MatrixError(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}")
        return done


def run(root: Path, folder: str, environment: Mapping[str, str], *words: str) -> "subprocess.CompletedProcess[str]":
    """Run a command in a folder of a root directory; its output is in ``stdout``."""
    command: list[Any] = [
        "env",
        "-C",
        folder,
        "-u",
        "PYTHONPATH",
        *(f"{name}={value}" for name, value in environment.items()),
        *words,
    ]
    if root != Path("/"):
        command = ["chroot", root, *command]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


def read_rows() -> list[Row]:
    """The newest row of each environment."""
    lines = LOG.read_text(encoding="utf-8").splitlines() if LOG.exists() else []
    rows = [Row(**json.loads(line)) for line in lines]
    return sorted({row.key: row for row in rows}.values(), key=lambda row: [_sortable(text) for text in row.key])


def _sortable(text: str) -> list[int | str]:
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", text)]


def publish() -> None:
    """Write the page."""
    rows = read_rows()
    columns = (
        "Python",
        "machine",
        "system",
        "PySpark",
        "dependencies",
        "tests",
        "passed",
        "failed",
        "skipped",
        "commit",
        "day",
    )
    shown, failures = table(*columns), table("environment", "failed")
    for row in rows:
        counts = (row.passed, len(row.failed) or "", row.skipped or "")
        shown.add_row(*row.key[:3], row.pyspark or "none", *row.key[4:], *map(str, counts), row.commit, row.day)
        for failure in row.failed:
            failures.add_row(f"Python {row.python}, PySpark {row.pyspark or 'none'}", failure.splitlines()[0])
    parts: list[str | Table] = [shown]
    if failures.rows:
        parts += ["## Failed", failures]
    ResultPage(
        name="matrix", title="Pythons and PySparks", command="make test-matrix", commit=commit(), parts=parts
    ).publish()


if __name__ == "__main__":
    sys.exit(main())
