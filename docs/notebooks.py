"""Execute the notebooks and keep what they show: ``python -m docs.notebooks``, or ``make notebooks``.

Each is executed from top to bottom in a kernel of its own, in its folder; one that fails is left as it was. What the
kernel says on standard error, such as the JVM's greetings, and the times of cells are not kept.
"""

from pathlib import Path

import nbformat
from nbclient import NotebookClient
from rich.console import Console

FOLDER = Path(__file__).parents[1] / "notebooks"


def main() -> None:
    """Execute all of them."""
    console = Console()
    for path in sorted(FOLDER.glob("*.ipynb")):
        console.print(f"executing {path.relative_to(FOLDER.parent)}")
        notebook = nbformat.read(path, as_version=4)
        resources = {"metadata": {"path": FOLDER}}
        NotebookClient(notebook, record_timing=False, resources=resources).execute()
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
        nbformat.write(notebook, path)


if __name__ == "__main__":
    main()
