import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_embedded._testing.control.commands import Control
from broker_embedded._testing.restartable import RestartableBroker
from broker_embedded.testing import BrokerProcess, EmbeddedBroker
from tests.support.pages import read_blocks

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
KINDS = {"python", "python test", "sh"}
BROKER, CONTROL = "127.0.0.1:9092", "127.0.0.1:8123"
"""Addresses on the page."""


BLOCKS = read_blocks(PAGE)


def test_every_block_is_of_a_kind_that_is_run() -> None:
    assert {block.kind for block in BLOCKS} == KINDS
    assert sum(block.is_marked for block in BLOCKS) == 2


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # kafka-python
def test_python_runs_from_top_to_bottom() -> None:
    pytest.importorskip("kafka", reason="kafka-python is not installed")
    namespace: dict[str, object] = {"__name__": "page"}
    try:
        for block in BLOCKS:
            if block.kind == "python":
                assert block.run(namespace) == block.promised
    finally:
        broker = namespace["broker"]
        assert isinstance(broker, EmbeddedBroker)
        broker.stop()


def test_the_tests_on_the_page_pass(tmp_path: Path) -> None:
    pytest.importorskip("kafka", reason="kafka-python is not installed")
    for number, block in enumerate(block for block in BLOCKS if block.kind == "python test"):
        (tmp_path / f"test_page_{number}.py").write_text(block.code, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "--strict-markers", "-p", "no:cacheprovider", "-p", "no:xdist"]
    response = subprocess.run(
        [*command, str(tmp_path)], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )
    assert "3 passed" in response.stdout, response.stdout + response.stderr


@pytest.fixture
def process(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data", control=True) as made:
        yield made


def test_commands_on_the_page_have_the_responses_on_the_page(process: BrokerProcess) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    script = "\n".join(block.code for block in BLOCKS if block.is_marked)
    for ours, theirs in ((CONTROL, process.control_url.removeprefix("http://")), (BROKER, process.bootstrap_servers)):
        script = script.replace(ours, theirs)
    response = subprocess.run(["sh", "-eu", "-c", script], capture_output=True, text=True, check=False, timeout=120)
    assert response.returncode == 0, response.stderr
    promised = re.findall(r"# -> (.*)", script)
    said = response.stdout.splitlines()
    assert len(said) == len(promised) > 15
    for line, promise in zip(said, promised, strict=True):
        assert re.fullmatch(re.escape(promise).replace(r"\.\.\.", ".*"), line), (promise, line)


def test_every_command_is_on_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    control = Control(RestartableBroker({}, "unused"))
    assert [name for name in control._commands if f"{CONTROL}/{name}" not in page] == []
