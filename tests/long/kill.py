"""Rounds of kill -9 that add up: each has a seed that none before had, and all are kept.

    python -m tests.long.kill [--rounds 20] [--only exactly_once] [--again]

A run is so many rounds on one commit; they alternate between `SCENARIOS`. An interrupted run continues.
Every round is a line of ``tests/results/kill.jsonl``, and the table of the run is kept beside it. ``--only`` keeps to
tests with a word in their names; ``--again`` gives the seeds that failed another go instead, outside of any run. Exit
status 1 if a round of this call failed.
"""

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.table import Table
from rich.text import Text

from benchmarks.support.machine import ROOT, commit
from tests.support.report import RESULTS, ResultPage, table

LOG: Final = RESULTS / "kill.jsonl"
ROUNDS: Final = 20


@dataclass(frozen=True, slots=True)
class Scenario:
    """A test that kills; how often, by the variable of the environment that says so; which of its params."""

    test: str
    kills: tuple[str, int] = ("KILLS", 0)
    marked: str = "kill"


IN_TESTS: Final = "tests/interop/"
SCENARIOS: Final = tuple(
    dataclasses.replace(scenario, test=IN_TESTS + scenario.test)
    for scenario in (
        # Apache Kafka stands beside ours in `make test-interop`, as a control.
        Scenario("test_kill.py", ("KILLS", 20), "kill and not interop"),
        Scenario("test_kill_queries.py::test_a_copy_that_is_killed_loses_nothing", ("QUERY_KILLS", 8)),
        Scenario("test_kill_queries.py::test_a_driver_killed_after_each_file_of_its_checkpoint"),
        Scenario("test_kill_at_steps.py", ("KILLS", 32), "kill and not interop"),
        Scenario("test_kill_queries.py::test_killed_in_its_first_batch_from_latest"),
        Scenario("test_kill_transactions.py::test_transactions_survive_kills", ("KILLS", 20)),
        Scenario("test_kill_transactions.py::test_transactions_survive_a_kill_at_every_step", ("KILLS", 12)),
        Scenario("test_kill_exactly_once.py::test_a_copy_that_is_killed", ("EXACTLY_ONCE_KILLS", 10)),
        Scenario("test_batch_reload.py::test_killed_with_its_spark_at_three_moments"),
        Scenario("test_batch_reload.py::test_executor_killed_and_tasks_run_twice_at_once"),
        Scenario("test_kill_exactly_once.py::test_an_aggregation_that_is_killed", ("EXACTLY_ONCE_KILLS", 10)),
        Scenario("test_kill_exactly_once.py::test_at_least_once_what_loses_is_there_too"),
        Scenario("test_exactly_once.py"),
        Scenario("test_exactly_once_aftermath.py"),
        Scenario("test_kill_group_consumers.py", ("GROUP_KILLS", 8), "kill and not interop"),
        Scenario("test_kill_mirror.py", ("MIRROR_KILLS", 8), "kill and not interop"),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """A line of the log: what was tried in which run, 0 for none, how it ended, and the lines that the test printed."""

    run: int
    of: int
    commit: str
    seed: int
    test: str
    passed: bool
    seconds: float
    printed: tuple[str, ...] = ()


def read_log() -> list[Round]:
    """All rounds so far, oldest first."""
    if not LOG.exists():
        return []
    lines = [json.loads(line) for line in LOG.read_text(encoding="utf-8").splitlines()]
    return [Round(**{**line, "printed": tuple(line["printed"])}) for line in lines]


def the_run(log: Sequence[Round], rounds: int, head: str) -> tuple[int, int]:
    """The run to continue or to begin, and how many rounds it has had."""
    last = max((each.run for each in log), default=0)
    done = [each for each in log if each.run == last]
    if done and len(done) < rounds == done[0].of and done[0].commit == head:
        return last, len(done)
    return last + 1, 0


def to_try(log: Sequence[Round], run: int, done: int, rounds: int, only: str) -> Iterator[tuple[int, Scenario]]:
    """The rest of a run: new seeds, and scenarios one after the other, from the one after the last run's."""
    chosen = [scenario for scenario in SCENARIOS if only in scenario.test]
    seed = max((each.seed for each in log), default=0)
    for number in range(done, rounds):
        yield seed + 1 + number - done, chosen[((run - 1) * rounds + number) % len(chosen)]


def failed_ones(log: Sequence[Round], only: str) -> list[tuple[int, Scenario]]:
    """The seeds whose last round failed."""
    last = {(each.seed, each.test): each.passed for each in log if only in each.test}
    by_test = {scenario.test: scenario for scenario in SCENARIOS}
    return [(seed, by_test[test]) for (seed, test), passed in last.items() if not passed and test in by_test]


def try_once(run: int, of: int, head: str, seed: int, scenario: Scenario) -> Round:
    """The test with a seed; all of its output, too, if it fails."""
    started = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-q", "-m", scenario.marked, scenario.test]
    variable, kills = scenario.kills
    environment = {**os.environ, "SEED": str(seed), variable: str(kills)}
    response = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    if response.returncode:
        print(response.stdout[-8000:])
    return Round(
        run=run,
        of=of,
        commit=head,
        seed=seed,
        test=scenario.test,
        passed=response.returncode == 0,
        seconds=round(time.monotonic() - started, 1),
        printed=tuple(
            line.partition(": ")[2] for line in response.stdout.splitlines() if line.startswith(f"SEED={seed}: ")
        ),
    )


def main() -> int:
    """Continue a run, or begin one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--only", default="", help="tests whose names have this in them")
    parser.add_argument("--again", action="store_true", help="the seeds that failed, instead of new ones")
    options = parser.parse_args()
    if not any(options.only in scenario.test for scenario in SCENARIOS):
        parser.error(f"no test has {options.only} in its name")
    log, head = read_log(), commit()
    run, done = the_run(log, options.rounds, head)
    if options.again:
        run, planned = 0, failed_ones(log, options.only)
    else:
        planned = list(to_try(log, run, done, options.rounds, options.only))
    failed = 0
    for seed, scenario in planned:
        tried = try_once(run, options.rounds, head, seed, scenario)
        with LOG.open("a", encoding="utf-8") as file:
            file.write(json.dumps(dataclasses.asdict(tried)) + "\n")
        failed += not tried.passed
        print(f"seed {seed}: {scenario.test}, {'passed' if tried.passed else 'FAILED'}, {tried.seconds} s", flush=True)
    page_of(read_log()).publish()
    return 1 if failed else 0


def page_of(log: Sequence[Round]) -> ResultPage:
    """The last run, and what all runs add up to with the seeds that were tried again."""
    last = max((each.run for each in log), default=0)
    rounds = [each for each in log if each.run == last > 0]
    progress = f"Run {last}: {len(rounds)} of {rounds[0].of} rounds." if rounds else "No run yet."
    return ResultPage(
        name="kill",
        title="Killed and started again",
        command="make test-kill",
        commit=rounds[0].commit if rounds else "none",
        parts=(
            f"{progress} SEED=seed in the environment of pytest tries one again.",
            of_run(rounds),
            "## All runs so far",
            of_all(log),
        ),
    )


def of_run(rounds: Sequence[Round]) -> Table:
    """A row for each round."""
    rows = table("seed", "test", "outcome", "seconds", "output")
    for each in rounds:
        outcome = "passed" if each.passed else "FAILED"
        name = each.test.removeprefix(IN_TESTS)
        rows.add_row(str(each.seed), name, outcome, f"{each.seconds:.0f}", Text("; ".join(each.printed)))
    return rows


def of_all(log: Sequence[Round]) -> Table:
    """A row for each test."""
    rows = table("test", "rounds", "passed", "seeds that failed last", "hours")
    for test in sorted({each.test for each in log}):
        some = [each for each in log if each.test == test]
        last = {each.seed: each.passed for each in some}
        bad = ", ".join(str(seed) for seed, passed in last.items() if not passed) or "none"
        hours = sum(each.seconds for each in some) / 3600
        name = test.removeprefix(IN_TESTS)
        rows.add_row(name, str(len(some)), str(sum(each.passed for each in some)), bad, f"{hours:.2f}")
    return rows


if __name__ == "__main__":
    sys.exit(main())
