import os
import signal
from pathlib import Path

import pytest

from broker_embedded.tools.commands import SCRIPTS
from tests.support.scripts import free_port, started
from tests.support.tools import Tool, run_script


def test_every_script_is_there_and_runs(home: Path) -> None:
    for name in SCRIPTS:
        assert os.access(home / "bin" / f"{name}.sh", os.X_OK)
    assert len(run_script(home, "kafka-storage", "random-uuid").strip()) == 22
    assert "Start a broker" in run_script(home, "kafka-server-start", "--help")


def test_making_it_again_renews_it(tool: Tool, home: Path) -> None:
    (home / "bin" / "kafka-topics.sh").write_text("")
    (home / "data").mkdir()
    response = tool("home", str(home))
    assert (response.status, response.out) == (0, f"KAFKA_HOME={home}\n")
    assert "kafka-topics" in (home / "bin" / "kafka-topics.sh").read_text()
    assert (home / "data").is_dir()


@pytest.mark.parametrize(
    ("mode", "line"),
    [
        ("process.roles=broker,controller", r"\[KafkaRaftServer nodeId=\d+\] Kafka Server started"),
        ("zookeeper.connect=127.0.0.1:1", r"\[KafkaServer id=\d+\] started"),
    ],
)
def test_a_broker_is_started_as_harnesses_do(home: Path, tmp_path: Path, mode: str, line: str) -> None:
    port = free_port()
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
