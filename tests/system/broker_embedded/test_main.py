import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from broker_embedded.__main__ import _parse, _settings, broker, main
from broker_embedded._config.config import BrokerConfig
from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native._command_line.commands import Options


def test_help_lists_every_setting_with_its_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for key, setting in BrokerConfig.settings().items():
        assert f"  {key} ({setting.default_text or 'none'}" in text, key
    for option in ("--listen", "--advertise", "--as-version", "--data-dir", "--set", "--config", "--log-level"):
        assert option in text
    assert "listener.name.LISTENER.plain.sasl.jaas.config (none)" in text
    for option in ("--add-scram", "--control-listener", "--control-from-anywhere", "--clock"):
        assert option in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--data-dir is required unless log.dirs is set"),
        (
            ["--data-dir", "d", "--set", "num.partitons=3"],
            "num.partitons: no such setting; did you mean num.partitions?",
        ),
        (["--data-dir", "d", "--set", "num.partitions=0"], "broker_embedded: --set num.partitions: 0 is out of range"),
        (["--data-dir", "d", "--set", "num.partitions"], "--set: KEY=VALUE is expected"),
        (["--data-dir", "d", "--listen", "9092"], "--listen: '9092' is not HOST:PORT"),
        (["--data-dir", "d", "--advertise", "0.0.0.0:1"], "no client can reach 0.0.0.0"),
        (
            ["--data-dir", "d", "--metrics-port", "http"],
            "--metrics-port: 'http' is not a port, which is a number from 0 to 65535",
        ),
        (
            ["--data-dir", "d", "--control-listener", "0.0.0.0:1"],
            "--control-listener: other machines can reach '0.0.0.0:1'",
        ),
        (
            ["--data-dir", "d", "--control-listener", "127.0.0.1:0", "--clock", "slow"],
            "--clock: must be manual:MS or ahead:MS, not 'slow'",
        ),
        (
            ["--data-dir", "d", "--add-scram", "alice"],
            "broker_embedded: --add-scram: the text from character 1 on is not a user",
        ),
        (["--data-dir", "d", "--clock", "manual:5"], "--clock requires --control-listener"),
        (["--data-dir", "d", "--control-from-anywhere"], "--control-from-anywhere requires --control-listener"),
        (
            ["--data-dir", "d", "--set", "broker.id=2", "--set", "node.id=3"],
            "node.id: the older name broker.id is '2', and node.id is '3'; remove broker.id",
        ),
        (["--data-dir", "d", "--set", "zk.connect=a:b"], "--set zk.connect: 'a:b': 'b' is not a port"),
        (["--data-dir", "d", "--as-version", "2.8.1.2"], "'2.8.1.2' is not a release"),
        (
            ["--data-dir", "d", "--as-version", "3"],
            "broker_embedded: --as-version: '3' is not a release of Apache Kafka that can be",
        ),
    ],
)
def test_bad_options_are_named_in_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("python -m broker_embedded: ")
    assert said in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"num.partitions\n", "num.partitions: '' is not a whole number"),
        (b"num.partitons=3\n", "num.partitons: no such setting; did you mean num.partitions?"),
    ],
)
def test_an_error_in_a_file_names_it(
    content: bytes, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "server.properties"
    file.write_bytes(content)
    arguments = ["--data-dir", str(tmp_path / "d"), "--config", str(file)]
    assert main(arguments) == 2
    assert capsys.readouterr().err == f"python -m broker_embedded: --config {file}: {said}\n"
    assert main([*arguments, "--set", "num.partitions=x"]) == 2
    error = capsys.readouterr().err
    assert (str(file) in error) is ("num.partitions: 'x' is not a whole number" not in error)
    file.write_bytes(b"a=\xff\n")
    assert main(arguments) == 1
    error = capsys.readouterr().err
    assert (error.count(str(file)), "0xff" in error, "is not UTF-8" in error) == (1, True, True)


def test_a_missing_file_is_no_bad_option(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["--data-dir", str(tmp_path / "d"), "--config", str(tmp_path / "missing.properties")]) == 1
    said = f"--config {tmp_path / 'missing.properties'}: No such file or directory"
    assert capsys.readouterr() == ("", f"python -m broker_embedded: {said}\n")
    assert list(tmp_path.iterdir()) == []


def test_errors_do_not_go_to_stdout_if_stderr_is_closed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert main([]) == 2
    assert capsys.readouterr().out == ""


def test_the_nearest_option_is_suggested(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--lisen", "127.0.0.1:0", "--data-dir", "d"]) == 2
    assert "No such option '--lisen'. (Did you mean one of: '--listen', '--set'?)\n" in capsys.readouterr().err
    assert main(["--data-dir", "d", "what"]) == 2
    assert "Got unexpected extra argument (what)\n" in capsys.readouterr().err


def test_the_reason_of_a_failed_start_is_printed_in_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with EmbeddedBroker(tmp_path / "data") as broker:
        assert main(["--data-dir", str(tmp_path / "other"), "--listen", broker.bootstrap_servers]) == 1
        address = broker.bootstrap_servers
        problem = f"cannot listen on {address}: Address already in use"
        assert capsys.readouterr().err == f"python -m broker_embedded: --listen: {problem}\n"
        free = ["--data-dir", str(tmp_path / "other"), "--listen", "127.0.0.1:0"]
        assert main([*free, "--set", f"metrics.listener={address}"]) == 1
        assert capsys.readouterr().err == f"python -m broker_embedded: --set metrics.listener: {problem}\n"
        assert main([*free, "--control-listener", address]) == 1
        assert f"broker_embedded: --control-listener: {problem}\n" in capsys.readouterr().err
        named = ["--data-dir", str(tmp_path / "other"), "--set", f"listeners=CONTROL://{address}"]
        named += ["--set", "listener.security.protocol.map=CONTROL:PLAINTEXT"]
        assert main([*named, "--control-listener", "127.0.0.1:0"]) == 1
        assert f"broker_embedded: --set listeners: {problem}\n" in capsys.readouterr().err
        assert main(["--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0"]) == 1
        assert "broker_embedded: --data-dir: data directory" in (error := capsys.readouterr().err)
        assert "in use by another broker" in error
    (tmp_path / "file").write_text("")
    assert main(["--set", f"log.dirs={tmp_path / 'file' / 'data'}", "--listen", "127.0.0.1:0"]) == 1
    assert re.search(r"broker_embedded: --set log\.dirs: .*Not a directory", capsys.readouterr().err)


def test_the_addresses_of_metrics_and_status_page_are_printed_at_the_start(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "broker_embedded", "--data-dir", str(tmp_path / "data"), "--metrics-port", "0"]
    command += ["--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        with urllib.request.urlopen(lines[1].split()[-1], timeout=60) as response:
            text = response.read().decode()
        with urllib.request.urlopen(lines[2].split()[-1], timeout=60) as response:
            page = response.read().decode()
        process.terminate()
    assert lines[0].startswith("listening on 127.0.0.1:")
    assert lines[1].startswith("metrics at http://127.0.0.1:")
    assert lines[2].startswith("status page at http://127.0.0.1:")
    assert "kafka_server_replicamanager_partitioncount 0\n" in text
    assert "<title>Broker status</title>" in page


def test_settings_come_from_file_then_options_then_set(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(f"node.id=3\nnum.partitions=4\nlisteners=PLAINTEXT://127.0.0.1:1\nlog.dirs={tmp_path}/data\n")
    command = [sys.executable, "-m", "broker_embedded", "--config", str(file), "--listen", "127.0.0.1:0"]
    command += ["--set", "num.partitions=5", "--log-level", "WARNING"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.terminate()
        rest, errors = process.communicate(timeout=60)
    assert line.startswith("listening on 127.0.0.1:")
    assert (rest, errors, process.returncode) == ("", "", 0)
    assert "node.id=3" in (tmp_path / "data" / "meta.properties").read_text()


def test_users_of_scram_come_from_the_file_and_from_options(tmp_path: Path) -> None:
    file = tmp_path / "broker.properties"
    file.write_text("add.scram=SCRAM-SHA-256=[name=alice,password=one]\n")
    added = [
        "--add-scram",
        "SCRAM-SHA-256=[name=bob,password=two]",
        "--add-scram=SCRAM-SHA-512=[name=bob,password=two]",
    ]
    options = broker.make_context("broker", ["--config", str(file), *added]).params
    users = _parse(_settings(Options(**options))).first_users()
    assert [user.user for user in users] == [
        ("alice", "SCRAM-SHA-256"),
        ("bob", "SCRAM-SHA-256"),
        ("bob", "SCRAM-SHA-512"),
    ]


@pytest.mark.parametrize(
    ("in_file", "option", "origin"),
    [
        ("alice", "SCRAM-SHA-256=[name=bob,password=two]", "--config {file}: add.scram: the text from character 1 on"),
        ("SCRAM-SHA-256=[name=bob,password=two]", "alice", "--add-scram: the text from character 1 on"),
        (
            *["SCRAM-SHA-256=[name=bob,password=two]"] * 2,
            "--config {file}: add.scram and --add-scram: user bob is repeated with mechanism SCRAM-SHA-256",
        ),
    ],
)
def test_an_error_of_a_user_names_the_option_or_the_file(
    in_file: str, option: str, origin: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "broker.properties"
    file.write_text(f"add.scram={in_file}\n")
    assert main(["--data-dir", "d", "--config", str(file), "--add-scram", option]) == 2
    assert capsys.readouterr().err.startswith(f"python -m broker_embedded: {origin.format(file=file)}")
