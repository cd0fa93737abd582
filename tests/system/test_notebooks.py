"""The notebooks run: their code in a short form, in the session of all tests.

A kernel and a session for each notebook would take ten seconds more. The session does not stop at a notebook's end, and
plots are drawn but not shown; everything else runs as in Jupyter. `make notebooks` executes them in full.
"""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

NOTEBOOKS: Final = Path(__file__).parents[2] / "notebooks"
SHORT: Final[dict[str, dict[str, Any]]] = {
    "exactly_once": {"ORDERS": 400},
    "faults": {"ORDERS": 500},
    "migration": {"NEW_VISITS": 300},
    "operations": {"BURSTS": 5, "RECORDS_PER_BURST": 2_000, "SECONDS_BETWEEN": 0.0},
    "performance": {"SIZES": (100, 1_000), "ROUNDS": 1},
    "quickstart": {"VIEWS": 8_000, "MICRO_BATCHES": 2},
}
"""Parameters that replace those of the cell with this tag."""
CHANGED_SETTINGS: Final = ("spark.sql.shuffle.partitions", "spark.sql.execution.arrow.maxBytesPerBatch")

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.fixture
def names(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The names of a notebook's cells. The session has its settings of before at the end."""
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is not installed")
    if is_remote():
        pytest.skip("a notebook makes a session in its process")
    monkeypatch.chdir(NOTEBOOKS)
    monkeypatch.syspath_prepend(NOTEBOOKS)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)
    monkeypatch.setattr(pyplot, "show", lambda: pyplot.close("all"))
    before = {name: spark.conf.get(name) for name in CHANGED_SETTINGS}
    found: dict[str, Any] = {}
    yield found
    for name, value in before.items():
        spark.conf.set(name, str(value))
    spark.sparkContext.setLogLevel("OFF")
    if (driver := found.get("driver")) is not None and driver.poll() is None:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    if (broker := found.get("broker")) is not None:
        broker.stop()


def test_every_notebook_has_a_short_form() -> None:
    assert {path.stem for path in NOTEBOOKS.glob("*.ipynb")} == set(SHORT)


@pytest.mark.parametrize("notebook", SHORT)
def test_a_notebook_runs(notebook: str, names: dict[str, Any]) -> None:
    content = json.loads((NOTEBOOKS / f"{notebook}.ipynb").read_text(encoding="utf-8"))
    for cell in content["cells"]:
        if cell["cell_type"] != "code":
            continue
        exec(compile("".join(cell["source"]), f"{notebook}.ipynb, cell {cell['id']}", "exec"), names)
        if "parameters" in cell["metadata"].get("tags", ()):
            assert SHORT[notebook].keys() <= names.keys()
            names.update(SHORT[notebook])
