"""The protocol in every order of events, within bounds; and that the search finds wrong protocols.

`tests.long.exactly_once` does the same with wider bounds.
"""

from dataclasses import replace

import pytest

from tests.support.exactly_once.model import Faults, Scenario
from tests.support.exactly_once.mutants import MUTANTS, Mutant
from tests.support.exactly_once.search import explore

BOTH = frozenset({(0, 0), (0, 1)})
UNEVEN = frozenset({(0, 1), (1, 0)})
"""A task without rows in either batch, and none with any in the third."""
SCENARIOS = {
    "three batches": Scenario(Faults(), batches=3, partitions=2, rows=UNEVEN),
    "two crashes in two batches": Scenario(Faults(crashes=2), batches=2),
    "a driver that wakes up, two tasks": Scenario(Faults(crashes=1, wakes=1), partitions=2, rows=BOTH),
    "a driver that wakes up twice": Scenario(Faults(crashes=1, wakes=2)),
    "more attempts": Scenario(Faults(attempts=2), partitions=2, rows=BOTH),
    "more attempts and a crash": Scenario(Faults(attempts=1, crashes=1)),
    "an abort beside the commit": Scenario(Faults(interrupts=1, crashes=1)),
    "a lost response of the driver, and a crash": Scenario(
        Faults(lost=1, crashes=1), lost_by=frozenset({"plan", "commit", "abort"})
    ),
    "a lost response of a task": Scenario(Faults(lost=1), lost_by=frozenset({"task"})),
    "a lost response of the driver, and an abort beside the commit": Scenario(
        Faults(lost=1, interrupts=1), lost_by=frozenset({"commit", "abort"})
    ),
    "time": Scenario(Faults(ticks=3)),
    "time, and batches taken back": Scenario(Faults(ticks=3), partitions=2, rows=BOTH, repairs=True),
    "a batch without rows": Scenario(Faults(crashes=1, wakes=1), rows=frozenset()),
    "an older checkpoint": Scenario(Faults(older=1, crashes=1), batches=2, partitions=2),
    "an older checkpoint, and a driver that wakes up": Scenario(Faults(older=1, crashes=1, wakes=1), partitions=2),
    "batch writes": Scenario(Faults(crashes=1, wakes=1), jobs=True),
}


@pytest.mark.parametrize("tv", [1, 2])
@pytest.mark.parametrize("name", SCENARIOS)
def test_model_has_every_row_exactly_once(name: str, tv: int) -> None:
    found = explore(replace(SCENARIOS[name], tv=tv))
    print(f"{name}, transaction.version {tv}: {found}")
    assert found.problem is None, str(found)
    assert found.complete


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_model_finds_every_mutant(mutant: Mutant) -> None:
    found = explore(mutant.scenario, mutant.protocol, at_most=20_000)
    print(f"{mutant.name}: {found}")
    assert found.problem is not None, f"{found.states} states, and none of them is wrong"


def test_protocol_passes_the_scenarios_of_mutants() -> None:
    known = {replace(scenario, tv=tv) for scenario in SCENARIOS.values() for tv in (1, 2)}
    others = {mutant.scenario for mutant in MUTANTS} - known
    assert len(others) > 5
    for scenario in others:
        found = explore(scenario, at_most=5_000)
        assert found.problem is None, str(found)
