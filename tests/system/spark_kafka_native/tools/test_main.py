import os
import subprocess
import sys
from pathlib import Path

import pytest

from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native.tools.home import SCRIPTS
from tests.system.spark_kafka_native.tools.conftest import Tool


def test_a_tool_that_is_not_there(tool: Tool) -> None:
    answer = tool("kafka-mirror-maker")
    assert (answer.status, answer.err.endswith("; no 'kafka-mirror-maker'\n")) == (2, True)


def test_without_a_name_the_tools_are_listed(tool: Tool) -> None:
    answer = tool()
    assert answer.status == 2
    assert "home, kafka-configs, kafka-console-consumer" in answer.err


def test_help_has_a_line_for_each_tool(tool: Tool) -> None:
    for option in ("--help", "-h"):
        answer = tool(option)
        assert (answer.status, answer.err) == (0, "")
        assert answer.lines[0] == "usage: python -m spark_kafka_native.tools TOOL ..."
        assert {line.split()[0] for line in answer.lines[2:-2]} == {"exactly-once", "home", *SCRIPTS}


@pytest.mark.parametrize("arguments", [("--help",), ("home", "home"), ("kafka-nothing",)])
def test_a_reader_that_has_enough_ends_a_tool_without_a_message(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    assert status_without_reader(*arguments, cwd=tmp_path) == 141


def test_a_reader_of_records_that_has_enough_ends_the_consumer(tool: Tool, tmp_path: Path) -> None:
    with EmbeddedBroker(topics={"t": 1}) as broker:
        servers = ("--bootstrap-server", broker.bootstrap_servers)
        tool("kafka-console-producer", *servers, "--topic", "t", stdin=b"a\nb\n")
        assert status_without_reader("kafka-topics", *servers, "--list", cwd=tmp_path) == 141
        consumer = ("kafka-console-consumer", *servers, "--topic", "t", "--from-beginning")
        assert status_without_reader(*consumer, cwd=tmp_path) == 141


def status_without_reader(*arguments: str, cwd: Path) -> int:
    """The exit status of a tool whose stdout and stderr nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "spark_kafka_native.tools", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])}
    try:
        return subprocess.run(
            command, stdout=writer, stderr=writer, timeout=120, check=False, cwd=cwd, env=environment
        ).returncode
    finally:
        os.close(writer)


def test_only_a_closed_stdout_is_no_error_on_stderr(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "spark_kafka_native.tools", "--help"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path, env=environment
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        process.stdout = None
        _, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (141, b"")
