import socket
import sys
from pathlib import Path

from tests.support.scripts import free_port, started
from tests.support.tools import Tool, run_script


def ask(port: int, word: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(word)
        response = b""
        while piece := connection.recv(1000):
            response += piece
        return response


def test_only_four_letter_status_commands_are_answered(tmp_path: Path) -> None:
    properties = tmp_path / "zookeeper.properties"
    port = free_port()
    properties.write_text(f"clientPort={port}\ndataDir={tmp_path}\n")
    command = [sys.executable, "-m", "broker_embedded.tools", "zookeeper-server-start", str(properties)]
    with started(command, until=rf"binding to port 127\.0\.0\.1:{port}"):
        assert ask(port, b"ruok") == b"imok"
        assert b"Mode: standalone" in ask(port, b"srvr")
        assert ask(port, b"\0\0\0\x2d") == b""


def test_a_bad_file_is_named(tool: Tool, tmp_path: Path) -> None:
    properties = tmp_path / "zookeeper.properties"
    properties.write_text("clientPort=many\n")
    response = tool("zookeeper-server-start", str(properties))
    assert (response.status, "zookeeper.properties: " in response.err) == (2, True)


def test_the_stand_in_for_zookeeper_is_stopped_by_its_script(home: Path, tmp_path: Path) -> None:
    properties = tmp_path / "zookeeper.properties"
    properties.write_text(f"clientPort={free_port()}\n")
    command = [str(home / "bin" / "zookeeper-server-start.sh"), str(properties)]
    with started(command, until="binding to port") as process:
        assert run_script(home, "zookeeper-server-stop") == f"Stopping zookeeper server {process.pid}\n"
        assert process.wait(60) == 0


def test_the_zookeeper_shell_prints_that_there_is_no_zookeeper(tool: Tool) -> None:
    response = tool("zookeeper-shell", "localhost:2181", "ls", "/")
    assert (response.status, "this KAFKA_HOME has no ZooKeeper" in response.err) == (2, True)
