"""Execute the notebooks and keep what they show: ``python -m docs.notebooks [NAME ...]``, or ``make notebooks``.

Each is executed from top to bottom in a kernel of its own, in its folder; one that fails is left as it was. What the
kernel says on standard error, such as the JVM's greetings, and the times of cells are not kept. The plot of each goes
to ``docs/images/notebooks``, for the page about the notebooks.
"""

import argparse
import base64
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from rich.console import Console

FOLDER = Path(__file__).parents[1] / "notebooks"
PLOTS = Path(__file__).parent / "images" / "notebooks"


def main() -> None:
    """Execute the named ones, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of a notebook without .ipynb; by default all")
    console = Console()
    PLOTS.mkdir(parents=True, exist_ok=True)
    for name in parser.parse_args().names or sorted(path.stem for path in FOLDER.glob("*.ipynb")):
        console.print(f"executing {name}")
        execute(FOLDER / f"{name}.ipynb")


def execute(path: Path) -> None:
    """Execute a notebook, store its outputs in it, and its plot for the page."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, record_timing=False, resources={"metadata": {"path": FOLDER}}).execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
            for output in cell.outputs:
                if (image := output.get("data", {}).get("image/png")) is not None:
                    (PLOTS / f"{path.stem}.png").write_bytes(base64.b64decode(image))
    nbformat.write(notebook, path)


if __name__ == "__main__":
    main()
