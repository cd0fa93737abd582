"""What a batch reads when Spark runs tasks again after it lost an executor: `tests/support/kills/retried_job.py`."""

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.kills.retried_job import LATER, PARTITIONS, RECORDS
from tests.support.kills.spark_copy import REPOSITORY, cluster_environment
from tests.support.process_tree import descendants, kill_all

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

BEFORE = {f"{partition}:{row}" for partition in range(PARTITIONS) for row in range(RECORDS)}
WITHIN_S = 360.0

Outcomes = Mapping[str, Mapping[str, Any]]


@pytest.fixture(scope="module")
def outcomes(servers: str, tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    directory = tmp_path_factory.mktemp("retried")
    errors = directory / "driver.log"
    with errors.open("wb") as log:
        driver = subprocess.Popen(
            [sys.executable, "-m", "tests.support.kills.retried_job", servers],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=REPOSITORY,
            env=cluster_environment(directory),
        )
        try:
            printed, _ = driver.communicate(timeout=WITHIN_S)
        finally:
            processes = descendants(driver.pid)
            driver.kill()
            kill_all(processes)
    assert driver.returncode == 0, errors.read_text(errors="replace")[-6000:]
    found = [json.loads(line) for line in printed.splitlines()]
    return {each["job"]: each for each in found}


def values(outcome: Mapping[str, Any]) -> dict[str, int]:
    assert "error" not in outcome, outcome["error"]
    found: dict[str, int] = outcome["values"]
    return found


@pytest.mark.feature("more.bindOffsets")
def test_a_shuffle_of_bound_offsets_has_every_row_once(outcomes: Outcomes) -> None:
    assert values(outcomes["bound shuffle"]) == dict.fromkeys(BEFORE, 1)


def test_a_shuffle_of_offsets_bound_in_tasks_loses_and_doubles_rows(outcomes: Outcomes) -> None:
    """What the option is for: tasks that run again read more, and deal other rows to the reducer that runs again."""
    found = values(outcomes["shuffle"])
    assert BEFORE - found.keys()
    assert [value for value in found if found[value] > 1]


def test_spark_finds_out_about_such_a_shuffle_by_its_checksums(outcomes: Outcomes) -> None:
    assert "indeterminate output" in outcomes["checked shuffle"]["error"]


@pytest.mark.feature("sink.exactlyOnceRetries")
def test_an_exactly_once_batch_write_without_a_shuffle_has_every_row_once(outcomes: Outcomes) -> None:
    """Rows of one attempt of each task are committed. The attempt that runs again reads what came meanwhile, too."""
    later = {f"0:later {row}" for row in range(LATER)}
    assert values(outcomes["exactly-once write"]) == dict.fromkeys(BEFORE | later, 1)
