"""The command ``pykafka``."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native import __version__
from spark_kafka_native.__main__ import SECTIONS, main
from tests.support.tools import Tool, calling

COMMANDS = [name for section in SECTIONS.values() for name in section]


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Tool:
    return calling(main, capfd, monkeypatch)


def test_help_lists_the_commands(command: Tool) -> None:
    response = command("--help")
    assert (response.status, response.err, response.lines[0]) == (0, "", "Usage: pykafka [OPTIONS] COMMAND [ARGS]...")
    for name in COMMANDS:
        assert any(line.startswith(f"  {name} ") for line in response.lines), name
    assert command("--version").out == f"spark-kafka-native {__version__}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_under_its_name(command: Tool, name: str) -> None:
    response = command(name, "--help")
    assert (response.status, response.err) == (0, "")
    assert response.lines[0].startswith(f"Usage: pykafka {name} ")
    assert len(response.lines) > 5


def test_commands_of_kafka_do_what_their_tools_do(command: Tool) -> None:
    with EmbeddedBroker() as broker:
        server = ("--bootstrap-server", broker.bootstrap_servers)
        assert command("topics", *server, "--create", "--topic", "t", "--partitions", "1").out == "Created topic t.\n"
        assert command("console", "produce", *server, "--topic", "t", stdin=b"a\nb\n").status == 0
        first = command("console", "consume", *server, "--topic", "t", "--from-beginning", "--max-messages", "2")
        assert (first.status, first.lines) == (0, ["a", "b"])
        assert command("offsets", *server, "--topic", "t").out == "t:0:2\n"
        missing = command("topics", *server, "--describe", "--topic", "u")
        assert (missing.status, missing.err.startswith("pykafka topics: Topic 'u' does not exist")) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("topcs",), "pykafka: No such command 'topcs'. Did you mean 'topics'?"),
        (("topics", "--lisst"), "pykafka topics: No such option '--lisst'."),
        (("console", "consume"), "pykafka console consume: one of --topic, --include/--whitelist is required"),
        (("topics", "--bootstrap-server"), "pykafka topics: Option '--bootstrap-server' requires an argument."),
        (("transactions", "list", "--duration-filter"), "pykafka transactions list: Option '--duration-filter' requ"),
        (("transactions", "list"), "pykafka transactions list: --bootstrap-server is required"),
        (("broker",), "pykafka broker: --data-dir is required unless log.dirs is set"),
        (("reload", "--target", "/x"), "pykafka reload: --bootstrap-servers is required"),
        (("completion", "csh"), "'csh' is not one of 'bash', 'zsh', 'fish'"),
    ],
)
def test_errors_have_the_name_of_the_command(command: Tool, arguments: tuple[str, ...], said: str) -> None:
    response = command(*arguments)
    assert (response.status, response.out, said in response.err) == (2, "", True), response.err


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("pykafka t", ["plain,topics", "plain,transactions"]),
        ("pykafka topics --cr", ["plain,--create"]),
        ("pykafka console p", ["plain,produce"]),
        ("pykafka transactions desc", ["plain,describe", "plain,describe-producers"]),
        ("pykafka broker --log-level W", ["plain,WARNING"]),
    ],
)
def test_shells_complete_commands_and_options(words: str, offered: list[str]) -> None:
    asked = {"_PYKAFKA_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    done = run_module(asked)
    assert (done.returncode, done.stdout.splitlines(), done.stderr) == (0, offered, "")


LEFT_OUT = {
    "audit": " --source-bootstrap-servers h:1 --target-bootstrap-servers h:2 ",
    "reload": " --bootstrap-servers h:1 --topics t --target d ",
}
"""What ``...`` stands for in examples."""
GROUPS = {"console": ("consume", "produce"), "perf": ("consume", "fetch", "produce")}
"""Commands that have commands."""


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_of_help_texts_have_options_that_exist(
    command: Tool, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    examples = []
    for each in (name, *(f"{name} {more}" for more in GROUPS.get(name, ()))):
        lines = command(*each.split(), "--help").out.replace("\\\n", " ").splitlines()
        examples += [line.strip() for line in lines if line.startswith(f"  pykafka {name}")]
    assert examples or name == "completion"
    monkeypatch.setattr(click.Command, "invoke", lambda *_: None)
    for example in examples:
        words = shlex.split(example.replace(" ... ", LEFT_OUT[name]) if " ... " in example else example, comments=True)
        end = next((at for at, word in enumerate(words) if word in {"<", ">"}), len(words))
        assert command(*words[1:end]).status == 0, (example, command(*words[1:end]).err)


def test_a_variable_of_completion_without_words_has_no_effect() -> None:
    done = run_module({"_PYKAFKA_COMPLETE": "bash_complete"}, "--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"spark-kafka-native {__version__}\n", "")


def test_the_script_of_a_shell_asks_the_command() -> None:
    for shell in ("bash", "zsh", "fish"):
        done = run_module({}, "completion", shell)
        assert (done.returncode, f"_PYKAFKA_COMPLETE={shell}_complete" in done.stdout) == (0, True)


def run_module(variables: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3]), **variables}
    command = [sys.executable, "-m", "spark_kafka_native", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)


def test_the_page_and_the_help_of_a_command_have_its_summary() -> None:
    page = Path(__file__).parents[3].joinpath("docs", "tools.md").read_text(encoding="utf-8")
    for name, lazy in (each for section in SECTIONS.values() for each in section.items()):
        assert f"| `{name}`" in page or f"| `{name} " in page, name
        for text in (page, lazy.load(name).help or ""):
            assert lazy.summary.rstrip(".") in text, (name, lazy.summary)
