"""The README's examples: its Python blocks run from top to bottom in one namespace, its marked shell blocks too."""

import contextlib
import inspect
import io
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native._client.config import PROPERTIES
from spark_kafka_native._spark.options.table import SINK_OPTIONS, SOURCE_OPTIONS

ROOT = Path(__file__).parents[2]
RUN_MARK = "<!-- run -->"
FENCE = re.compile(r"(?P<mark><!-- run -->\n+)?^```(?P<language>\w*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
SHELL_DEADLINE_S = 60


class Block(NamedTuple):
    line: int
    """Where its code begins in the README."""
    language: str
    marked: bool
    code: str


def read_blocks() -> list[Block]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return [
        Block(text.count("\n", 0, match.start("code")) + 1, match["language"], match["mark"] is not None, match["code"])
        for match in FENCE.finditer(text)
    ]


PYTHON_BLOCKS = [block for block in read_blocks() if block.language == "python"]
SHELL_BLOCKS = [block for block in read_blocks() if block.language == "sh" and block.marked]


def test_every_fence_is_seen_and_says_its_language() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert 2 * len(read_blocks()) == len(re.findall(r"^```", text, re.MULTILINE))
    assert {block.language for block in read_blocks()} == {"python", "sh"}
    assert len(PYTHON_BLOCKS) >= 5
    assert len(SHELL_BLOCKS) == text.splitlines().count(RUN_MARK) >= 2


def test_options_named_in_tables_are_there() -> None:
    known = {option.name for option in (*SOURCE_OPTIONS, *SINK_OPTIONS)} | {f"kafka.{name}" for name in PROPERTIES}
    rows = re.findall(r"^\| (`.*?) \|", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
    assert len(named) >= 10
    assert named - known == set()


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory of the README's own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.spark
def test_python_blocks_run_from_top_to_bottom(
    spark: SparkSession, elsewhere: Path, request: pytest.FixtureRequest
) -> None:
    """Each block prints what its comments promise, ``# -> text``; a test that one shows gets its fixtures and runs."""
    namespace: dict[str, object] = {"__name__": "readme"}
    with contextlib.ExitStack() as stack:
        stack.callback(close_brokers, namespace)
        for block in PYTHON_BLOCKS:
            # Blank lines in front, so that a traceback names the README's own line.
            code = compile("\n" * (block.line - 1) + block.code, "README.md", "exec")
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(code, namespace)
            promised = re.findall(r"# -> (.*)", block.code)
            printed = output.getvalue().splitlines()
            assert [line for line in promised if line not in printed] == [], f"README.md:{block.line} printed {printed}"
        shown_tests = [value for name, value in namespace.items() if name.startswith("test_") and callable(value)]
        assert shown_tests
        for shown in shown_tests:
            shown(*(request.getfixturevalue(name) for name in inspect.signature(shown).parameters))


def close_brokers(namespace: dict[str, object]) -> None:
    for value in namespace.values():
        if isinstance(value, EmbeddedBroker):
            value.stop()


@pytest.mark.parametrize("block", SHELL_BLOCKS, ids=lambda block: f"line {block.line}")
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
    assert response.returncode == 0, f"README.md:{block.line}: {response.stdout}{response.stderr}"
    promised = re.findall(r"# -> (.*)", block.code)
    assert [text for text in promised if text not in response.stdout + response.stderr] == []
