from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest

from spark_kafka_native._command_line.commands import (
    Group,
    Lazy,
    LazyGroup,
    Options,
    ToolCommand,
    given_options,
    run,
    version_flag,
)
from spark_kafka_native._command_line.output import InvalidOption, ToolFailed
from spark_kafka_native._command_line.parameters import (
    INT16,
    INT32,
    INT64,
    PATH,
    POSITIVE,
    OptionGroup,
    argument,
    flag,
    option,
    together,
    unsupported,
)
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError

WHAT = OptionGroup("What", exclusive=True, required=True)
WHERE = OptionGroup("Where", exclusive=True)


def parsed_by(*decorators: Callable[..., Any]) -> tuple[click.Command, list[Options]]:
    """A command with these options, and a list that gets what they were."""
    found: list[Options] = []

    def function(**given: object) -> None:
        found.append(SimpleNamespace(**given))

    return click.command("c", cls=ToolCommand, help="About it.")(together(*decorators)(function)), found


VALUES = (
    option("--topic", "-t"),
    option("--file", type=PATH),
    option("--state", is_flag=False, flag_value="all"),
    option("--config", multiple=True),
    option("--key", may_be_empty=True),
    flag("--verbose"),
    argument("name", required=False),
    unsupported("use --topic", "--whitelist"),
)


def read(*arguments: str) -> Options:
    command, found = parsed_by(*VALUES)
    assert run(command, "p", arguments) == 0
    return found[0]


