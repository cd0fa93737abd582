"""The notebooks are kept as `make notebooks` has executed them, whole and without an error."""

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
PNG = b"\x89PNG\r\n\x1a\n"
PATH_OF_A_MACHINE = re.compile(r"(?<![\w.:/<])/(home|root|Users|tmp|var|work)/")

pytestmark = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def code_cells(path: Path) -> list[Any]:
    return [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]


def outputs(path: Path) -> Iterator[Any]:
    for cell in code_cells(path):
        yield from cell["outputs"]


def test_it_was_executed_from_top_to_bottom(path: Path) -> None:
    cells = code_cells(path)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    kinds = {output["output_type"] for output in outputs(path)}
    assert kinds <= {"stream", "display_data", "execute_result"}
    assert "stderr" not in {output.get("name") for output in outputs(path)}


def test_it_shows_a_plot_and_nothing_of_the_machine(path: Path) -> None:
    images = [output["data"]["image/png"] for output in outputs(path) if "image/png" in output.get("data", {})]
    assert images
    assert all(base64.b64decode(image).startswith(PNG) for image in images)
    assert not PATH_OF_A_MACHINE.search(path.read_text(encoding="utf-8"))


def test_what_it_copies_is_whole(path: Path) -> None:
    """Of the quick start, whose last words say so."""
    said = "".join(line for output in outputs(path) for line in output.get("text", ()))
    found = re.search(r"(\d+) in, (\d+) out, 0 lost, 0 duplicated\n", said)
    if path.stem == "quickstart":
        assert found
        assert int(found[1]) == int(found[2]) > 0
    else:
        assert not found
