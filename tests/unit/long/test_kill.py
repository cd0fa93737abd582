import ast
from collections.abc import Iterator
from dataclasses import replace

from rich.table import Table

from benchmarks.support.machine import ROOT
from tests.long.kill import IN_TESTS, SCENARIOS, Round, failed_ones, of_all, of_run, page_of, the_run, to_try
from tests.support.report import printed

FIRST = Round(run=1, of=3, commit="a", seed=7, test=SCENARIOS[0].test, passed=True, seconds=36.0, printed=("20 kills",))


def log(count: int) -> list[Round]:
    return [replace(FIRST, seed=7 + n, test=SCENARIOS[n].test, passed=n != 1) for n in range(count)]


def killing_tests() -> Iterator[str]:
    for path in sorted((ROOT / IN_TESTS).glob("test_*.py")):
        module = ast.parse(path.read_text(encoding="utf-8"))
        all_kill = any(isinstance(node, ast.Assign) and "mark.kill" in ast.unparse(node) for node in module.body)
        tests = [each for each in module.body if isinstance(each, ast.FunctionDef) and each.name.startswith("test_")]
        for test in tests:
            if all_kill or any("mark.kill" in ast.unparse(mark) for mark in test.decorator_list):
                yield f"{IN_TESTS}{path.name}::{test.name}"


def test_every_test_that_kills_is_in_a_scenario() -> None:
    chosen = {scenario.test for scenario in SCENARIOS}
    found = list(killing_tests())
    assert len(found) > len(SCENARIOS)
    assert [test for test in found if not {test, test.partition("::")[0]} & chosen] == []


def test_an_interrupted_run_continues() -> None:
    assert the_run([], 3, "a") == (1, 0)
    assert the_run(log(2), 3, "a") == (1, 2)


def test_another_run_begins() -> None:
    assert the_run(log(3), 3, "a") == (2, 0)
    assert the_run(log(2), 3, "b") == (2, 0), "on another commit"
    assert the_run(log(2), 4, "a") == (2, 0), "of another length"


def test_seeds_continue_and_scenarios_alternate() -> None:
    done = log(2)
    assert [(seed, scenario.test) for seed, scenario in to_try(done, 1, 2, 3, "")] == [(9, SCENARIOS[2].test)]
    following = [(seed, scenario.test) for seed, scenario in to_try(log(3), 2, 0, 3, "")]
    assert following == [(10 + n, SCENARIOS[3 + n].test) for n in range(3)]


def test_scenarios_may_be_chosen() -> None:
    chosen = {scenario.test for _, scenario in to_try([], 1, 0, 20, "exactly_once")}
    assert len(chosen) == 5
    assert all("exactly_once" in test for test in chosen)


def test_seeds_that_failed_last_are_known() -> None:
    done = log(3)
    assert failed_ones(done, "") == [(8, SCENARIOS[1])]
    assert failed_ones([*done, replace(done[1], passed=True)], "") == []
    assert failed_ones(done, "reload") == []


def test_the_table_of_kill_runs() -> None:
    done = log(2)
    assert printed(of_run(done))[2:] == [
        "| 7 | test_kill.py | passed | 36 | 20 kills |",
        "| 8 | test_kill_queries.py::test_a_copy_that_is_killed_loses_nothing | FAILED | 36 | 20 kills |",
    ]
    assert printed(of_all(done))[2:] == [
        "| test_kill.py | 1 | 1 | none | 0.01 |",
        "| test_kill_queries.py::test_a_copy_that_is_killed_loses_nothing | 1 | 0 | 8 | 0.01 |",
    ]


def test_seeds_tried_again_leave_the_page_of_the_run_alone() -> None:
    again = replace(FIRST, run=0, of=3, commit="b", seed=8, test=SCENARIOS[1].test)
    page = page_of([*log(2), again])
    assert page.commit == "a"
    introduction, of_the_run, _, of_all_runs = page.parts
    assert str(introduction).startswith("Run 1: 2 of 3 rounds.")
    assert isinstance(of_the_run, Table)
    assert of_the_run.row_count == 2
    assert isinstance(of_all_runs, Table)
    assert printed(of_all_runs)[3].endswith("| 2 | 1 | none | 0.02 |")


def test_a_log_without_a_run() -> None:
    assert str(page_of([]).parts[0]).startswith("No run yet.")