def test_values_of_options() -> None:
    assert read("--topic", "-1").topic == "-1"
    assert read("-t=x", "--file", "/x", "n") == SimpleNamespace(
        topic="x", file=Path("/x"), state=None, config=(), key=None, verbose=False, name="n"
    )
    assert read("--config", "a=", "--verbose", "--config", "b", "--verbose").config == ("a=", "b")
    assert (read("--state").state, read("--state", "x").state, read("--state", "--verbose").state) == (
        "all",
        "x",
        "all",
    )
    assert read("--key", "").key == ""
    assert (read("--key=--verbose").key, read("--key", "-x").key, read("--key", "--").key) == ("--verbose", "-x", "--")
    assert (read("--", "-t=x").name, read("-tx").topic) == ("-t=x", "x")
    assert read("--", "--topic").name == "--topic"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--topc", "a"], "No such option '--topc'. Did you mean '--topic'?"),
        (["--top", "a"], "No such option '--top'."),
        (["--verbose", "--topc=a", "--file"], "No such option '--topc'. Did you mean '--topic'?"),
        (["--whitelist"], "--whitelist is not supported: use --topic"),
        (["--whitelist=a", "--topic", ""], "--whitelist is not supported: use --topic"),
        (["--topic", ""], "Invalid value for '--topic' / '-t': must not be empty"),
        (["--topic="], "Invalid value for '--topic' / '-t': must not be empty"),
        (["-t="], "Invalid value for '--topic' / '-t': must not be empty"),
        (["--topic", "--verbose"], "--topic/-t requires an argument; --verbose is an option"),
        (["-t", "--config=a"], "--topic/-t requires an argument; --config=a is an option"),
        (["--config", "a", "--config", "--vrbose"], "--config requires an argument; --vrbose is an option"),
        (["--topic", "-t"], "--topic/-t requires an argument; -t is an option"),
        (["--file", ""], "Invalid value for '--file': must not be empty"),
        (["--config", "a", "--config="], "Invalid value for '--config': must not be empty"),
        ([""], "Invalid value for '[NAME]': must not be empty"),
        (["a", "b"], "Got unexpected extra argument (b)"),
        (["--topic", "a", "--topic", "a"], "--topic/-t is given more than once; it takes one value"),
        (["--topic=a", "--verbose", "-tb"], "--topic/-t is given more than once; it takes one value"),
        (["--state", "--state"], "--state is given more than once; it takes one value"),
    ],
)
def test_wrong_arguments_are_named(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    command, found = parsed_by(*VALUES)
    assert (run(command, "p", arguments), found) == (2, [])
    lines = capsys.readouterr().err.splitlines()
    assert said in lines[0], lines
    assert (lines[0].startswith("p: "), lines[1]) == (True, "Try 'p --help' for help.")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "p: one of --make, --drop is required"),
        (["--drop", "--make"], "p: --make and --drop cannot be used together"),
        (["--drop", "--here", "--there", "x"], "p: --here and --there cannot be used together"),
        (["--drop", "--there", "x"], None),
        (["--drop", "--drop"], None),
    ],
)
def test_of_an_exclusive_group_one_option_is_given(
    arguments: list[str], said: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    command, found = parsed_by(
        flag("--make", group=WHAT),
        flag("--here", group=WHERE),
        flag("--drop", group=WHAT),
        option("--there", group=WHERE),
    )
    assert run(command, "p", arguments) == (2 if said else 0)
    assert capsys.readouterr().err.splitlines()[:1] == ([said] if said else [])
    assert len(found) == (0 if said else 1)


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        (INT16, "32767", None),
        (INT16, "32768", "32768 is not between -32768 and 32767"),
        (INT32, "-2147483648", None),
        (INT32, "-2147483649", "-2147483649 is not between -2147483648 and 2147483647"),
        (INT64, "9223372036854775807", None),
        (INT64, "9223372036854775808", "is not between -9223372036854775808 and 9223372036854775807"),
        (INT64, "first", "'first' is not a valid integer"),
        (POSITIVE, "0", "0 is not in the range x>=1"),
    ],
)
def test_bounds_of_numbers(
    kind: click.ParamType[int], text: str, said: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    command, found = parsed_by(option("--number", type=kind))
    assert run(command, "p", ["--number", text]) == (2 if said else 0)
    assert (said or "") in capsys.readouterr().err
    assert [each.number for each in found] == ([] if said else [int(text)])


def test_help_has_the_groups_first_and_the_epilog_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    command, found = parsed_by(
        version_flag("1.0", "print it"),
        option("--a", metavar="A", help="an a"),
        flag("--make", group=WHAT, help="make it"),
    )
    command.epilog = "examples\n  p --make"
    assert run(command, "p", ["--help"]) == 0
    text = capsys.readouterr().out
    assert (
        text
        == """\
Usage: p [OPTIONS]

  About it.

What:
  --make  make it

Options:
  --version   print it
  --a A       an a
  -h, --help  Show this message and exit.

examples
  p --make
"""
    )
    assert run(command, "p", ["--version", "--a", "1", "--a", "2"]) == 0
    assert (capsys.readouterr().out, found) == ("1.0\n", [])


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InvalidOption("--a: bad"), 2),
        (ToolFailed("no such file"), 1),
        (OSError("no such file"), 1),
        (KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "t"), 1),
    ],
)
def test_errors_are_named_and_have_a_status(error: Exception, status: int, capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise error

    assert run(click.command("c", cls=ToolCommand)(fail), "p", []) == status
    assert capsys.readouterr().err == f"p: {error}\n"


def test_other_errors_are_tracebacks() -> None:
    def fail() -> None:
        raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        run(click.command("c", cls=ToolCommand)(fail), "p", [])


def test_an_interrupted_command() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    assert run(click.command("c", cls=ToolCommand)(interrupted), "p", []) == 130


@click.group("g", cls=Group)
@option("--servers")
def grouped(**_: object) -> None:
    """The option is that of the command."""


@grouped.command("list", help="Print a long line about what it lists, which is not cut off.")
@option("--filter")
def listed(**_: object) -> int:
    """Returns 7."""
    click.echo(sorted(vars(given_options()).items()))
    return 7


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--server", "a", "list"], "p: No such option '--server'. Did you mean '--servers'?"),
        (["--servers", "", "list"], "p: Invalid value for '--servers': must not be empty"),
        (["--servers", "a", "--servers", "b", "list"], "p: --servers is given more than once; it takes one value"),
        (["--servers", "a", "list", "--filtr=x"], "p list: No such option '--filtr'. Did you mean '--filter'?"),
        (["--servers", "a"], "p: Missing command."),
        (["lst"], "p: No such command 'lst'. Did you mean 'list'?"),
    ],
)
def test_options_before_a_command_are_checked(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(grouped, "p", arguments) == 2
    assert capsys.readouterr().err.splitlines()[0] == said


def test_a_command_has_its_options_and_those_of_its_group(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(grouped, "p", ["--servers", "a", "list", "--filter", "x"]) == 7
    assert capsys.readouterr().out == "[('filter', 'x'), ('servers', 'a')]\n"
    assert run(grouped, "p", []) == 2
    assert "  list  Print a long line about what it lists, which is not cut off.\n" in capsys.readouterr().err


def test_commands_of_a_lazy_group_are_imported_when_they_run(capsys: pytest.CaptureFixture[str]) -> None:
    lazy = {"good": Lazy(f"{__name__}:listed", "Is there."), "bad": Lazy("no_such_module:it", "Is not there.")}
    group = LazyGroup({"Section": lazy}, name="g")
    assert run(group, "p", ["--help"]) == 0
    assert "Section:\n  good  Is there.\n  bad   Is not there.\n" in capsys.readouterr().out
    assert run(group, "p", ["good"]) == 7
    assert run(group, "p", ["god"]) == 2
    assert "No such command 'god'. Did you mean 'good'?" in capsys.readouterr().err
    with pytest.raises(ModuleNotFoundError):
        run(group, "p", ["bad"])
