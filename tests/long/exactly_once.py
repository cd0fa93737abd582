"""The exactly-once protocol in every order that things can happen in, within wide bounds.

    python -m tests.long.exactly_once [--at-most 3000000] [name ...]

Takes some twenty minutes, and up to 2 GB of memory. One line for each scenario; exit status 1 if one shows a problem,
with the shortest way there. `tests/unit/spark_kafka_native/spark/exactly_once/test_model.py` does the same with bounds
that take seconds, and shows that the search finds what is wrong.
"""

import argparse
import sys
import time
from dataclasses import replace

from tests.support.exactly_once.model import Faults, Scenario
from tests.support.exactly_once.mutants import LARGER_MUTANTS
from tests.support.exactly_once.search import explore

BOTH = frozenset({(0, 0), (0, 1)})
TWO_TIMES_TWO = frozenset({(0, 0), (0, 1), (1, 0), (1, 1)})
SCENARIOS = {
    "zombie": Scenario(Faults(crashes=1, wakes=None)),
    "zombie-two-batches": Scenario(Faults(crashes=1, wakes=2), batches=2),
    "zombie-two-tasks": Scenario(Faults(crashes=1, wakes=2), partitions=2, rows=BOTH),
    "two-zombies": Scenario(Faults(crashes=2, wakes=2)),
    "two-crashes-two-by-two": Scenario(Faults(crashes=2, wakes=1), batches=2, partitions=2, rows=TWO_TIMES_TWO),
    "attempts": Scenario(Faults(attempts=2, crashes=1), partitions=2, rows=BOTH),
    "attempts-zombie": Scenario(Faults(attempts=1, crashes=1, wakes=2)),
    "lost-twice": Scenario(Faults(lost=2, crashes=1)),
    "lost-thrice": Scenario(Faults(lost=3)),
    "lost-zombie": Scenario(Faults(lost=1, crashes=1, wakes=1)),
    "interrupt-lost": Scenario(Faults(interrupts=1, lost=2)),
    "interrupt-zombie": Scenario(Faults(interrupts=1, crashes=1, wakes=2)),
    "time": Scenario(Faults(ticks=5), partitions=2, rows=BOTH),
    "time-crash": Scenario(Faults(ticks=4, crashes=1)),
    "time-lost": Scenario(Faults(ticks=3, lost=1)),
    "time-interrupt": Scenario(Faults(ticks=3, interrupts=1)),
    "run-again": Scenario(Faults(ticks=4, crashes=1), partitions=2, rows=BOTH, repairs=True),
    "run-again-zombie": Scenario(Faults(ticks=3, crashes=1, wakes=1), repairs=True),
    "run-again-interrupt": Scenario(Faults(ticks=3, interrupts=1, wakes=1), partitions=2, rows=BOTH, repairs=True),
    "older-checkpoints": Scenario(Faults(older=2, crashes=1), batches=2, partitions=2),
    "older-zombie": Scenario(Faults(older=1, crashes=1, wakes=1), batches=2, partitions=2),
    "jobs": Scenario(Faults(crashes=2, wakes=1), jobs=True),
    "jobs-lost": Scenario(Faults(crashes=1, lost=1), jobs=True),
}


def main() -> int:
    """Explore all scenarios, or the named ones, with both protocol versions of transactions."""
    parser = argparse.ArgumentParser(description="Model-check the exactly-once protocol.")
    parser.add_argument("--at-most", type=int, default=3_000_000, help="states of a scenario")
    parser.add_argument("names", nargs="*", metavar="name", help="scenarios; all if none is named")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - SCENARIOS.keys():
        parser.error(f"no scenario {', '.join(sorted(unknown))}; there are {', '.join(SCENARIOS)}")
    problems = 0
    for name in arguments.names or SCENARIOS:
        for tv in (1, 2):
            started = time.monotonic()
            found = explore(replace(SCENARIOS[name], tv=tv), at_most=arguments.at_most)
            problems += found.problem is not None
            print(f"{name}, transaction.version {tv}, {time.monotonic() - started:.0f} s: {found}", flush=True)
    for mutant in () if arguments.names else LARGER_MUTANTS:
        found = explore(mutant.scenario, mutant.protocol, at_most=arguments.at_most)
        problems += found.problem is None
        print(f"{mutant.name}, wrong on purpose: {found}", flush=True)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
