"""Suites that take what a plain machine does not have, run by hand; each prints a table and keeps it in tests/results.

    python -m tests.long.suites interop        # other people's brokers and clients
    python -m tests.long.suites differential   # Spark's JVM connector beside ours

What cannot be had on this machine is skipped, and the table says why. Words after the name go to pytest, such as
``-k groups``; then the table is not kept. Every run keeps in tests/results/features.txt which of the tests for
docs/connector.md passed. Exit status 1 if a test failed.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from benchmarks.support.machine import ROOT, commit
from tests.support.features.junit import Case, Outcome, read_cases
from tests.support.features.marks import update_record
from tests.support.report import ResultPage, table
from tests.support.servers.apache_kafka import KAFKA_VERSION, ApacheKafka, apache_kafka_unavailable
from tests.support.spark.connector_differences import DIFFERENCES
from tests.support.spark.jvm_connector import connector_name, jvm_connector_unavailable

Environment = Mapping[str, str]


@contextmanager
def on_apache_kafka() -> Iterator[Environment]:
    """The session tests of Spark take this cluster instead of the bundled broker."""
    with ApacheKafka() as kafka:
        yield {"PYKAFKA_TEST_SERVERS": kafka.bootstrap_servers}


@dataclass(frozen=True, slots=True)
class Step:
    """A run of pytest. ``workers``: in how many processes; Spark wants one. ``title`` names it where files repeat."""

    arguments: Sequence[str]
    workers: int = 1
    title: str = ""
    unavailable: Callable[[], str | None] = lambda: None
    environment: Callable[[], AbstractContextManager[Environment]] = lambda: nullcontext({})


@dataclass(frozen=True, slots=True)
class Suite:
    """Runs of pytest that make one table."""

    title: str
    steps: Sequence[Step]
    notes: Callable[[], Sequence[str | Table]] = lambda: ()


def meant_differences() -> Sequence[str | Table]:
    """Versions, and where ours does otherwise on purpose."""
    rows = table("case", "differs in", "why")
    for name, difference in DIFFERENCES.items():
        rows.add_row(name, ", ".join(sorted(difference.fields)), difference.reason)
    source = "From tests/support/spark/connector_differences.py; any other fails a test."
    return (versions(), "## Meant differences", source, rows)


def versions() -> str:
    """What was compared with what."""
    if reason := apache_kafka_unavailable() or jvm_connector_unavailable():
        return reason
    return f"Both on Apache Kafka {KAFKA_VERSION}; the JVM connector is {connector_name()}."


EVERYWHERE: Final = ("tests/system/integration", "tests/system/foreign", "tests/interop")
APACHE_ALONE: Final = ("tests/unit", "tests/system/broker_embedded", "tests/system/spark_kafka_native")
BY_BROKER: Final = {"bundled": "bundled broker", "apache": "Apache Kafka", "": "other"}
BESIDE: Final = "tests/interop/jvm_connector"
SUITES: Final = {
    "interop": Suite(
        "Other people's brokers and clients",
        (
            Step((*EVERYWHERE, f"--ignore={BESIDE}", "-m", "not spark and not kill"), workers=2),
            Step((*APACHE_ALONE, "-m", "interop and not spark and not kill"), workers=2),
            Step((*EVERYWHERE, f"--ignore={BESIDE}", "-m", "spark and not kill")),
            Step(
                ("tests/system/spark_kafka_native/spark", "-m", "spark"),
                title=", on Apache Kafka",
                unavailable=apache_kafka_unavailable,
                environment=on_apache_kafka,
            ),
        ),
    ),
    "differential": Suite("Spark's JVM connector beside ours", (Step((BESIDE,)),), meant_differences),
}


def main() -> int:
    """Run a suite."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", choices=SUITES)
    options, more = parser.parse_known_args()
    suite: Suite = SUITES[options.suite]
    cases: list[Case] = []
    left_out: Counter[str] = Counter()
    broken, head = False, commit()
    for step in suite.steps:
        reason = step.unavailable()
        if reason is None:
            broken |= run(step, more, cases)
        else:
            left_out[f"{' '.join(step.arguments)}{step.title}: {reason}"] += 1
    page = ResultPage(
        name=options.suite,
        title=suite.title,
        command=f"make test-{options.suite}",
        commit=head,
        parts=(summary(cases), *failures(cases, left_out), *suite.notes()),
    )
    page.publish(keep=not more)
    update_record(cases, head)
    return 1 if broken else 0


def run(step: Step, more: Sequence[str], cases: list[Case]) -> bool:
    """Add what a step's tests came to; whether something is wrong."""
    with tempfile.TemporaryDirectory() as scratch, step.environment() as environment:
        report = Path(scratch, "report.xml")
        command: list[Any] = [sys.executable, "-m", "pytest", "-q", *step.arguments, *more]
        command += ["--junit-xml", report, "-o", "junit_family=xunit1"]
        if step.workers > 1:
            command += ["--numprocesses", str(step.workers), "--dist", "worksteal"]
        status = subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, check=False).returncode
        found = list(read_cases(report)) if report.exists() else []
        cases.extend(each.within(step.title) for each in found)
    # 5: `more` has left nothing of this step.
    return status not in ((0, 5) if more else (0,))


def summary(cases: Sequence[Case]) -> Table:
    """A row for each file of tests, and one for all; with a column for each broker, where tests have several."""
    passed = BY_BROKER if any(case.broker for case in cases) else {"": "passed"}
    rows = table("tests", *passed.values(), "failed", "skipped", "seconds")
    by_file: dict[str, list[Case]] = {}
    for case in cases:
        by_file.setdefault(case.file, []).append(case)
    for file, some in sorted(by_file.items()):
        rows.add_row(file, *row(some, passed))
    rows.add_row("all", *row(cases, passed))
    return rows


def row(cases: Sequence[Case], brokers: Iterable[str]) -> Iterator[str]:
    """How many passed on which broker, and what became of the others."""
    passed = Counter(case.broker for case in cases if case.outcome is Outcome.PASSED)
    others = Counter(case.outcome for case in cases)
    for count in (*(passed[broker] for broker in brokers), others[Outcome.FAILED], others[Outcome.SKIPPED]):
        yield str(count or "")
    yield f"{sum(case.seconds for case in cases):.0f}"


def failures(cases: Sequence[Case], left_out: Counter[str]) -> Iterator[str | Table]:
    """What failed, and what was left out and why."""
    failed = [case for case in cases if case.outcome is Outcome.FAILED]
    if failed:
        yield "## Failed"
        rows = table("test", "error")
        for case in failed:
            rows.add_row(Text(f"{case.file}::{case.name}"), Text(case.reason))
        yield rows
    left_out.update(f"{case.file}: {case.reason}" for case in cases if case.outcome is Outcome.SKIPPED)
    if left_out:
        yield "## Left out"
        rows = table("tests", "why")
        for reason, count in sorted(left_out.items()):
            rows.add_row(str(count), Text(reason))
        yield rows


if __name__ == "__main__":
    sys.exit(main())
