import os
import signal
from pathlib import Path

import pytest

from broker_embedded._tools.run_class import SCRIPTS
from tests.support.scripts import free_port, started
from tests.support.tools import Tool, run_script


def test_every_script_is_there_and_runs(home: Path) -> None:
    for name in SCRIPTS:
        assert os.access(home / "bin" / f"{name}.sh", os.X_OK)
    assert len(run_script(home, "kafka-storage", "random-uuid").strip()) == 22
    assert "Start a broker" in run_script(home, "kafka-server-start", "--help")


def test_making_it_again_writes_a_missing_configuration_of_zookeeper(tool: Tool, home: Path) -> None:
    """As in a KAFKA_HOME of a release without it."""
    file = home / "config" / "zookeeper.properties"
    before = file.read_text()
    file.unlink()
    kept = "kept: config/server.properties, config/kraft/server.properties"
    written = "written, because missing: config/zookeeper.properties"
    assert tool("home", str(home)).err == f"home: the scripts in {home} are updated; {kept}; {written}\n"
    assert file.read_text() == before


def test_making_it_again_updates_scripts_and_keeps_settings(tool: Tool, home: Path) -> None:
    (home / "bin" / "kafka-topics.sh").write_text("")
    (home / "config" / "server.properties").write_text("node.id=2\n")
    (home / "data").mkdir()
    response = tool("home", str(home))
    assert (response.status, response.out) == (0, f"KAFKA_HOME={home}\n")
    kept = "kept: config/server.properties, config/kraft/server.properties, config/zookeeper.properties"
    assert response.err == f"home: the scripts in {home} are updated; {kept}\n"
    assert "kafka-topics" in (home / "bin" / "kafka-topics.sh").read_text()
    assert (home / "config" / "server.properties").read_text() == "node.id=2\n"
    assert (home / "data").is_dir()


@pytest.mark.parametrize("name", ["README.md", "bin/kafka-topics.sh"], ids=["a-project", "apache-kafka"])
def test_a_directory_with_other_files_is_refused_and_kept(tool: Tool, tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("ours")
    response = tool("home", str(tmp_path))
    problem = "is not empty and was not created by this command; use a new or an empty directory"
    assert (response.status, response.out, response.err) == (2, "", f"home: {tmp_path} {problem}\n")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [file]
    assert file.read_text() == "ours"


def test_a_file_is_refused_in_one_line(tool: Tool, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    response = tool("home", str(file))
    assert (response.status, response.out, response.err) == (1, "", f"home: {file}: Not a directory\n")


@pytest.mark.parametrize(
    ("mode", "line"),
    [
        ("process.roles=broker,controller", r"\[KafkaRaftServer nodeId=\d+\] Kafka Server started"),
        ("zookeeper.connect=ZOOKEEPER", r"\[KafkaServer id=\d+\] started"),
    ],
)
def test_a_broker_is_started_as_harnesses_do(
    home: Path, tmp_path: Path, zookeeper_connect: str, mode: str, line: str
) -> None:
    port, mode = free_port(), mode.replace("ZOOKEEPER", zookeeper_connect)
    properties = tmp_path / "server.properties"
    properties.write_text(f"listeners=PLAINTEXT://127.0.0.1:{port}\nlog.dirs={tmp_path / 'data'}\n{mode}\n")
    servers = ("--bootstrap-server", f"127.0.0.1:{port}")
    with started([str(home / "bin" / "kafka-server-start.sh"), str(properties)], until=line) as process:
        assert run_script(home, "kafka-topics", *servers, "--create", "--topic", "t") == "Created topic t.\n"
        run_script(home, "kafka-console-producer", *servers, "--topic", "t", stdin=b"hello\n")
        read = run_script(
            home, "kafka-console-consumer", *servers, "--topic", "t", "--from-beginning", "--max-messages", "1"
        )
        assert read == "hello\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
