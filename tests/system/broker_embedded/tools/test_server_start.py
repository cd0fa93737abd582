import signal
import sys
from pathlib import Path

import pytest
from dirty_equals import IsInt

from tests.support.scripts import free_port, listens, started
from tests.support.tools import Tool
from tests.support.waiting import eventually


def test_settings_may_be_overridden(tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text(f"listeners=SSL://:1\nlog.dirs={tmp_path / 'data'}\nnode.id=1\n")
    port = free_port()
    command = [sys.executable, "-m", "broker_embedded.tools", "kafka-server-start", str(properties)]
    overrides = ["--override", f"listeners=PLAINTEXT://127.0.0.1:{port}", "--override", "node.id=5"]
    with started([*command, *overrides], until=r"INFO \[KafkaRaftServer nodeId=5\] Kafka Server started"):
        assert listens(port)


def test_a_setting_that_cannot_be_honoured_is_named(tool: Tool, tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text("listeners=SSL://:1\n")
    response = tool("kafka-server-start", str(properties))
    assert response.status == 2
    assert "server.properties: listeners: SSL://:1 needs SSL" in response.err
    assert "--override: KEY=VALUE is expected" in tool("kafka-server-start", str(properties), "--override", "x").err


def test_a_missing_jaas_file_is_no_bad_setting(tool: Tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text("listeners=SASL_PLAINTEXT://127.0.0.1:0\n")
    monkeypatch.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config={tmp_path / 'none.conf'}")
    response = tool("kafka-server-start", str(properties))
    assert (response.status, str(tmp_path / "none.conf") in response.err) == (1, True)


def test_an_address_that_is_taken_ends_it(tool: Tool, tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    port = free_port()
    properties.write_text(f"listeners=PLAINTEXT://127.0.0.1:{port}\nlog.dirs={tmp_path / 'data'}\n")
    command = [sys.executable, "-m", "broker_embedded.tools", "kafka-server-start", str(properties)]
    with started(command, until="Kafka Server started") as process:
        response = tool("kafka-server-start", str(properties))
        assert response.status == 1
        problem = f"cannot listen on 127.0.0.1:{port}: Address already in use"
        assert response.err == f"kafka-server-start: listeners: {problem}\n"
        settings = f"listeners=PLAINTEXT://127.0.0.1:0\nlog.dirs={tmp_path / 'other'}\n"
        properties.write_text(f"{settings}metrics.listener=127.0.0.1:{port}\n")
        response = tool("kafka-server-start", str(properties))
        assert (response.status, response.err) == (1, f"kafka-server-start: metrics.listener: {problem}\n")
        process.send_signal(signal.SIGTERM)
        eventually(process.poll, IsInt, within_s=60)


def test_users_are_those_of_the_storage_and_of_the_jaas_file(
    tool: Tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    properties, jaas = tmp_path / "server.properties", tmp_path / "jaas.conf"
    properties.write_text(
        f"listeners=SASL_PLAINTEXT://127.0.0.1:{port}\nlog.dirs={tmp_path / 'data'}\nnode.id=4\n"
        "sasl.enabled.mechanisms=SCRAM-SHA-256,PLAIN\n"
    )
    jaas.write_text('KafkaServer { a.PlainLoginModule required user_bob="hunter2"; };')
    user = ("--add-scram", "SCRAM-SHA-256=[name=alice,password=hunter2]")
    assert tool("kafka-storage", "format", "-t", "c", "-c", str(properties), *user).status == 0
    monkeypatch.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config={jaas}")
    line = (
        r"INFO \[QuorumController id=4\] Replayed UserScramCredentialRecord creating new entry for alice with "
        r"mechanism SCRAM_SHA_256\. \(org\.apache\.kafka\.controller\.ScramControlManager\)"
    )
    command = [sys.executable, "-m", "broker_embedded.tools", "kafka-server-start", str(properties)]
    with started(command, until=line):
        for mechanism, name, module in (
            ("SCRAM-SHA-256", "alice", "ScramLoginModule"),
            ("PLAIN", "bob", "PlainLoginModule"),
        ):
            client = tmp_path / f"{name}.properties"
            client.write_text(
                f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
                f'sasl.jaas.config={module} required username="{name}" password="hunter2";\n'
            )
            servers = ("--bootstrap-server", f"127.0.0.1:{port}", "--command-config", str(client))
            created = tool("kafka-topics", *servers, "--create", "--topic", name)
            assert (created.status, created.out) == (0, f"Created topic {name}.\n")
