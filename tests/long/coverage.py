"""Branch coverage of both packages by tests/unit and tests/system, on this machine's brokers and Spark.

    python -m tests.long.coverage

The processes that tests start are measured too: brokers, jobs, and Spark's Python workers. Cython's modules are not;
the tests that can use either kernel run with both. The table is kept in tests/results, the data in build/coverage:
``python -m coverage html --data-file build/coverage/data`` shows each line. Words after the name go to pytest, such as
``-k groups``; then no table is written. Exit status 1 if a test failed.
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Final

from benchmarks.support.machine import ROOT, commit
from spark_kafka_native._records._kernel import VARIABLE
from tests.long.suites import Step, failures, run
from tests.support.features.junit import Case, Outcome
from tests.support.report import ResultPage

FOLDER: Final = ROOT / "build" / "coverage"
DATA: Final = FOLDER / "data"
PACED: Final = ("-o", "timeout=600")
"""Measured code is slow."""


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


def report() -> str:
    """What the processes have measured: a row for each module that was not executed whole, and the sum."""

    def coverage(*words: str) -> str:
        command = [sys.executable, "-m", "coverage", *words, "--data-file", str(DATA)]
        return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout

    coverage("combine", "--quiet")
    return coverage("report", "--format", "markdown", "--skip-covered", "--sort", "cover")


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
            measured,
            *failures([case for case in cases if case.outcome is Outcome.FAILED], Counter()),
        ),
    )
    page.publish(keep=not more)
    return 1 if any(failed) else 0


if __name__ == "__main__":
    sys.exit(main())
