"""Tools are called as the scripts call them, in this process."""

import io
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from spark_kafka_native.tools.__main__ import main
from spark_kafka_native.tools.home import make_home
from tests.support.brokers import AnyBroker


@dataclass(frozen=True)
class Answer:
    """What a tool has printed, and its exit status."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


Tool = Callable[..., Answer]


@pytest.fixture
def tool(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Tool:
    """`tool("kafka-topics", "--list", stdin=b"")` is the tool's answer."""

    def call(*arguments: str, stdin: bytes = b"") -> Answer:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capfd.readouterr()
        try:
            status = main(list(arguments))
        except SystemExit as error:  # argparse's way to say that an option is wrong
            status = int(str(error.code))
        return Answer(status, *capfd.readouterr())

    return call


@pytest.fixture
def on_broker(tool: Tool, any_broker: AnyBroker) -> Tool:
    """As `tool`, with the bundled broker, or Apache Kafka, as the cluster."""

    def call(name: str, *arguments: str, stdin: bytes = b"") -> Answer:
        return tool(name, "--bootstrap-server", any_broker.bootstrap_servers, *arguments, stdin=stdin)

    return call


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A KAFKA_HOME."""
    make_home(tmp_path / "home")
    return tmp_path / "home"


def run_script(home: Path, script: str, *arguments: str, stdin: bytes = b"") -> str:
    """What a script of a KAFKA_HOME has printed; it has succeeded."""
    command = [str(home / "bin" / f"{script}.sh"), *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done.stdout.decode()
