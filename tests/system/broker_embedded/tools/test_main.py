import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from broker_embedded._tools.run_class import SCRIPTS
from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native._tools.dispatch import TOOLS
from spark_kafka_native.tools import main
from tests.support.tools import Tool, ToolResult, calling


def test_a_tool_that_is_not_there(tool: Tool) -> None:
    response = tool("kafka-topcs")
    assert response.status == 2
    assert response.err.startswith("python -m broker_embedded.tools: No such command 'kafka-topcs'. ")
    assert "'kafka-topics'" in response.err


def test_without_a_name_the_tools_are_listed(tool: Tool) -> None:
    response = tool()
    assert (response.status, response.out) == (2, "")
    assert "  kafka-consumer-groups " in response.err


def test_the_tools_without_a_broker_name_the_package_that_has_its_tools(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = calling(main, capfd, monkeypatch)
    assert "No such command 'kafka-server-start'" in tool("kafka-server-start").err
    response = tool("--help")
    assert (response.status, response.lines[0]) == (0, "Usage: python -m spark_kafka_native.tools [OPTIONS] TOOL ...")
    assert names_in(response) == set(TOOLS)
    assert response.lines[-1] == "python -m broker_embedded.tools: the same tools, and those of the bundled broker"


def test_help_has_a_line_for_each_tool(tool: Tool) -> None:
    response = tool("--help")
    assert (response.status, response.err) == (0, "")
    assert response.lines[0] == "Usage: python -m broker_embedded.tools [OPTIONS] TOOL ..."
    assert names_in(response) == {"exactly-once", "home", *SCRIPTS}


def names_in(response: ToolResult) -> set[str]:
    """The tools that a help text lists."""
    return {line.split()[0] for line in response.lines if re.match("  [a-z]", line)}


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
    """The exit status of a tool whose stdout and stderr are closed."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "broker_embedded.tools", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])}
    try:
        return subprocess.run(
            command, stdout=writer, stderr=writer, timeout=120, check=False, cwd=cwd, env=environment
        ).returncode
    finally:
        os.close(writer)


def test_only_a_closed_stdout_is_no_error_on_stderr(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "broker_embedded.tools", "--help"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path, env=environment
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        process.stdout = None
        _, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (141, b"")


SERVER = ("--bootstrap-server", "nonsense")
FULL = "stdout cannot be written: No space left on device\n"
PRODUCER = ("kafka-console-producer", *SERVER, "--topic", "t")
LIST = ("kafka-topics", "--list", *SERVER)


@pytest.mark.parametrize(
    ("redirection", "arguments", "status", "out", "err"),
    [
        (">&-", ("kafka-topics", "--help"), 0, "", ""),
        (">&-", ("kafka-topics", "--version"), 0, "", ""),
        (">&-", LIST, 2, "", "kafka-topics: --bootstrap-server:"),
        (">&-", ("kafka-topics", "--lst"), 2, "", "kafka-topics: No such option"),
        ("2>&-", LIST, 2, "", ""),
        ("2>&-", ("kafka-topics", "--lst"), 2, "", ""),
        ("<&- >&- 2>&-", ("kafka-topics", "--version"), 0, "", ""),
        ("<&- >&- 2>&-", LIST, 2, "", ""),
        ("2>&-", ("kafka-topics", "--l\udcff"), 2, "", ""),
        ("<&-", ("kafka-console-producer", *SERVER, "--topic", "t"), 1, "", "kafka-console-producer: stdin is closed"),
    ],
)
def test_a_closed_stream_changes_no_exit_status(
    tmp_path: Path, redirection: str, arguments: tuple[str, ...], status: int, out: str, err: str
) -> None:
    done = redirected(redirection, *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (status, out), done.stderr
    assert done.stderr.startswith(err)
    assert err or not done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="/dev/full is Linux's")
@pytest.mark.parametrize(
    ("redirection", "arguments", "status", "err"),
    [
        (">/dev/full", ("kafka-topics", "--version"), 1, f"kafka-topics: {FULL}"),
        (">/dev/full", ("kafka-topics", "--help"), 1, f"kafka-topics: {FULL}"),
        (">/dev/full", ("kafka-storage", "info", "--help"), 1, f"kafka-storage: {FULL}"),
        (">/dev/full", ("--help",), 1, f"python -m broker_embedded.tools: {FULL}"),
        (">/dev/full 2>/dev/full", ("kafka-topics", "--help"), 1, ""),
        ("2>/dev/full", LIST, 2, ""),
        ("2>/dev/full", ("kafka-topics", "--lst"), 2, ""),
    ],
)
def test_output_that_cannot_be_written_is_an_error(
    tmp_path: Path, redirection: str, arguments: tuple[str, ...], status: int, err: str
) -> None:
    done = redirected(redirection, *arguments, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (status, err)


def redirected(redirection: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a tool with a redirection of the shell."""
    command = ["sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, "-m", "broker_embedded.tools", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=cwd, env=environment)
