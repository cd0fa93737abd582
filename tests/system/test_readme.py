"""The examples of the README and of the first page of the documentation, run as a reader would."""

import contextlib
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from broker_embedded.testing import EmbeddedBroker
from tests.support.pages import RUN_MARK, Block, read_blocks

ROOT = Path(__file__).parents[2]
PAGES = {"README": ROOT / "README.md", "getting-started": ROOT / "docs" / "getting-started.md"}
BLOCKS = {name: read_blocks(page) for name, page in PAGES.items()}
SHELL_BLOCKS = [block for blocks in BLOCKS.values() for block in blocks if block.kind == "sh" and block.is_marked]
SHELL_DEADLINE_S = 60


def test_the_readme_is_short() -> None:
    assert len(PAGES["README"].read_text(encoding="utf-8").splitlines()) <= 110


@pytest.mark.parametrize("name", PAGES)
def test_blocks_say_their_language(name: str) -> None:
    assert {block.kind for block in BLOCKS[name]} == {"python", "sh"}


def test_marks_stand_before_blocks() -> None:
    marks = sum(page.read_text(encoding="utf-8").splitlines().count(RUN_MARK) for page in PAGES.values())
    assert len(SHELL_BLOCKS) == marks >= 1


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory of the examples' own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.spark
@pytest.mark.parametrize("name", PAGES)
def test_python_blocks_run_from_top_to_bottom(
    name: str, spark: SparkSession, elsewhere: Path, request: pytest.FixtureRequest
) -> None:
    """Each block prints what its comments promise, ``# -> text``; a test that one shows gets its fixtures and runs."""
    namespace: dict[str, object] = {"__name__": name}
    with contextlib.ExitStack() as stack:
        stack.callback(close_brokers, namespace)
        for block in BLOCKS[name]:
            if block.kind == "python":
                block.run(namespace)
        for shown in [value for name, value in namespace.items() if name.startswith("test_") and callable(value)]:
            shown(*(request.getfixturevalue(fixture) for fixture in inspect.signature(shown).parameters))


def close_brokers(namespace: dict[str, object]) -> None:
    for value in namespace.values():
        if isinstance(value, EmbeddedBroker):
            value.stop()


@pytest.mark.parametrize("block", SHELL_BLOCKS, ids=lambda block: f"{block.page.stem} {block.line}")
def test_marked_shell_blocks_run(block: Block, tmp_path: Path) -> None:
    """As a user would, with the environment's commands first on the PATH."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    response = subprocess.run(
        ["sh", "-eu", "-c", block.code],
        env={**os.environ, "PATH": path},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SHELL_DEADLINE_S,
        check=False,
    )
    assert response.returncode == 0, f"{block.page}:{block.line}: {response.stdout}{response.stderr}"
    assert [text for text in block.promised if text not in response.stdout + response.stderr] == []
