import json
import subprocess
from pathlib import Path

import pytest
from rich.console import Console

from tests.long import fuzz
from tests.long.fuzz import Fuzzed, last_seeds, run_properties, summary

FRAMES = Fuzzed(name="frames", seeds=(3,), inputs=34_770, memory_mb=117, corpus=464)
PROPERTIES = Fuzzed(name="properties", seeds=(4, 5, 6), inputs=39_756, output="--hypothesis-seed=5")


def test_a_row_for_each_target() -> None:
    console = Console(width=240)
    with console.capture() as captured:
        console.print(summary([FRAMES, PROPERTIES]))
    frames, properties = (" ".join(line.split()) for line in captured.get().splitlines()[3:] if line.strip())
    assert frames.endswith("| 3 | 34,770 | 464 | 117 MB | nothing |")
    assert properties.endswith("| 4-6 | 39,756 | | | failed, see below |")


def test_inputs_that_are_wrong_are_counted() -> None:
    wrong = Fuzzed(name="frames", seeds=(3,), inputs=1, wrong=("00ff", "00"), output="Traceback")
    assert not wrong.is_sound
    assert FRAMES.is_sound
    assert list(summary([wrong]).columns[-1].cells) == ["2"]


def test_seeds_continue_where_the_log_ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(fuzz, "LOG", tmp_path / "fuzz.jsonl")
    assert last_seeds() == {}
    lines = [
        {"name": "frames", "seeds": [3]},
        {"name": "properties", "seeds": [4, 5, 6]},
        {"name": "frames", "seeds": [2]},
    ]
    fuzz.LOG.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert last_seeds() == {"frames": 3, "properties": 6}


@pytest.mark.parametrize(
    ("printed", "status", "inputs", "is_sound"),
    [
        ("1 passing, 0 failing, and 2 invalid test cases\n3 passing, 0 failing, and 4 invalid test cases", 0, 10, True),
        ("- 3 passing, 1 failing, and 0 invalid test cases", 1, 4, False),
        ("192 passed", 0, 0, False),
    ],
    ids=["sound", "failed", "nothing made"],
)
def test_hypothesis_properties_are_run_with_a_seed(
    monkeypatch: pytest.MonkeyPatch, printed: str, status: int, inputs: int, *, is_sound: bool
) -> None:
    def pytest_run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        assert command[-1] == "--hypothesis-seed=7"
        return subprocess.CompletedProcess(command, status, printed, "")

    monkeypatch.setattr(subprocess, "run", pytest_run)
    done = run_properties(7, 0)
    assert (done.seeds, done.inputs, done.is_sound) == ((7,), inputs, is_sound)
    assert is_sound or done.output.startswith("--hypothesis-seed=7\n")
