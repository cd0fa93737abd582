"""Command-line tools, called as the scripts call them, in this process."""

import io
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class ToolResult:
    """What a tool has printed, and its exit status."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


Tool = Callable[..., ToolResult]


def calling(
    main: Callable[[Sequence[str]], int], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Tool:
    """The tools of a package: `tool("kafka-topics", "--list", stdin=b"")` is the tool's response."""

    def call(*arguments: str, stdin: bytes = b"") -> ToolResult:
        with tempfile.TemporaryFile() as file:
            file.write(stdin)
            file.seek(0)
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(file))
            capfd.readouterr()
            status = main(list(arguments))
        return ToolResult(status, *capfd.readouterr())

    return call


def run_script(home: Path, script: str, *arguments: str, stdin: bytes = b"") -> str:
    """What a script of a KAFKA_HOME has printed; it has succeeded."""
    command = [str(home / "bin" / f"{script}.sh"), *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done.stdout.decode()
