import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from spark_kafka_native.tools.background import report_started
from tests.support.scripts import free_port, listens
from tests.support.waiting import eventually
from tests.system.spark_kafka_native.tools.conftest import Tool

SERVERS = {
    "kafka-server-start": "listeners=PLAINTEXT://127.0.0.1:{port}\nlog.dirs={folder}/data\n",
    "zookeeper-server-start": "clientPort={port}\n",
}
OUTPUTS = {"kafka-server-start": "kafkaServer.out", "zookeeper-server-start": "zookeeper.out"}


def run(home: Path, script: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "LOG_DIR"}
    command = [str(home / "bin" / f"{script}.sh"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=cwd, env=environment)


@contextmanager
def in_background(home: Path, script: str, properties: Path) -> Iterator[subprocess.CompletedProcess[str]]:
    started = run(home, script, "-daemon", str(properties), cwd=properties.parent)
    try:
        yield started
    finally:
        run(home, script.replace("start", "stop"), cwd=properties.parent)


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    return tmp_path / "some.properties"


@pytest.fixture
def checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let scripts that run elsewhere import the package that is tested."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[4]))


@pytest.mark.usefixtures("checkout")
@pytest.mark.parametrize("script", SERVERS)
def test_a_server_in_the_background_serves_when_the_script_ends(home: Path, properties: Path, script: str) -> None:
    port = free_port()
    properties.write_text(SERVERS[script].format(port=port, folder=properties.parent))
    with in_background(home, script, properties) as started:
        assert (started.returncode, started.stderr) == (0, "")
        assert listens(port)
        output = (home / "logs" / OUTPUTS[script]).resolve()
        assert started.stdout.endswith(f" runs in the background; its output is in {output}\n")
        assert len(output.read_text().splitlines()) >= 1
    eventually(lambda: listens(port), False)


@pytest.mark.usefixtures("checkout")
@pytest.mark.parametrize("script", SERVERS)
def test_a_server_that_ends_at_its_start_is_an_error(home: Path, properties: Path, script: str) -> None:
    port = free_port()
    properties.write_text(SERVERS[script].format(port=port, folder=properties.parent))
    with in_background(home, script, properties):
        second = run(home, script, "-daemon", str(properties), cwd=properties.parent)
    output = (home / "logs" / OUTPUTS[script]).resolve()
    reason, last = second.stderr.splitlines()
    assert (second.returncode, second.stdout) == (1, "")
    assert reason.startswith(f"{script}: ")
    assert last == f"{script}: the server has not started; its output is in {output}"
    assert output.read_text().splitlines()[-1] != ""


def test_a_report_that_is_not_waited_for_any_more_ends_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    monkeypatch.setenv("SPARK_KAFKA_NATIVE_STARTED_PIPE", str(writer))
    report_started()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(writer)


def test_a_missing_file_is_an_error_of_the_script(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[4]))
    started = run(home, "kafka-server-start", "-daemon", "nosuch.properties", cwd=tmp_path)
    assert (started.returncode, "nosuch.properties: " in started.stderr) == (1, True), started.stderr


def test_the_output_may_go_to_another_directory(tool: Tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("LOG_DIR", str(file))
    for script in SERVERS:
        answer = tool(script, "-daemon", "some.properties")
        assert (answer.status, str(file) in answer.err) == (1, True)
        assert OUTPUTS[script] in tool(script, "--help").out
