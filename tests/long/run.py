"""Long runs that add up: kill runs with a fresh seed each, logged, until the time is over.

    python -m tests.long.run [--minutes 60] [--kills 20] [--only exactly_once] [--again]

Every run is one line of ``tests/long/log.jsonl``: seed, suite, kills, outcome, seconds. Suites take turns: kills of a
broker at random moments and at every named step, with transactions under way and without, and kills of everything that
a streaming copy consists of, at least once (always 30 times a run) and exactly once (half of them on Apache Kafka).
Seeds go on from the last one in the log, so that a run tomorrow tries what none has tried yet; ``--again`` runs the
seeds that failed instead. A table of all runs so far comes last. ``--only`` keeps to suites with a word in their names.
Exit status 1 if a run of this call failed.
"""

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import count, cycle
from pathlib import Path

from rich.console import Console
from rich.table import Column, Table

from tests.support.doomed_broker import STEPS, TRANSACTION_STEPS

LOG = Path(__file__).with_name("log.jsonl")
SUITES = (
    "tests/interop/test_kill.py",
    "tests/interop/test_kill_at_steps.py",
    "tests/interop/test_kill_queries.py",
    "tests/interop/test_kill_transactions.py::test_transactions_survive_kills",
    "tests/interop/test_kill_transactions.py::test_transactions_survive_a_kill_at_every_step",
    "tests/interop/test_kill_exactly_once.py::test_a_copy_that_is_killed",
    "tests/interop/test_kill_exactly_once.py::test_an_aggregation_that_is_killed",
)
KILLS_OF_SUITE = {SUITES[1]: len(STEPS), SUITES[2]: 30, SUITES[4]: len(TRANSACTION_STEPS)}
"""Suites that do not take the number of kills from the command line."""
KILLS_IN = ("KILLS", "QUERY_KILLS", "EXACTLY_ONCE_KILLS")
"""Names of the environment by which suites are told the number of kills."""
MARKS = dict.fromkeys(SUITES[2:], "kill")
"""Which tests of a suite are run, where it is not "kill and not interop": Apache Kafka is only a control."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One line of the log."""

    seed: int
    kills: int
    passed: bool
    seconds: float
    suite: str = SUITES[0]


def read_log() -> list[Run]:
    """All runs so far, oldest first."""
    if not LOG.exists():
        return []
    return [Run(**json.loads(line)) for line in LOG.read_text().splitlines()]


def seeds(log: list[Run], again: bool, suites: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Seeds to try, and the suites to try them with: new ones without end, or those whose last run failed."""
    if again:
        last = {(run.seed, run.suite): run.passed for run in log if run.suite in suites}
        yield from (tried for tried, passed in last.items() if not passed)
    else:
        yield from zip(count(max((run.seed for run in log), default=0) + 1), cycle(suites))


def run_once(seed: int, suite: str, kills: int) -> Run:
    """The tests of a suite with one seed; what they found out is shown, and all of their output if they fail."""
    kills = KILLS_OF_SUITE.get(suite, kills)
    started = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-q", "-m", MARKS.get(suite, "kill and not interop"), suite]
    environment = {**os.environ, "SEED": str(seed), **dict.fromkeys(KILLS_IN, str(kills))}
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    found_out = [line for line in answer.stdout.splitlines() if line.startswith("SEED=")]
    print(answer.stdout[-8000:] if answer.returncode else "\n".join(found_out))
    seconds = round(time.monotonic() - started, 1)
    return Run(seed=seed, kills=kills, passed=answer.returncode == 0, seconds=seconds, suite=suite)


def main() -> int:
    """Run until the minutes are over."""
    parser = argparse.ArgumentParser(description="Kill runs with fresh seeds, logged.")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--kills", type=int, default=20, help="per run")
    parser.add_argument("--again", action="store_true", help="the seeds that failed, instead of new ones")
    parser.add_argument("--only", default="", help="suites whose names have this in them")
    options = parser.parse_args()
    suites = [suite for suite in SUITES if options.only in suite]
    if not suites:
        parser.error(f"no suite has {options.only} in its name")
    end = time.monotonic() + 60 * options.minutes
    failed = 0
    for seed, suite in seeds(read_log(), options.again, suites):
        run = run_once(seed, suite, options.kills)
        with LOG.open("a") as log:
            log.write(json.dumps(dataclasses.asdict(run)) + "\n")
        failed += not run.passed
        outcome = "passed" if run.passed else "FAILED"
        print(f"seed {run.seed}: {run.suite}, {run.kills} kills, {outcome}, {run.seconds} s", flush=True)
        if time.monotonic() > end:
            break
    _show(read_log())
    return 1 if failed else 0


def _show(log: list[Run]) -> None:
    table = Table(Column("suite", overflow="fold"), "runs", "kills survived", "failed seeds", "hours")
    for name in (*SUITES, ""):
        runs = [run for run in log if run.suite.startswith(name)]
        last = {(run.seed, run.suite): run.passed for run in runs}
        bad = [str(seed) for (seed, _), passed in last.items() if not passed]
        hours = sum(run.seconds for run in runs) / 3600
        survived = sum(run.kills for run in runs if run.passed)
        row = (str(len(runs)), str(survived), ", ".join(bad) or "none", f"{hours:.2f}")
        table.add_row(name.rpartition("::")[2].rpartition("/")[2] or "all", *row)
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
