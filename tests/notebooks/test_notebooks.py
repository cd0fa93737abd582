"""Every notebook runs from top to bottom, as a reader would run it, and is kept without outputs."""

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

EXTRA = "the extra `notebooks` is not installed: pip install '.[notebooks]'"
nbformat = pytest.importorskip("nbformat", reason=EXTRA)
nbclient = pytest.importorskip("nbclient", reason=EXTRA)
kernelspec = pytest.importorskip("ipykernel.kernelspec", reason=EXTRA)
pytest.importorskip("matplotlib", reason=EXTRA)
pytest.importorskip("pandas", reason=EXTRA)

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
CELL_DEADLINE_S = 200
PNG = b"\x89PNG\r\n\x1a\n"


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def name(path: Path) -> str:
    return path.stem


def outputs(notebook: Any) -> Iterator[Any]:
    for cell in notebook.cells:
        yield from cell.get("outputs", [])


def printed(cell: Any) -> str:
    return "".join(output.text for output in cell.outputs if output.get("name") == "stdout")


def test_there_is_a_quick_start() -> None:
    assert "quickstart" in [path.stem for path in NOTEBOOKS]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_it_is_valid_and_kept_without_outputs(path: Path) -> None:
    notebook = read(path)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    assert list(outputs(notebook)) == []
    assert {cell.get("execution_count") for cell in notebook.cells} == {None}
    assert not re.search(r"(?<![\w.:/<])/(home|root|Users|tmp|var)/", path.read_text(encoding="utf-8"))


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A kernel of this very Python, whatever kernels are installed; the user's home is neither read nor written."""
    kernelspec.write_kernel_spec(tmp_path / "share" / "kernels" / "this-python")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "share"))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")  # a Spark for one minute: compile quickly
    for variable in ("JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "MPLCONFIGDIR"):
        monkeypatch.setenv(variable, str(tmp_path / variable.lower()))
    return "this-python"


RUN = [  # a Spark and a kernel each, so only the first is run with every `make test`
    pytest.param(path, marks=() if path.stem == "quickstart" else pytest.mark.interop) for path in NOTEBOOKS
]


@pytest.mark.spark
@pytest.mark.timeout(3 * CELL_DEADLINE_S)
@pytest.mark.parametrize("path", RUN, ids=name)
def test_it_runs_from_top_to_bottom(path: Path, kernel: str, tmp_path: Path) -> None:
    notebook = read(path)
    directory = tmp_path / "work"
    directory.mkdir()
    client = nbclient.NotebookClient(
        notebook, kernel_name=kernel, timeout=CELL_DEADLINE_S, resources={"metadata": {"path": str(directory)}}
    )
    client.execute()
    assert [output.ename for output in outputs(notebook) if output.output_type == "error"] == []
    images = [output.data["image/png"] for output in outputs(notebook) if "image/png" in output.get("data", {})]
    assert images, "it shows no plot"
    assert all(base64.b64decode(image).startswith(PNG) for image in images)
    assert list(directory.iterdir()) == [], "it leaves files behind"
    if path.stem == "quickstart":
        check_comparison(notebook)


def check_comparison(notebook: Any) -> None:
    """Its last cell with anything to say says that the copy is whole, and was not empty."""
    said = [printed(cell) for cell in notebook.cells if cell.cell_type == "code"]
    last = [text for text in said if text][-1]
    found = re.fullmatch(r"(\d+) in, (\d+) out, 0 lost, 0 duplicated\n", last)
    assert found, last
    assert int(found[1]) == int(found[2]) > 0
