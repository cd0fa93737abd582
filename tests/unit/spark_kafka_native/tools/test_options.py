import click
import pytest

from spark_kafka_native._command_line.commands import run
from spark_kafka_native._command_line.output import InvalidOption
from spark_kafka_native._command_line.properties import parse_pairs
from spark_kafka_native._tools.configs import configs
from spark_kafka_native._tools.groups.consumer_groups import consumer_groups
from spark_kafka_native._tools.options import split_list, with_defaults
from spark_kafka_native._tools.topics import topics


def test_key_value_options() -> None:
    assert parse_pairs(["a=1", " b = x=y "], "--config") == {"a": "1", "b": "x=y"}


@pytest.mark.parametrize("item", ["a", "=1", ""])
def test_invalid_key_value_option_is_named(item: str) -> None:
    with pytest.raises(InvalidOption, match=r"^--config: KEY=VALUE is expected$"):
        parse_pairs([item], "--config")


def test_properties_that_have_defaults() -> None:
    defaults = {"key.separator": "\t", "print.key": "false"}
    assert with_defaults([], defaults) == defaults
    given = with_defaults(["key.separator= = ", "print.key=true"], defaults)
    assert given == {"key.separator": " = ", "print.key": "true"}
    with pytest.raises(
        InvalidOption,
        match=r"--property: .print\.keys. is not one of key\.separator, print\.key; did you mean print\.key\?",
    ):
        with_defaults(["print.keys=true"], defaults)


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("", []),
        ("a=1", ["a=1"]),
        ("a=1, b=2", ["a=1", "b=2"]),
        ("cleanup.policy=[compact,delete],b=2", ["cleanup.policy=compact,delete", "b=2"]),
    ],
)
def test_commas_in_brackets_are_part_of_a_value(text: str, items: list[str]) -> None:
    assert split_list(text) == items


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        (configs, ["--alter", "--delete-config", "a", "--delete-config", "b,c"]),
        (configs, ["--describe", "--entity-type", "users", "--entity-type", "clients"]),
        (configs, ["--describe", "--entity-type", "users", "--entity-name", "", "--entity-name", "a"]),
        (consumer_groups, ["--describe", "--group", "a", "--group", ""]),
        (consumer_groups, ["--list", "--state", "--type", "classic"]),
        (consumer_groups, ["--describe", "--group="]),
        (consumer_groups, ["--describe", "--members", "--members"]),
        (consumer_groups, ["--reset-offsets", "--topic", "a", "--topic", "b"]),
        (topics, ["--create", "--config", "a=1", "--config", "b=2"]),
    ],
)
def test_options_that_are_repeated_and_empty_in_kafka(
    command: click.Command, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Those that Kafka's tools read by ``valuesOf`` or ``has`` of joptsimple."""
    assert run(command, "p", arguments) == 2
    assert capsys.readouterr().err.endswith(": --bootstrap-server is required\n")


@pytest.mark.parametrize(
    ("command", "arguments", "said"),
    [
        (configs, ["--alter", "--add-config", "a=1", "--add-config", "b=2"], "--add-config is given more than"),
        (configs, ["--alter", "--user", "a", "--user", "b"], "--user is given more than"),
        (configs, ["--alter", "--topic", ""], "'--topic': must not be empty"),
        (consumer_groups, ["--list", "--state", "Empty", "--state", "Dead"], "--state is given more than"),
        (topics, ["--list", "--topic", "a", "--topic", "b"], "--topic is given more than"),
    ],
)
def test_options_that_have_one_value_in_kafka(
    command: click.Command, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those that Kafka's tools read by ``valueOf``."""
    assert run(command, "p", arguments) == 2
    assert said in capsys.readouterr().err
