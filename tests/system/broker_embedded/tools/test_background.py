import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker_embedded._tools import background
from broker_embedded._tools.background import report_started, start_in_background
from tests.support.scripts import free_port, listens
from tests.support.tools import Tool
from tests.support.waiting import eventually

SERVERS = {
    "kafka-server-start": "listeners=PLAINTEXT://127.0.0.1:{port}\nlog.dirs={folder}/data\n",
    "zookeeper-server-start": "clientPort={port}\ndataDir={folder}/data\n",
}
PIPE_VARIABLE = "SPARK_KAFKA_NATIVE_STARTED_PIPE"
OUTPUTS = {"kafka-server-start": "kafkaServer.out", "zookeeper-server-start": "zookeeper.out"}
LOGGED = {"kafka-server-start": r"\[", "zookeeper-server-start": r"20\d\d-|java\.|\tat |$"}
"""How the lines of the logs begin. ZooKeeper logs an exception for a client that comes before its data is loaded."""


def run(home: Path, script: str, *arguments: str, cwd: Path, redirection: str = "") -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "LOG_DIR"}
    command = ["sh", "-c", f'exec "$@" {redirection}', "sh", str(home / "bin" / f"{script}.sh"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=cwd, env=environment)


@contextmanager
def in_background(
    home: Path, script: str, properties: Path, *, redirection: str = ""
) -> Iterator[subprocess.CompletedProcess[str]]:
    started = run(home, script, "-daemon", str(properties), cwd=properties.parent, redirection=redirection)
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


@pytest.mark.usefixtures("checkout")
@pytest.mark.parametrize("script", SERVERS)
def test_a_script_with_closed_streams_ends_when_the_server_serves(home: Path, properties: Path, script: str) -> None:
    port = free_port()
    properties.write_text(SERVERS[script].format(port=port, folder=properties.parent))
    with in_background(home, script, properties, redirection="<&- >&- 2>&-") as started:
        assert (started.returncode, listens(port)) == (0, True)
        lines = (home / "logs" / OUTPUTS[script]).read_text().splitlines()
        assert [line for line in lines if not re.match(LOGGED[script], line)] == []


@pytest.mark.filterwarnings("ignore:subprocess [0-9]+ is still running:ResourceWarning")
def test_a_server_that_closes_the_pipe_and_runs_on_is_not_waited_for_without_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    server = tmp_path / "server"
    server.write_text(f"#!{sys.executable}\nimport os, signal\nos.closerange(3, 100)\nsignal.pause()\n")
    server.chmod(0o755)
    monkeypatch.setenv("LOG_DIR", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(server))
    monkeypatch.setattr(background, "_START_TIMEOUT_S", 1.0)
    status = start_in_background("kafka-server-start", [], "kafkaServer.out")
    err = capfd.readouterr().err
    started = re.match(r"kafka-server-start: process (\d+) is still starting after 1 s; see ", err)
    assert started, err
    os.kill(int(started[1]), signal.SIGKILL)
    assert status == 0


def test_a_report_that_is_not_waited_for_any_more_ends_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    monkeypatch.setenv(PIPE_VARIABLE, f"{writer}:{os.fstat(writer).st_ino}")
    report_started()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(writer)


@pytest.mark.parametrize(
    "value", ["9999:{inode}", "{file}:{inode}", "{pipe}:1", "{pipe}", "abc", ":", "-1:-1", f"{2**64}:1"]
)
def test_a_variable_that_another_process_has_set_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    reader, writer = os.pipe()
    with (tmp_path / "file").open("w+") as file, os.fdopen(reader, "rb") as reports, os.fdopen(writer, "wb") as pipe:
        inode = os.fstat(file.fileno()).st_ino if "file" in value else os.fstat(writer).st_ino
        monkeypatch.setenv(PIPE_VARIABLE, value.format(file=file.fileno(), pipe=writer, inode=inode))
        report_started()
        assert PIPE_VARIABLE not in os.environ
        assert file.read() == ""
        pipe.close()
        assert reports.read() == b""


def test_an_output_that_is_a_pipe_is_named(tool: Tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOG_DIR", str(tmp_path))
    for script, output in OUTPUTS.items():
        os.mkfifo(tmp_path / output)
        response = tool(script, "-daemon", "some.properties")
        assert (response.status, response.err) == (1, f"{script}: {tmp_path / output} is not a regular file\n")


def test_a_missing_file_is_an_error_of_the_script(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[4]))
    started = run(home, "kafka-server-start", "-daemon", "nosuch.properties", cwd=tmp_path)
    assert (started.returncode, "nosuch.properties: " in started.stderr) == (1, True), started.stderr


def test_the_output_may_go_to_another_directory(tool: Tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("LOG_DIR", str(file))
    for script in SERVERS:
        response = tool(script, "-daemon", "some.properties")
        assert (response.status, str(file) in response.err) == (1, True)
        assert OUTPUTS[script] in tool(script, "--help").out
