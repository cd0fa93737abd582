from collections.abc import Callable, Sequence

import pytest

from spark_kafka_native._tools import configs, consumer_groups, topics
from spark_kafka_native._tools.options import parse_pairs, split_list, with_defaults


def test_key_value_options() -> None:
    assert parse_pairs(["a=1", " b = x=y "], "--config") == {"a": "1", "b": "x=y"}


@pytest.mark.parametrize("item", ["a", "=1", ""])
def test_invalid_key_value_option_is_named(item: str) -> None:
    with pytest.raises(ValueError, match=r"--config: .* is not KEY=VALUE"):
        parse_pairs([item], "--config")


def test_properties_that_have_defaults() -> None:
    defaults = {"key.separator": "\t", "print.key": "false"}
    assert with_defaults([], defaults) == defaults
    given = with_defaults(["key.separator= = ", "print.key=true"], defaults)
    assert given == {"key.separator": " = ", "print.key": "true"}
    with pytest.raises(
        ValueError,
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


Main = Callable[[Sequence[str]], int]


@pytest.mark.parametrize(
    ("main", "arguments"),
    [
        (configs.main, ["--alter", "--delete-config", "a", "--delete-config", "b,c"]),
        (configs.main, ["--describe", "--entity-type", "users", "--entity-type", "clients"]),
        (configs.main, ["--describe", "--entity-type", "users", "--entity-name", "", "--entity-name", "a"]),
        (consumer_groups.main, ["--describe", "--group", "a", "--group", ""]),
        (consumer_groups.main, ["--list", "--state", "--state", "--type", "--type", "classic"]),
        (consumer_groups.main, ["--describe", "--members", "--members"]),
        (consumer_groups.main, ["--reset-offsets", "--topic", "a", "--topic", "b"]),
        (topics.main, ["--create", "--config", "a=1", "--config", "b=2"]),
    ],
)
def test_options_that_are_repeated_and_empty_in_kafka(
    main: Main, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Those that Kafka's tools read by ``valuesOf`` or ``has`` of joptsimple."""
    assert main(arguments) == 2
    assert capsys.readouterr().err.endswith(": --bootstrap-server is required\n")


@pytest.mark.parametrize(
    ("main", "arguments", "said"),
    [
        (configs.main, ["--alter", "--add-config", "a=1", "--add-config", "b=2"], "--add-config is given more than"),
        (configs.main, ["--alter", "--user", "a", "--user", "b"], "--user is given more than"),
        (configs.main, ["--alter", "--entity-name="], "--entity-name: must not be empty"),
        (configs.main, ["--alter", "--topic", ""], "--topic: must not be empty"),
        (consumer_groups.main, ["--list", "--state", "Empty", "--state", "Dead"], "--state is given more than"),
        (consumer_groups.main, ["--describe", "--group="], "--group: must not be empty"),
        (topics.main, ["--list", "--topic", "a", "--topic", "b"], "--topic is given more than"),
    ],
)
def test_options_that_have_one_value_in_kafka(
    main: Main, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those that Kafka's tools read by ``valueOf``. joptsimple takes the next argument as the value of ``--group=``."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err
