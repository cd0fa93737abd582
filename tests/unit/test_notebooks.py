"""The notebooks are kept as `make notebooks` has executed them: whole, without an error, and with public names only."""

import ast
import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).parents[2]
NOTEBOOKS: Final = sorted((ROOT / "notebooks").glob("*.ipynb"))
PATH_OF_A_MACHINE: Final = re.compile(r"(?<![\w.:/<])/(home|root|Users|tmp|var|work)/")
PRIVATE: Final = re.compile(r"\b(spark_kafka_native|broker_embedded)[\w.]*(\._| import _)\w+")
PACKAGES: Final = ("spark_kafka_native", "broker_embedded")
MODULES: Final = {"spark_kafka_native", "spark_kafka_native.confluent", "broker_embedded.testing"}
"""What docs/interface.md lists."""

pytestmark = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def cells(path: Path, kind: str) -> list[Any]:
    return [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == kind]


def outputs(path: Path) -> Iterator[Any]:
    for cell in cells(path, "code"):
        yield from cell["outputs"]


def test_it_was_executed_from_top_to_bottom(path: Path) -> None:
    code = cells(path, "code")
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    kinds = {output["output_type"] for output in outputs(path)}
    assert kinds <= {"stream", "display_data", "execute_result"}
    assert "stderr" not in {output.get("name") for output in outputs(path)}


def test_it_shows_the_plot_of_the_page_and_nothing_of_the_machine(path: Path) -> None:
    (image,) = (output["data"]["image/png"] for output in outputs(path) if "image/png" in output.get("data", {}))
    assert base64.b64decode(image) == (ROOT / "docs" / "images" / "notebooks" / f"{path.stem}.png").read_bytes()
    assert not PATH_OF_A_MACHINE.search(path.read_text(encoding="utf-8"))


def test_it_begins_with_what_it_is_about_and_what_it_needs(path: Path) -> None:
    title, *text = cells(path, "markdown")[0]["source"]
    assert title.startswith("# ")
    assert re.search(r"\bneeds\b.*pip install.*\btakes\b", "".join(text), re.DOTALL)


def test_its_parameters_are_in_one_cell_of_constants(path: Path) -> None:
    """The test of the short form replaces them."""
    (cell,) = (cell for cell in cells(path, "code") if "parameters" in cell["metadata"].get("tags", ()))
    for statement in ast.parse("".join(cell["source"])).body:
        assert isinstance(statement, ast.Assign)
        ast.literal_eval(statement.value)


def test_it_uses_public_names_only(path: Path) -> None:
    """Also in the programs that it writes as text."""
    for cell in cells(path, "code"):
        code = "".join(cell["source"])
        assert not PRIVATE.search(code)
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith(PACKAGES):
                assert node.module in MODULES
            if isinstance(node, ast.Attribute):
                assert not node.attr.startswith("_"), node.attr


def test_the_copy_of_the_quick_start_is_whole(path: Path) -> None:
    said = "".join(line for output in outputs(path) for line in output.get("text", ()))
    found = re.search(r"(\d+) in, (\d+) out, 0 lost, 0 duplicated\n", said)
    if path.stem == "quickstart":
        assert found
        assert int(found[1]) == int(found[2]) > 0
    else:
        assert not found
