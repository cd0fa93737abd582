import socket
import sys
from pathlib import Path

from tests.support.scripts import free_port, started
from tests.system.spark_kafka_native.tools.conftest import Tool


def ask(port: int, word: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(word)
        answer = b""
        while piece := connection.recv(1000):
            answer += piece
        return answer


def test_it_answers_how_it_is_and_nothing_else(tmp_path: Path) -> None:
    properties = tmp_path / "zookeeper.properties"
    port = free_port()
    properties.write_text(f"clientPort={port}\ndataDir={tmp_path}\n")
    command = [sys.executable, "-m", "spark_kafka_native.tools", "zookeeper-server-start", str(properties)]
    with started(command, until=rf"binding to port 127\.0\.0\.1:{port}"):
        assert ask(port, b"ruok") == b"imok"
        assert b"Mode: standalone" in ask(port, b"srvr")
        assert ask(port, b"\0\0\0\x2d") == b""


def test_a_bad_file_is_named(tool: Tool, tmp_path: Path) -> None:
    properties = tmp_path / "zookeeper.properties"
    properties.write_text("clientPort=many\n")
    answer = tool("zookeeper-server-start", str(properties))
    assert (answer.status, "zookeeper.properties: " in answer.err) == (2, True)
