import pytest

from spark_kafka_native.tools.options import parse_pairs, split_list, with_defaults


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
